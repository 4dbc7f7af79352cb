"""The type checker of the tests: beartype, at the functions of a module and the methods of a class."""

from collections.abc import Callable
from typing import Any

import beartype

# The numeric tower: where a float is asked for, an int will do.
_checked = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function inside another one would be wrapped anew in each call: a tenth of all tests' time."""
    return function if "<locals>" in function.__qualname__ else _checked(function)
