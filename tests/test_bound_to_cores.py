"""Whether binding to cores narrows what runs differ by: docs/method.md has what the times on record say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy  # its distributions load when they are first used


@pytest.mark.parametrize(("scope", "when"), [("compute", "without loading"), ("end_to_end", "with it")])
def test_the_method_has_what_binding_does(root: Path, method: str, scope: str, when: str) -> None:
    """By another computation than that of bench/bound_to_cores.py."""
    machines = [
        json.loads(path.read_text())[scope] for path in (root / "results/recorded/bound-to-cores").glob("*.json")
    ]
    assert len(machines) == 3
    squares, freedom = {}, {}
    for kind in ("bound", "free"):
        logarithms = [np.log(machine[kind]) for machine in machines]
        squares[kind] = sum(float(np.sum((steps - steps.mean()) ** 2)) for steps in logarithms)
        freedom[kind] = sum(len(steps) - 1 for steps in logarithms)
    quotient = squares["bound"] / freedom["bound"] / (squares["free"] / freedom["free"])
    low, high = (
        math.sqrt(quotient / scipy.stats.f.ppf(end, freedom["bound"], freedom["free"])) for end in (0.975, 0.025)
    )
    assert low < 1 < high
    said = " ".join(method.split())
    assert f"{math.sqrt(quotient):.2f} [{low:.2f}, {high:.2f}] {when}" in said
