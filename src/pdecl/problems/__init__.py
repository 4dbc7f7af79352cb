"""The problems the method is judged on: families like any other, each in a folder of its own."""

from .burgers import Burgers as Burgers
from .convection import Convection as Convection
from .darcy import Darcy as Darcy
