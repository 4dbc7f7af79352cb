"""Linear solvers, and Gauss–Newton which is built on them."""

from .base import LinearSolver as LinearSolver
from .direct import QR as QR
from .direct import Cholesky as Cholesky
from .gauss_newton import GaussNewton as GaussNewton
from .iterative import CG as CG
from .iterative import GMRES as GMRES
from .iterative import LSMR as LSMR
