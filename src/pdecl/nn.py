"""Networks that predict basis functions, and what wraps them."""

from .basis.basis import Basis as Basis
from .basis.grid import ElementBasis as ElementBasis
from .basis.grid import GridBasis as GridBasis
from .basis.networks import FNO as FNO
from .basis.networks import MLP as MLP
from .basis.networks import DeepONet as DeepONet
from .basis.networks import ExactBoundary as ExactBoundary
from .basis.networks import ExactInitial as ExactInitial
from .basis.networks import GatedDeepONet as GatedDeepONet
from .basis.networks import InSingle as InSingle
from .basis.networks import Modulated as Modulated
from .basis.networks import Mollified as Mollified
from .basis.networks import Periodic as Periodic
from .basis.networks import Products as Products
from .basis.networks import Thinned as Thinned
from .layer.creased import Creased as Creased
