"""Networks that propose basis functions, and what wraps them."""

from .basis import Basis as Basis
from .grid import ElementBasis as ElementBasis
from .grid import GridBasis as GridBasis
from .networks import FNO as FNO
from .networks import MLP as MLP
from .networks import Creased as Creased
from .networks import DeepONet as DeepONet
from .networks import ExactInitial as ExactInitial
from .networks import GatedDeepONet as GatedDeepONet
from .networks import InSingle as InSingle
from .networks import Modulated as Modulated
from .networks import Mollified as Mollified
from .networks import Periodic as Periodic
from .networks import Products as Products
from .networks import Thinned as Thinned
