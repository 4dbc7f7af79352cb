"""Splines of all unknowns, as what a solution is evaluated by."""

from typing import Any

import numpy as np

from ..rows import Equations
from ..space import Space
from .splines import Hierarchy


class Splines(Space):
    """Each unknown is a combination of the same functions."""

    def __init__(self, equations: Equations, functions: Hierarchy):
        super().__init__(equations)
        self.functions = functions
        self.allot(dict.fromkeys(self.unknowns, functions.size))

    def values(self, u: str, coords: np.ndarray, orders: tuple[int, ...]) -> Any:
        return self.functions.values(coords, self.functions.locate(coords), orders)
