"""What the method's paper reports, for lines and columns beside ours.

Négiar, Mahoney, Krishnapriyan, *Learning differentiable solvers for systems with hard constraints*,
ICLR 2023: 1000 training φ, 50 unseen ones. The numbers themselves stand with each family.
"""

from ..family import Reported
from .words import installed

# Until the soft model's best error the hard one needs this many times fewer steps, and less time.
FEWER_STEPS, LESS_TIME = 100, 10


def reported(problem: str, method: str) -> Reported | None:
    """What the paper reports of a problem, if anything."""
    family = installed(problem)
    return None if family is None else family.reported.get(method)
