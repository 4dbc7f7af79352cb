"""What a problem states, as plain data that goes with a trained basis; and how two problems differ.

A model file holds no code, so the problem comes from the user and has to be recognised. Programs change
their text from one version of JAX to the next. So each equation is known by its values at a few points,
for a made-up u and φ: the same mathematics gives the same numbers, however it is written.

A model file runs nothing and names nothing that is run. A run's folder that was made on this machine
may, in its run.json: the user named that file then, with `pdecl train`.
"""

import hashlib
import json
import platform
import uuid
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PyTree

from ..state.condition import Condition, asks_for, local, located
from ..state.domain import Region
from ..state.points import Points
from ..state.problem import Problem
from ..support.files import write_json
from .family import Family
from .registry import resolve

_PLACES = 3
_CLOSE = 1e-6
_GOLDEN = (5**0.5 - 1) / 2
_RECORD = "run.json"


def identity(problem: Problem) -> dict[str, Any]:
    """The domain, the unknowns, how φ is built, and what each condition reads and gives."""
    domain, like = problem.domain, problem.phi_like
    leaves = jax.tree.leaves(like)
    return {
        "domain": {name: list(ends) for name, ends in zip(domain.names, domain.bounds, strict=True)},
        "unknowns": list(problem.unknowns),
        "phi": [list(leaf.shape) for leaf in leaves] if problem.parameter is not None else None,
        "conditions": {
            name: {"kind": condition.kind, "where": _where(condition.on), **_probed(problem, condition)}
            for name, condition in zip(problem.names(), problem.conditions, strict=True)
        },
        "law": _numbers(problem.parameter(jr.key(0))) if problem.parameter is not None else None,
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What two problems do not share, in words; a distribution of φ alone makes no other problem."""
    words = {"domain": "the domain", "unknowns": "the unknowns", "phi": "the shape of φ"}
    differing = [said for name, said in words.items() if one.get(name) != other.get(name)]
    ours, theirs = one["conditions"], other["conditions"]
    for name in {**ours, **theirs}:
        if name not in ours or name not in theirs:
            differing.append(f"the condition {name!r} is in one of them only")
        elif not _alike(ours[name], theirs[name]):
            differing.append(f"the condition {name!r}")
    return differing


def keep_record(folder: Path, word: str | None, problem: Problem) -> None:
    """Keeps the user's word for a problem, and what that states."""
    plain = {"problem": word, "machine": _machine(), "stated": identity(problem)}
    write_json(folder / _RECORD, plain)


def changes(folder: Path, problem: Problem) -> list[str]:
    """What is stated now and was not when the run began, in words."""
    before = _read(folder).get("stated")
    return differences(before, identity(problem)) if before else []


def word_of(folder: Path) -> str | None:
    """What the user of this machine called a run's problem."""
    plain = _read(folder)
    return plain.get("problem") if plain.get("machine") == _machine() else None


def of_run(folder: Path) -> Family | None:
    """The family that a run's own record names, if the run was made on this machine."""
    word = word_of(folder)
    return resolve(word) if word else None


def _read(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / _RECORD).read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _machine() -> str:
    return hashlib.sha256(f"{platform.node()} {uuid.getnode()}".encode()).hexdigest()[:16]


def _where(on: object) -> Any:
    return [list(map(list, on.sides)), on.paired] if isinstance(on, Region) else type(on).__name__


def _probed(problem: Problem, condition: Condition) -> dict[str, Any]:
    """The entries that an equation reads, and its values."""
    names, phi = problem.domain.names, jax.tree.map(_made_up, problem.phi_like)
    points = _points(condition)
    entries, _ = asks_for(condition, problem.unknowns, names, points, phi)
    ordered = sorted(entries, key=str)
    rows = local(condition, problem.unknowns, names)
    values = []
    for place in range(min(_PLACES, len(points))):
        where = jax.tree.map(lambda leaf, place=place: leaf[place], located(points))
        read = {
            entry: jnp.asarray(0.2 + ((place + 3 * number + 1) * _GOLDEN) % 1)
            for number, entry in enumerate(ordered)
        }
        values += _numbers(rows(read, where, phi))
    return {"reads": list(map(str, ordered)), "gives": values}


def _points(condition: Condition) -> Points:
    on = condition.on
    if isinstance(on, Region):
        return on.low_discrepancy(max(_PLACES, len(on.sides))).draw(None, _PLACES)
    return on if isinstance(on, Points) else on(jr.key(0))


def _made_up(leaf: jax.ShapeDtypeStruct) -> Any:
    """Numbers between 0.3 and 0.7 instead of an array of φ."""
    values = 0.3 + 0.4 * ((np.arange(1, leaf.size + 1) * _GOLDEN) % 1).reshape(leaf.shape)
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        values = np.ones(leaf.shape)
    return jnp.asarray(values, leaf.dtype)


def _numbers(tree: PyTree) -> list[float]:
    flat = [np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)]
    return [round(float(x), 12) for part in flat for x in part[:8]]


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    exact = all(one.get(name) == other.get(name) for name in ("kind", "where", "reads"))
    a, b = (np.asarray(c["gives"], float) for c in (one, other))
    return exact and a.shape == b.shape and np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
