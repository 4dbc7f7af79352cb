"""How a solve ended, in words, and what to try next."""

import enum
from typing import Any

import numpy as np


class Status(enum.IntEnum):
    """How a solve ended. `str(status)` says it in words, `status.advice` what to try next."""

    PREDICTED = -1
    SOLVED = 0
    OVERDETERMINED = 1
    NOT_CONVERGED = 2
    ILL_CONDITIONED = 3
    CONSTRAINTS_INCONSISTENT = 4
    NONFINITE_INPUT = 5
    NONFINITE_NETWORK = 6
    NONFINITE_EQUATION = 7
    REJECTED = 8
    NOT_HELD = 9
    TOLERANCE_NOT_MET = 10
    AMPLIFIED = 11

    def __str__(self) -> str:
        return _WORDS[self][0]

    @property
    def advice(self) -> str:
        return _WORDS[self][1]

    @property
    def failed(self) -> bool:
        """Whether the weights should not be used. Raised as an exception unless `throw=False`."""
        return self > Status.OVERDETERMINED and self is not Status.AMPLIFIED


def usable(codes: Any) -> np.ndarray:
    """For each code whether there is an answer that can be used."""
    return np.isin(codes, [int(status) for status in Status if not status.failed])


class SolveError(RuntimeError):
    """A solve failed. `status` says how; `detail`, if there is any, of what and by how much."""

    def __init__(self, status: Status, where: str = "", detail: str = ""):
        super().__init__(" ".join(filter(None, (f"{status}{where}.", detail, status.advice))))
        self.status, self.where, self.detail = status, where, detail

    def __reduce__(self) -> Any:  # it passes between processes
        return type(self), (self.status, self.where, self.detail)


_WORDS = {
    Status.PREDICTED: (
        "given: the weights were predicted by the network, not solved for",
        "Look at the residuals; `solve` finds the weights instead.",
    ),
    Status.SOLVED: ("solved", ""),
    Status.OVERDETERMINED: (
        "solved, with more Enforce rows than functions",
        "The rows cannot all hold: their violation is as small as it can be. To make them hold, "
        "enforce at fewer points or use more functions.",
    ),
    Status.NOT_CONVERGED: (
        "not converged",
        "Raise max_steps, loosen rtol, start nearer (`initial=`), or look whether the conditions "
        "have a solution for this φ.",
    ),
    Status.ILL_CONDITIONED: (
        "ill-conditioned",
        "The linear system could not be solved accurately: raise `ridge`, use `QR()`, fewer functions "
        "or more points, and look whether an Energy is really convex.",
    ),
    Status.CONSTRAINTS_INCONSISTENT: (
        "constraints inconsistent",
        "The Enforce conditions contradict each other on this basis: their violation is as small as it "
        "can be, not zero. Enforce at fewer points, use more functions, or turn some into Fit.",
    ),
    Status.NONFINITE_INPUT: (
        "non-finite input",
        "φ or the data at the points has entries that are NaN or infinite.",
    ),
    Status.NONFINITE_NETWORK: (
        "non-finite network output",
        "The basis or one of its derivatives is NaN or infinite at some point: look at its parameters, "
        "and at functions without derivative, such as sqrt at zero.",
    ),
    Status.NONFINITE_EQUATION: (
        "non-finite equation",
        "An equation is NaN or infinite although u and φ are finite: look for a division by zero or a "
        "root of a negative number at the points.",
    ),
    Status.REJECTED: (
        "rejected",
        "This φ has entries that are NaN or infinite, the wrong length, or values that its family does "
        "not allow; the message beside it says which. Correct it and solve again: the other φ are "
        "answered all the same.",
    ),
    Status.NOT_HELD: (
        "a condition does not hold",
        "The best combination of these functions leaves a residual that is not small beside the terms "
        "of the condition. Try more functions, steeper ones, or ones that know the domain; more points, "
        "if `solution.residual` is small; for nonlinear conditions a start nearer (`initial=`). To get "
        "the answer all the same: `throw=False`, or a higher `residual_limit`.",
    ),
    Status.AMPLIFIED: (
        "the residuals are small, the error may be large",
        "Other combinations of these functions, far from this one, leave as little of the conditions: "
        "the equation amplifies what is left, or a condition is missing. Look whether each side of the "
        "domain has its condition; try more functions, a larger `weight` for the condition that is held "
        "least, shorter times, or a solve to a tolerance (`tolerance=`).",
    ),
    Status.TOLERANCE_NOT_MET: (
        "the tolerance is not met",
        "Ask for less (`tolerance=`), allow more seconds (`budget=`), or look whether the problem has a "
        "solution, smooth and finite, on the whole box. To get what there is: `throw=False`.",
    ),
}
