"""Runs the examples of the gallery, and keeps what each showed for the documentation.

    python examples/gallery.py                 all of them, one after the other
    python examples/gallery.py wave burgers    some
    python examples/gallery.py --quick wave    with the smaller settings of its head; keeps nothing
    python examples/gallery.py --poster        puts some of the pictures together for the README

An example is a script in examples/gallery/ with cells marked `# %%`. It ends with a number `error`,
the relative L2 error against a reference that pdecl had no part in, and with a picture. Its head says
what it is:

    # title: The wave equation
    # statement: u_tt = 4 u_xx
    # kind: linear, time
    # dimensions: 1 + time
    # quick: tolerance = 1e-3

An example with a line `quick` is among the tests, with these settings instead; each is a line
`name = value` of the script. `make gallery` runs all of them as they are. The picture goes to
docs/gallery/NAME.png, its first plot alone to NAME-small.png. What was printed, the error and the
seconds (with compilation, without imports) go to docs/gallery/results.json.
"""

import argparse
import io
import json
import re
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SCRIPTS = Path(__file__).parent / "gallery"
RESULTS = ROOT / "docs" / "gallery"
_POSTER = (
    *("poisson", "kuramoto_sivashinsky", "step_flow", "beam"),
    *("perforated_square", "maxwell", "helmholtz", "elasticity"),
)


@dataclass(frozen=True)
class Example:
    """A script of the gallery: what its head says of it, and its cells, of text and of code in turn."""

    name: str
    title: str
    statement: str
    kind: tuple[str, ...]
    dimensions: str
    quick: dict[str, str]
    cells: tuple[tuple[str, str], ...]

    @property
    def code(self) -> str:
        return "\n".join(text for sort, text in self.cells if sort == "code")


def examples() -> list[Example]:
    """All examples of the gallery, in the order of their names."""
    return [read(path) for path in sorted(SCRIPTS.glob("*.py")) if not path.name.startswith("_")]


def read(path: Path) -> Example:
    """An example from its file."""
    head, *cells = re.split(r"^# %%", path.read_text(), flags=re.MULTILINE)
    said = dict(re.findall(r"^# (\w+): (.+)$", head, flags=re.MULTILINE))
    missing = {"title", "statement", "kind", "dimensions"} - set(said)
    if missing:
        raise ValueError(f"{path}: the head does not say {', '.join(sorted(missing))}.")
    settings = dict(part.split(" = ") for part in said.get("quick", "").split("; ") if part)
    return Example(
        path.stem, said["title"], said["statement"], tuple(said["kind"].split(", ")), said["dimensions"],
        settings, tuple(_cell(cell) for cell in cells),
    )  # fmt: skip


def _cell(source: str) -> tuple[str, str]:
    mark, _, body = source.partition("\n")
    if "[markdown]" not in mark:
        return "code", body.strip()
    return "text", re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()


def quickened(example: Example) -> str:
    """The code with its `quick` settings."""
    code = example.code
    for name, value in example.quick.items():
        code, count = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value}", code, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{example.name}: {count} lines set `{name}`, which `quick` names.")
    return code


def execute(example: Example, quick: bool) -> dict[str, Any]:
    """What the example's names are in the end, and the `seconds` that it took."""
    import jax
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import pdecl  # noqa: F401  (imports are not what an example's time is about)

    jax.config.update("jax_enable_x64", True)
    plt.close("all")
    sys.path.insert(0, str(SCRIPTS))
    names: dict[str, Any] = {"__name__": "__main__"}
    begun, printed = time.perf_counter(), io.StringIO()
    try:
        with redirect_stdout(printed):
            exec(
                compile(quickened(example) if quick else example.code, f"{example.name}.py", "exec"),
                names,
            )
    finally:
        names["printed"] = printed.getvalue()
        print(names["printed"], end="")
    names["seconds"] = time.perf_counter() - begun
    if not float(names["error"]) >= 0:
        raise ValueError(f"{example.name} has no error: {names['error']}.")
    if not plt.get_fignums():
        raise ValueError(f"{example.name} draws nothing.")
    return names


def keep(example: Example, names: dict[str, Any]) -> None:
    """Writes the picture and what was measured."""
    import matplotlib.pyplot as plt
    from PIL import Image

    RESULTS.mkdir(parents=True, exist_ok=True)
    figure = plt.gcf()
    picture, thumbnail = (RESULTS / f"{example.name}{end}.png" for end in ("", "-small"))
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    inside = figure.axes[0].get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    figure.savefig(thumbnail, dpi=80, bbox_inches=inside)  # the first plot, without what is around it
    for path in (picture, thumbnail):
        with Image.open(path) as image:
            image.convert("RGB").save(path, optimize=True)
    path = RESULTS / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[example.name] = {
        "error": float(names["error"]),
        "seconds": round(names["seconds"], 1),
        "printed": names["printed"],
    }
    path.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def poster() -> None:
    """The first plots of some examples, in two rows, in docs/images/gallery.png."""
    from PIL import Image, ImageOps

    width, height, gap = 300, 225, 6
    sheet = Image.new("RGB", (4 * (width + gap) - gap, 2 * (height + gap) - gap), "white")
    for k, name in enumerate(_POSTER):
        with Image.open(RESULTS / f"{name}-small.png") as image:
            inner = ImageOps.crop(image.convert("RGB"), border=3)  # without the frame
            tile = ImageOps.fit(inner, (width, height))
            sheet.paste(tile, (k % 4 * (width + gap), k // 4 * (height + gap)))
    sheet.save(RESULTS.parent / "images" / "gallery.png", optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="which (all)")
    parser.add_argument("--quick", action="store_true", help="with the smaller settings; keeps nothing")
    parser.add_argument("--poster", action="store_true", help="put some of the pictures together")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each (900)")
    options = parser.parse_args()
    if options.poster:
        poster()
        return 0
    known = {example.name: example for example in examples()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    if len(chosen) == 1:
        return _one(chosen[0], options.quick)
    failed = [example.name for example in chosen if _apart(example, options.quick, options.limit)]
    print(
        f"{len(chosen) - len(failed)} of {len(chosen)} examples ran." + (" Not: " if failed else ""),
        *failed,
    )
    return 1 if failed else 0


def _one(example: Example, quick: bool) -> int:
    try:
        names = execute(example, quick)
    except Exception:
        traceback.print_exc()
        return 1
    if not quick:
        keep(example, names)
    print(f"{example.name}: error {float(names['error']):.2g}, {names['seconds']:.1f} s", flush=True)
    return 0


def _apart(example: Example, quick: bool, limit: float) -> int:
    """An example in a process of its own, which an error or a crash does not survive."""
    command = [sys.executable, __file__, example.name, *(["--quick"] if quick else [])]
    try:
        return subprocess.run(command, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        print(f"{example.name}: stopped after {limit:.0f} s")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
