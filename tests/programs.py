"""What a program that is compiled for a CPU asks LAPACK and FFTs for."""

import re
import sys
from pathlib import Path

from jax._src import compiler

_CALL = re.compile(r"lapack_\w+")
_SHAPES = re.compile(r"tensor<((?:\d+x)*)|\b[fc]\d+\[([\d,]*)\]")


def blocking(text):
    """The calls in a program, as it is lowered or as it is optimised, that wait for other threads of the
    pool they are run by: FFTs, and LAPACK's for anything but a single matrix."""
    found = [line for line in text.splitlines() if re.search(r"[\]}] fft\(|stablehlo\.fft", line)]
    for line in text.splitlines():
        if _CALL.search(line):
            shapes = [len(re.findall(r"\d+", a or b)) for a, b in _SHAPES.findall(line)]
            found += [line] if max(shapes) > 2 else []
    return [line.strip()[:300] for line in found]


def calls(text):
    """How many calls of LAPACK there are."""
    return len(_CALL.findall(text))


def watch():
    """From now on no program in which pdecl has a part is compiled that could stand still.

    Its optimised text is looked at, whatever compiles it: of every verb and every shipped model that a
    test runs. That two such calls are ordered is not asked: there are none at all.
    """
    compile_program = compiler.compile_or_get_cached

    def checked(*arguments, **options):
        executable = compile_program(*arguments, **options)
        for module in executable.hlo_modules():
            text = module.to_string()
            if _is_of_pdecl(text) and (found := blocking(text)):
                raise AssertionError(f"a program of {module.name} may stand still: {found[0]}")
        return executable

    compiler.compile_or_get_cached = checked


def _is_of_pdecl(text):
    """By the files that its operations come from: a test's own arrays may be factorised as one likes."""
    package = sys.modules.get("pdecl")
    return package is not None and str(Path(package.__file__).parent) in text
