"""Convection u_t + β(x) u_x = 0 on (0, 1)², u(x, 0) = sin πx, u(0, t) = sin(πt/2); φ is β."""

from .family import Convection as Convection
from .spline import slopes as slopes
from .spline import speed as speed

family = Convection()
