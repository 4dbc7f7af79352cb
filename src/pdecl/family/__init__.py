"""A PDE with its parameters: what everything beyond the layer asks of a problem.

family.py    the questions, each with an answer that holds for any PDE
own.py       a plain `Problem` as a family
registry.py  from a word (a name, a file) to a family
"""

from .family import CALIBRATING as CALIBRATING
from .family import SPLITS as SPLITS
from .family import Family as Family
from .family import Reported as Reported
from .family import Split as Split
from .family import describe as describe
from .family import phi_like as phi_like
from .family import richer as richer
from .family import stated as stated
from .preset import Network as Network
from .preset import Preset as Preset
from .preset import Training as Training
from .registry import named as named
from .registry import names as names
from .registry import resolve as resolve
from .registry import shipped as shipped
