"""Data falls straight down: no module imports from a floor above its own, and no imports go round in a circle."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# From the ground up. A module may import from its own floor and from those below. `*.commands` are those of any room.
FLOORS = (
    ("errors", "terminal"),
    ("vocabulary",),
    ("formulas",),
    ("strategies",),
    ("schemas",),
    ("tables",),
    ("plan",),
    ("records",),
    ("scheduler", "audit", "measure.parent", "measure.ranks"),
    ("analyse", "measure.workload", "measure.workload", "measure.watch", "measure.attach", "*.in_torch"),
    ("present", "export", "measure.worker"),
    ("compare", "diagnosis", "measure.launch", "measure.fit", "audit.page", "audit.files"),
    ("options",),
    ("loaded",),
    ("*.commands", "measure.options"),
    ("cli",),
    ("__main__", "run"),
)
# Rooms that have nothing to do with each other, but for their commands: what is measured and what is made of it meet in
# records.
APART = (
    *(("measure", room) for room in ("audit", "analyse", "present", "compare", "export")),
    ("scheduler", "audit"),
    *((room, "export") for room in ("present", "compare")),
    # Products.
    *((room, "diagnosis") for room in ("audit", "compare", "export")),
    ("audit", "compare"),
)


@pytest.fixture(scope="module")
def modules(root: Path) -> Mapping[str, ast.Module]:
    """Every module of the package by its dotted name, without the package's own."""
    package = root / "workflow/dpscale"
    found = {".".join(path.relative_to(package).with_suffix("").parts): path for path in package.rglob("*.py")}
    read = {name: ast.parse(path.read_text()) for name, path in found.items() if name != "__init__"}
    return {name.removesuffix(".__init__"): module for name, module in read.items()}


def imports(module: ast.Module, known: Mapping[str, ast.Module]) -> Iterator[str]:
    """The modules of the package that a module imports, also within functions."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpscale."):
            name = node.module.removeprefix("dpscale.")
            for alias in node.names:
                yield f"{name}.{alias.name}" if f"{name}.{alias.name}" in known else name


def floor_of(module: str) -> int:
    """That of its nearest name in FLOORS. Raises ValueError where a module stands on no floor."""
    fitting = (
        (room.startswith("*."), len(room), number)
        for number, rooms in enumerate(FLOORS)
        for room in rooms
        if fnmatch(module, room) or fnmatch(module, f"{room}.*")
    )
    return max(fitting)[-1]


@pytest.fixture(scope="module")
def arrows(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    return {name: set(imports(module, modules)) for name, module in modules.items()}


def test_every_module_stands_on_a_floor_and_no_arrow_goes_up(arrows: dict[str, set[str]]) -> None:
    floors = {module: floor_of(module) for module in arrows if module != "measure"}
    up = [
        f"{module} -> {imported}"
        for module, found in arrows.items()
        for imported in found
        if floors[imported] > floors[module]
    ]
    assert not up


def test_measuring_and_analysing_meet_in_records_alone(arrows: dict[str, set[str]]) -> None:
    across = [
        f"{module} -> {imported}"
        for module, found in arrows.items()
        for imported in found
        for rooms in APART
        if {module.split(".")[0], imported.split(".")[0]} == set(rooms) and not module.endswith(".commands")
    ]
    assert not across


def test_no_imports_go_round_in_a_circle(arrows: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_class_name_means_one_thing(modules: Mapping[str, ast.Module]) -> None:
    nodes = (node for module in modules.values() for node in ast.walk(module))
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1] == []
