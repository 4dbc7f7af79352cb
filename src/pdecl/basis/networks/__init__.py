"""Networks that predict basis functions, and wrappers around them."""

from .deeponet import DeepONet as DeepONet
from .deeponet import GatedDeepONet as GatedDeepONet
from .exact import ExactBoundary as ExactBoundary
from .features import Periodic as Periodic
from .fno import FNO as FNO
from .mlp import MLP as MLP
from .modes import Modes as Modes
from .modulated import Modulated as Modulated
from .products import Products as Products
from .wrappers import ExactInitial as ExactInitial
from .wrappers import InSingle as InSingle
from .wrappers import Mollified as Mollified
from .wrappers import Thinned as Thinned
