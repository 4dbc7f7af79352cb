"""A trained basis as a fast solver: what can be done once is done once.

solver = pdecl.compile(problem, basis, phis, functions=96, at=problem.domain.mesh(101, 101))
solution = solver(phi)
"""

from .file import is_compiled as is_compiled
from .file import load_compiled as load_compiled
from .make import compile as compile
from .recommend import Recommendation as Recommendation
from .recommend import Setting as Setting
from .recommend import recommend as recommend
from .snapshots import Snapshots as Snapshots
from .snapshots import take_snapshots as take_snapshots
from .solver import Compiled as Compiled
from .solver import CompiledSolution as CompiledSolution
