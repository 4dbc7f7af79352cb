"""Burgers' equation u_t + ½(u²)_x = ν u_xx, periodic on (0, 1), t in (0, 1); φ is u₀ at sensors."""

from .family import Burgers as Burgers
from .interpolant import coefficients as coefficients
from .interpolant import initial as initial

family = Burgers()
