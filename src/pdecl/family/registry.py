"""From a word to a family: a name, a .py file, or `package.module:name`.

Families that come with pdecl are folders in `pdecl/problems`; other packages register theirs by an entry
point of the group "pdecl.problems". A file or a module is run because a user names it: no model file
names what is run.
"""

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module, metadata, util
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from ..state.problem import Problem
from .family import Family
from .own import own

GROUP = "pdecl.problems"
_USUAL = ("family", "problem")  # the variables of a module that are looked for first


@cache
def shipped() -> tuple[str, ...]:
    """The names of the families that come with pdecl."""
    package = util.find_spec(GROUP)
    assert package is not None
    return tuple(
        sorted(found.name for found in iter_modules(package.submodule_search_locations) if found.ispkg)
    )


def names() -> tuple[str, ...]:
    """The names of all families that are installed."""
    return (*shipped(), *sorted(_registered()))


def named(name: str, **constants: Any) -> Family:
    """The installed family of that name; `constants` replace its defaults."""
    if name in shipped():
        return _in_module(import_module(f"{GROUP}.{name}"), name).replaced(**constants)
    if name in _registered():
        point = _registered()[name]
        return _at(point.module, point.attr, name, point.value).replaced(**constants)
    raise ValueError(f"there is no problem {name!r}; choose one of {', '.join(names())}")


def resolve(word: str | os.PathLike[str]) -> Family:
    """The family behind a word of the user's: an installed name, the path of a .py file, or
    `package.module:name`."""
    text = str(word)
    if text in names():
        return named(text)
    path = Path(text)
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise ValueError(
                f"{path}: there is no such file. `pdecl new {path}` writes one to begin with."
            )
        return _in_file(path.resolve(), path.stat().st_mtime_ns)
    if ":" in text:
        module_name, _, name = text.partition(":")
        plain = module_name.rpartition(".")[2] if name in _USUAL else name
        return _at(module_name, name, plain.replace("_", "-"), text)
    raise ValueError(
        f"there is no problem {text!r}; give one of {', '.join(names())}, the path of a .py file that "
        "states one, or package.module:name."
    )


def _at(module_name: str, attribute: str | None, name: str, where: str) -> Family:
    """What a module has under a name, with what it states beside it; without a name, what it states."""
    module = _run(lambda: import_module(module_name), where)
    if not attribute:
        return _in_module(module, name)
    if not hasattr(module, attribute):
        raise ValueError(f"{where}: the module {module_name} has no {attribute!r}.")
    return _as_family(getattr(module, attribute), name, vars(module))


@cache
def _registered() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


@cache
def _in_file(path: Path, changed: int) -> Family:
    """A file is run once for each time that it was written."""
    spec = util.spec_from_file_location(f"pdecl_problem_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module, loader = util.module_from_spec(spec), spec.loader
    sys.modules[spec.name] = module  # dataclasses look for themselves there
    sys.path.insert(0, str(path.parent))  # a file may import its neighbours, as a script may
    try:
        _run(lambda: loader.exec_module(module), str(path))
    finally:
        sys.path.remove(str(path.parent))
    return _in_module(module, path.stem.replace("_", "-"))


def _run(load: Callable[[], Any], where: str) -> Any:
    try:
        return load()
    except Exception as error:
        places = [f"line {frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
                  if frame.filename == where]  # fmt: skip
        at = f", {places[-1]}" if places else ""
        raise ValueError(f"{where}{at}: {type(error).__name__}: {error}") from error


def _in_module(module: ModuleType, name: str) -> Family:
    """What a module states: `family`, `problem`, or the only family or problem in it."""
    stated = vars(module)
    for word in _USUAL:
        if word in stated and _is_one(stated[word]):
            return _as_family(stated[word], name, stated)
    there = {key: value for key, value in stated.items() if _is_one(value) and _is_own(value, module)}
    if len(there) != 1:
        found = f"it has {', '.join(there)}" if there else "it has none"
        raise ValueError(
            f"{module.__file__} must state one pdecl.Problem, in a variable `problem`; {found}."
        )
    (only,) = there.values()
    return _as_family(only, name, stated)


def _is_one(value: object) -> bool:
    a_class = isinstance(value, type) and issubclass(value, Family) and value is not Family
    return a_class or isinstance(value, Family | Problem)


def _is_own(value: object, module: ModuleType) -> bool:
    """Whether a class was made in the module, not imported into it."""
    return not isinstance(value, type) or value.__module__ == module.__name__


def _as_family(value: object, name: str, stated: Mapping[str, Any]) -> Family:
    if isinstance(value, type) and issubclass(value, Family):
        value = value()
    if isinstance(value, Problem):
        return own(value, name, stated)
    if isinstance(value, Family):
        return value
    raise ValueError(f"{name} is a {type(value).__name__}; a pdecl.Problem or a Family is needed.")
