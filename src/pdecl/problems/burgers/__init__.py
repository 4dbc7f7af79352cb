"""Burgers' equation u_t + ½(u²)_x = ν u_xx, periodic on (0, 1), t in (0, 1); φ is u₀ at sensors."""

from .interpolant import coefficients as coefficients
from .interpolant import initial as initial
from .law import Burgers as Burgers

family = Burgers()
