"""Single mistakes in a Python file: what `mutation.py` puts into a copy of the package, one at a time.

A mistake replaces one piece of the source: an operator by its opposite, a sum by one of its terms, a
number by its double. What cannot be a mistake is left out by rule: messages, annotations, choices
(defaults of options, tolerances and limits, numbers below 1/1000 or from 100 on), and what decides how
fast something is and not what it is. Single mutants that change nothing are listed, with the reason.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS: dict[type, tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
_COMPARISONS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", ">="), ast.GtE: (">=", "<"), ast.Gt: (">", "<="), ast.LtE: ("<=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_OPPOSITES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "all": "any", "any": "all",
    "floor": "ceil", "ceil": "floor", "sin": "cos", "cos": "sin", "argmin": "argmax", "up": "down",
    "down": "up", "zeros_like": "ones_like", "ones_like": "zeros_like", "sum": "mean", "mean": "sum",
    "left": "right",
}  # fmt: skip
# Functions of one argument that are left out: f(x) becomes x.
_DROPPED = {"stop_gradient", "constant", "abs", "sqrt", "cumsum", "anywhere"}
_PERFORMANCE = {  # constants and arguments that decide about time and memory
    "_SMALL", "_LARGE", "_TOO_LARGE", "_WIDTH", "_BLOCKS", "_BLOCK_ROWS", "_PART", "_RATIO",
    "unroll", "optimize", "max_steps", "restart", "stagnation_iters", "static", "axis_size",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One mistake: `old`, from the byte `start` of a file on, becomes `new`."""

    path: str
    function: str
    line: int
    start: int
    old: str
    new: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is called in the list of mutants that change nothing: lines may move."""
        return self.path, self.function, f"{_one_line(self.old)} → {_one_line(self.new)}"

    def applied(self, source: bytes) -> bytes:
        end = self.start + len(self.old.encode())
        return source[: self.start] + self.new.encode() + source[end:]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a file, in the order in which they stand there."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    unique = {(m.start, m.old, m.new): m for m in finder.found if m.key not in EQUIVALENT}
    return sorted(unique.values(), key=lambda m: (m.start, m.old, m.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes):
        self.path, self.source = path, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.scope: list[str] = []
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._inside(node)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None and self._in_function:
                self.visit(node.value)
        elif isinstance(node, ast.Assign) and not self._in_function:
            names = {name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)}
            if all(name.isupper() for name in names) and not names & _PERFORMANCE:
                self.visit(node.value)
        elif isinstance(node, ast.Lambda):
            self.visit(node.body)  # its defaults only bind names
        elif _is_of_types(node) or _is_of_performance(node):
            return
        elif not (isinstance(node, ast.keyword) and node.arg in _PERFORMANCE):
            for start, end, new in self._changes(node):
                self._add(node, start, end, new)
            self.generic_visit(node)

    def _inside(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    @property
    def _in_function(self) -> bool:
        return bool(self.scope) and not (len(self.scope) == 1 and self.scope[0][0].isupper())

    def _add(self, node: ast.AST, start: int, end: int, new: str) -> None:
        old, line = self.source[start:end].decode(), getattr(node, "lineno", 0)
        self.found.append(Mutant(self.path, ".".join(self.scope), line, start, old, new))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at = lambda line, column: self.starts[line - 1] + column
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[tuple]:
        """An operator, which stands between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        place = self.source[start:end].find(old.encode())
        if place >= 0:
            yield start + place, start + place + len(old), new

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        """Start, end and new text of every mistake that begins at a node."""
        if isinstance(node, ast.BinOp):
            yield from self._of_operator(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._between(node.left, node.comparators[0], *_COMPARISONS[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield from self._between(node.values[0], node.values[1], *words)
        elif isinstance(node, ast.UnaryOp):
            yield *self._span(node), f"({self._text(node.operand)})"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield *self._span(node.test), f"(not ({self._text(node.test)}))"
        elif isinstance(node, ast.Constant):
            yield from self._of_number(node)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif isinstance(node, ast.Attribute) and node.attr == "T":
            yield *self._span(node), f"({self._text(node.value)})"
        elif isinstance(node, ast.AugAssign):
            sign = {ast.Add: ("+=", "-="), ast.Mult: ("*=", "/=")}.get(type(node.op))
            yield from self._between(node.target, node.value, *sign) if sign else ()
        elif isinstance(node, ast.Subscript) and self._text(node.slice) == "::-1":
            yield *self._span(node), self._text(node.value)

    def _of_operator(self, node: ast.BinOp) -> Iterator[tuple[int, int, str]]:
        left, right = self._text(node.left), self._text(node.right)
        if isinstance(node.op, ast.Add | ast.Sub) and _is_tolerance(node.right):
            return
        if type(node.op) in _OPERATORS:
            yield from self._between(node.left, node.right, *_OPERATORS[type(node.op)])
        if isinstance(node.op, ast.Add | ast.Sub | ast.BitAnd | ast.BitOr):
            sign = "-" if isinstance(node.op, ast.Sub) else ""
            yield *self._span(node), f"({left})"
            yield *self._span(node), f"({sign}({right}))"

    def _of_number(self, node: ast.Constant) -> Iterator[tuple[int, int, str]]:
        value = node.value
        if isinstance(value, bool):
            yield *self._span(node), str(not value)
        elif isinstance(value, int | float) and not _is_tolerance(node):
            yield *self._span(node), {0: "1", 1: "0"}.get(value, f"({2 * value})")

    def _of_call(self, node: ast.Call) -> Iterator[tuple[int, int, str]]:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        end = self._span(node.func)[1]
        if name in _OPPOSITES:
            yield end - len(name), end, _OPPOSITES[name]
        if name in _DROPPED and len(node.args) == 1 and not node.keywords:
            yield *self._span(node), f"({self._text(node.args[0])})"
        if name in ("where", "cond", "pick") and len(node.args) >= 3:
            a, b = node.args[1:3]
            swapped = f"{self._text(b)}, {self._text(a)}"
            yield self._span(a)[0], self._span(b)[1], swapped


def _is_tolerance(node: ast.AST) -> bool:
    """A small number, or a large one: a choice of which there could be another."""
    value = node.value if isinstance(node, ast.Constant) else 1
    return isinstance(value, int | float) and value != 0 and not 1e-3 < value < 100


def _is_of_types(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"


def _is_of_performance(node: ast.AST) -> bool:
    """A comparison or a sum with a constant that decides about time and memory."""
    names = {child.id for child in ast.iter_child_nodes(node) if isinstance(child, ast.Name)}
    return isinstance(node, ast.BinOp | ast.Compare | ast.Call) and bool(names & _PERFORMANCE)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# (file, function, mutant): why nothing that is promised changes.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "layer/solvers/wide.py",
        "_by_iterations",
        "zeros_like → ones_like",
    ): "where an iteration starts has no say",
    (
        "layer/solvers/base.py",
        "smallest_eigenvalue",
        "** → *",
    ): "any vector with a part along the eigenvector will do",
}
