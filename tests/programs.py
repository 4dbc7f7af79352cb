"""What a program that is compiled for a CPU asks LAPACK and FFTs for."""

import re

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
