"""pdecl: neural networks that obey partial differential equations."""

from .condition import Energy as Energy
from .condition import Enforce as Enforce
from .condition import Fit as Fit
from .domain import Box as Box
from .grid import ElementBasis as ElementBasis
from .grid import GridBasis as GridBasis
from .networks import MLP as MLP
from .points import Points as Points
from .problem import Problem as Problem
from .solve import Solution as Solution
from .solve import solve as solve
from .solvers import CG as CG
from .solvers import GMRES as GMRES
from .solvers import LSMR as LSMR
from .solvers import QR as QR
from .solvers import SVD as SVD
from .solvers import Cholesky as Cholesky
from .solvers import GaussNewton as GaussNewton
from .status import SolveError as SolveError
from .status import Status as Status
from .train import History as History
from .train import fit as fit
