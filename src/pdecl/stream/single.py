"""Solutions one after the other, for what is written of each: meshes for ParaView."""

from collections.abc import Iterator
from typing import Any

import jax

from ..family import phi as phis
from ..family.trained import Trained
from ..layer.solution import RESIDUAL_LIMIT, Solution, worst_held
from ..reduced import Compiled
from ..reduced.validation import validate
from ..support.status import Status
from .answers import trained_of
from .phi import Source
from .summary import usable


def one_by_one(
    model: Trained | Compiled, source: Source, residual_limit: float = RESIDUAL_LIMIT
) -> Iterator[tuple[Solution | None, int, str]]:
    """For each φ its solution, the code of its `Status` and what is wrong, "" for nothing; None for a φ
    that was rejected."""
    family = trained_of(model).family
    for batch in source.batches(0, 1):
        good, messages = validate(family, source.shape, batch)
        if 0 not in good:
            yield None, int(Status.REJECTED), messages[0]
            continue
        solution = _solved(model, phis.stack([good[0]]), residual_limit)
        code = int(solution.code)
        words = "" if usable(code) else str(Status(code))
        if code == Status.NOT_HELD and solution.measured is not None:
            words = f"{words}: {worst_held(solution.problem, solution.measured)}"
        yield solution, code, words


def _solved(model: Trained | Compiled, phi: Any, limit: float) -> Solution:
    found: Solution
    if isinstance(model, Compiled):
        found = model(phi, throw=False, residual_limit=limit)
    elif model.experiment.method == "soft":
        found = model.solve(phi, throw=False)
    else:
        found = model.solve(phi, throw=False, residual_limit=limit)
    return jax.tree.map(lambda leaf: leaf[0], found)
