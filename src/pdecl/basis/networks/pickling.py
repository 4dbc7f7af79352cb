"""Networks that can be pickled and copied although compiled functions, such as jnp.tanh, cannot."""

import functools
import importlib
from typing import Any


class Pickled:
    """A module whose fields may be functions of JAX: those go by the name they are imported under."""

    def __reduce__(self) -> Any:
        fields = {name: _named(value) for name, value in vars(self).items()}
        return _restored, (type(self), fields)


class _Name(tuple[str, str]):
    """Where a function is imported from."""


def _named(value: Any) -> Any:
    place: Any = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return _Name(place) if all(place) and _imported(*place) is value else value


def _imported(module: str, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (AttributeError, ImportError):
        return None


def _restored(cls: type, fields: dict[str, Any]) -> Any:
    module: Any = object.__new__(cls)
    for name, value in fields.items():
        vars(module)[name] = _imported(*value) if isinstance(value, _Name) else value
    return module
