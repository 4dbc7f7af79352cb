"""Darcy flow through two materials: −∇·(ν∇u) = 1 on (0, 1)², u = 0 on the boundary; φ is ν."""

from .family import Darcy as Darcy

family = Darcy()
