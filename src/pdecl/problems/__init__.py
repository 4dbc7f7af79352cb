"""The problems the method is judged on: each with its law of φ and reference solvers to trust."""

from .burgers import Burgers
from .convection import Convection
from .darcy import Darcy
from .law import SPLITS, Law, Split, describe

__all__ = ["NAMES", "SPLITS", "Burgers", "Convection", "Darcy", "Law", "Split", "describe", "named"]

_LAWS: dict[str, type[Darcy] | type[Burgers] | type[Convection]] = {
    law.name: law for law in (Darcy, Burgers, Convection)
}
NAMES = tuple(_LAWS)


def named(name: str, **constants: float) -> Law:
    """The law of that name (one of `NAMES`); `constants` replace its defaults."""
    if name not in _LAWS:
        raise ValueError(f"there is no problem {name!r}; choose one of {', '.join(NAMES)}")
    return _LAWS[name](**constants)  # type: ignore[arg-type]
