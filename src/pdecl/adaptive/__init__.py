"""Solves a PDE on a box for one φ to a tolerance, without a basis of the user's.

Piecewise polynomials in every space coordinate, with the equation at Gauss points (collocation as in
COLSYS), and Radau IIA in a coordinate that can be marched along. Meshes, slabs and degrees follow the
tolerance; the error is estimated by a richer solution that goes beside it.

`reading` says what the conditions say; `pieces`, `grid` and `degrees` are the functions; `slab` and
`inverse` solve one slab; `marching` and `levels` choose; `answer` is what comes back.
"""

from .answer import Adaptive as Adaptive
from .effort import Budget as Budget
from .many import AdaptiveMany as AdaptiveMany
from .solve import solve_many_to_tolerance as solve_many_to_tolerance
from .solve import solve_to_tolerance as solve_to_tolerance
from .traced import Traced as Traced
