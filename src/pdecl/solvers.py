"""Linear solvers, and Gauss–Newton which is built on them."""

from .layer.solvers.base import LinearSolver as LinearSolver
from .layer.solvers.direct import QR as QR
from .layer.solvers.direct import Cholesky as Cholesky
from .layer.solvers.gauss_newton import GaussNewton as GaussNewton
from .layer.solvers.iterative import CG as CG
from .layer.solvers.iterative import GMRES as GMRES
from .layer.solvers.iterative import LSMR as LSMR
