"""A family as a fast solver: what does not depend on φ is done once.

solver = pdecl.compile(problem, basis, phis, functions=96, at=problem.domain.mesh(101, 101))
solution = solver(phi)

`compile` takes the functions of a trained basis, `train` the POD modes of the library's own solutions
to a tolerance (`common` puts them into one space). `fit` is the verb of training, with or without a
network.
"""

from .compile import compile as compile
from .direct import Direct as Direct
from .file import load_compiled as load_compiled
from .fit import fit as fit
from .recommend import Recommendation as Recommendation
from .recommend import Setting as Setting
from .recommend import recommend as recommend
from .snapshots import Snapshots as Snapshots
from .snapshots import take_snapshots as take_snapshots
from .solver import Compiled as Compiled
from .solver import CompiledSolution as CompiledSolution
