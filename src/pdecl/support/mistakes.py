"""Mistakes in what a user hands over, in a sentence each: what was found, where, what to write instead.

Equations, bases and distributions of φ are run by JAX for all points and all φ at once, on values
without numbers. What goes wrong then JAX says in its own terms; `ask` says it in ours.
"""

import inspect
import linecache
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import errors
from jaxtyping import PyTree

from .types import Phi

_LIBRARIES = {
    "pdecl",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "jaxtyping",
    "beartype",
    "functools",
}

_UNKNOWN = "a value that stands for all points and all φ at once"
_WORDS: list[tuple[type[Exception], str]] = [  # a class before those that it is derived from
    (
        errors.TracerBoolConversionError,
        f"`if`, `and`, `or`, `not`, `max`, `min` and a < b < c cannot decide by {_UNKNOWN}. "
        "Write jnp.where(condition, a, b), & for `and`, | for `or`, jnp.maximum for `max`.",
    ),
    (
        errors.TracerArrayConversionError,
        f"a function or an array of NumPy was given {_UNKNOWN}. "
        "Write jnp.sin for np.sin, and jnp.asarray(table)[i] for the entry of an array.",
    ),
    (
        errors.TracerIntegerConversionError,
        f"an index, a length or a count cannot be {_UNKNOWN}. "
        "Write jnp.asarray(table)[i] for the entry of a list or an array.",
    ),
    (
        errors.NonConcreteBooleanIndexError,
        f"entries cannot be picked by {_UNKNOWN}. Write jnp.where(mask, a, b).",
    ),
    (
        errors.ConcretizationTypeError,
        f"`float`, `int`, `.item()` and the functions of `math` cannot make a number of {_UNKNOWN}. "
        "Write jnp.sin for math.sin, and leave conversions out.",
    ),
]
_OBJECTS = {  # ours, or a user's, that JAX finds where it wants arrays
    ".jet.Jet'": 'u stands for a function: write u() for its value, u.d("x") for a derivative.',
    ".jet.Fields'": "the first argument holds one function for each unknown: write w.u() for the "
    'value of u, w.u.d("x") for a derivative.',
    ".points.Point'": "z stands for a point: write z.x for a coordinate.",
    "is not a valid JAX type": "what it returns must be numbers and arrays, or dictionaries, tuples and "
    "lists of them.",
}


def ask(what: str, function: Callable[..., Any], *arguments: Any, phi: Phi = None) -> Any:
    """What a user's function returns. `what` names it in errors, "Fit 'pde'".

    An error of its own stays what it is, with a note that names the function. One that comes of tracing
    is said in plain words instead, and its traceback ends with the user's line.
    """
    try:
        return function(*arguments)
    except Exception as error:
        words = _in_plain_words(error)
        frames = _frames(error)
        place = f" ({_line_of(frames[-1])})" if frames else ""
        if words is None:
            given = "" if phi is None else f", where phi is {in_words(phi)}"
            error.add_note(f"This was raised in {what}{place}{given}.")
            raise
        trace = None
        for frame in reversed(frames[1:]):
            trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        raise TypeError(f"{what}: {words}{place}").with_traceback(trace) from None


def require_arguments(
    what: str, function: Callable[..., Any], names: tuple[str, ...], advice: str = ""
) -> None:
    """That a function can be called with as many arguments; what has no signature is believed."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*names)
    except TypeError:
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        signature = signature.replace(parameters=plain, return_annotation=signature.empty)
        count = {1: "one argument", 2: "two arguments", 3: "three arguments"}[len(names)]
        raise TypeError(
            f"{what} must be a function of {count}, ({', '.join(names)}); "
            f"found one of {signature}.{advice}"
        ) from None


def require_key(key: object, where: str) -> None:
    """That this is one random key of JAX, of the new style or the old."""
    example = "write `key=jax.random.key(0)`"
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if typed and shape:
        raise ValueError(
            f"{where}: `key` must be a single key; found {shape[0]} of them: pass one, key[0]."
        )
    if not typed and not (dtype == np.uint32 and len(shape or ()) == 1):
        raise TypeError(f"{where}: `key` must be a random key of JAX; found {found(key)}: {example}.")


def found(thing: object) -> str:
    """What a thing is, for "…; found …"."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if thing is None or isinstance(thing, bool | int | float | complex | str):
        return repr(thing)
    if isinstance(thing, jax.core.Tracer):
        return "a value that JAX traces"
    if inspect.isroutine(thing):
        return f"the function {thing.__name__}"
    known = isinstance(thing, tuple | list | dict | jax.Array)
    return in_words(thing) if known else type(thing).__name__


def in_words(tree: PyTree) -> str:
    """How a φ is built: "a dictionary of 'a' (one number) and 'k' (an array of shape (3,))"."""
    if isinstance(tree, dict):
        parts = [f"{key!r} ({in_words(value)})" for key, value in tree.items()]
        return f"a dictionary of {_listed(parts)}" if parts else "an empty dictionary"
    if isinstance(tree, tuple | list):
        name, parts = type(tree).__name__, [in_words(part) for part in tree]
        return f"a {name} of {len(tree)}" + (f" ({', '.join(parts)})" if 0 < len(parts) < 5 else "")
    if tree is None or isinstance(tree, str):
        return repr(tree)
    if isinstance(tree, bool | int | float | complex):
        return "one number"
    shape = getattr(tree, "shape", None)
    if shape is None:
        return type(tree).__name__
    return f"an array of shape {tuple(shape)}" if shape else "one number"


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]


def _in_plain_words(error: Exception) -> str | None:
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    if isinstance(error, TypeError | ValueError):
        for name, words in _OBJECTS.items():
            if name in str(error):
                return words
    return None


def _frames(error: Exception) -> list[TracebackType]:
    """The traceback from `ask` to the last line that is not a library's; empty if all are."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while frames and frames[-1].tb_frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        frames.pop()
    return frames


def _line_of(frame: TracebackType) -> str:
    path = frame.tb_frame.f_code.co_filename
    text = linecache.getline(path, frame.tb_lineno).strip()
    return f"{path.rsplit('/', 1)[-1]}, line {frame.tb_lineno}" + (f": {text}" if text else "")
