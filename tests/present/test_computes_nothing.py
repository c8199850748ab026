"""The page computes no number: what the code of `present` shows of that.

Read from the code, so it covers what can be read there: arithmetic as operators, NumPy, and the functions that make one
number of several. It cannot tell a table's value from a length. `test_numbers_of_the_page` looks at what comes out.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpscale.present import page as page_module

FOLDER = Path(page_module.__file__).parent
# Where things are drawn or written, and how many of them: pixels, ticks, decimals.
LAYOUT = {
    "lines.py": "how far axes reach, their ticks, and markers and labels in pixels",
    "commands.py": "paths of files",
    "html.py": "paths of files",
    "numbers.py": "decimals of a number",
    "table.py": "dashes at the end of a row",
    "picture.py": "lines of text above a chart",
    "waterfall.py": "pixels of bars and labels",
    "words.py": "decimals of a number, and how many items of a list are left out",
}
ARITHMETIC = (ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
# Of pandas, `statistics`, `math` and Python: one number of several.
REDUCTIONS = {
    "mean", "median", "std", "var", "quantile", "cumsum", "cumprod", "prod", "diff", "pct_change", "value_counts",
    "fmean", "stdev", "sqrt", "exp", "log", "hypot", "sum", "agg", "nansum", "nanmean",
}  # fmt: skip
# Words that are joined, not numbers; and how many items of a list are left out.
ALLOWED = {("shown_tables.py", "agg")}


def modules() -> list[Path]:
    return sorted(path for path in FOLDER.rglob("*.py") if path.name not in LAYOUT)


def computations(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every operator and function in the code that makes a number of others, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ARITHMETIC):
            yield type(node.op).__name__, node.lineno
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add) and not joins(node):
            yield "Add", node.lineno
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in REDUCTIONS:
                yield name, node.lineno


def joins(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether a `+` has text or a list on one side, as far as the code shows."""
    sides = [node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
    return any(is_text_or_list(side) for side in sides)


def is_text_or_list(side: ast.expr) -> bool:
    if isinstance(side, ast.BinOp):
        return joins(side)
    if isinstance(side, ast.IfExp):
        return is_text_or_list(side.body)
    if isinstance(side, ast.Call):
        # Functions and methods that give text or lists.
        name = side.func.attr if isinstance(side.func, ast.Attribute) else getattr(side.func, "id", "")
        return name in ("join", "rows", "list", "sheets")
    is_text = isinstance(side, ast.Constant) and isinstance(side.value, str)
    return is_text or isinstance(side, ast.JoinedStr | ast.List | ast.ListComp)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_a_module_of_the_page_does_no_arithmetic(path: Path) -> None:
    found = [
        computation
        for computation in computations(ast.parse(path.read_text()))
        if (path.name, computation[0]) not in ALLOWED
    ]
    assert found == []


def test_templates_multiply_nothing() -> None:
    for template in (FOLDER / "template").glob("*.j2"):
        inside = "".join(part.split("}}")[0] for part in template.read_text().split("{{")[1:])
        assert not [symbol for symbol in ("*", "/ ", " % ") if symbol in inside], template.name


def test_layout_is_what_there_is() -> None:
    rooms = (FOLDER, FOLDER.with_name("compare"))
    assert set(LAYOUT) <= {path.name for room in rooms for path in room.rglob("*.py")}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = row['a'] / row['b']", ["Div"]),
        ("x = table['a'].mean()", ["mean"]),
        ("x = row['a'] + row['b']", ["Add"]),
        ("x = 'a' + name", []),
        ("found += [name]", []),
        ("total += row['a']", ["Add"]),
    ],
)
def test_what_counts_as_arithmetic(code: str, found: list[str]) -> None:
    assert [name for name, _ in computations(ast.parse(code))] == found
