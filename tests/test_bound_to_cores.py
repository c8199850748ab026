"""Whether binding to cores narrows what runs differ by: by another computation than that of bench/bound_to_cores.py."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy  # its distributions load when they are first used
from bench.bound_to_cores import compared


@pytest.mark.parametrize("scope", ["compute", "end_to_end"])
def test_the_ratio_of_deviations_has_the_interval_of_f(root: Path, scope: str) -> None:
    files = (root / "results/recorded/bound-to-cores").glob("*.json")
    machines = [json.loads(path.read_text())[scope] for path in files]
    squares, freedom = {}, {}
    for kind in ("bound", "free"):
        logarithms = [np.log(machine[kind]) for machine in machines]
        squares[kind] = sum(float(np.sum((steps - steps.mean()) ** 2)) for steps in logarithms)
        freedom[kind] = sum(len(steps) - 1 for steps in logarithms)
    quotient = squares["bound"] / freedom["bound"] / (squares["free"] / freedom["free"])
    ends = scipy.stats.f.ppf([0.975, 0.025], freedom["bound"], freedom["free"])
    ratio = compared(machines)
    assert ratio.value == pytest.approx(np.sqrt(quotient))
    assert ratio.interval == pytest.approx(np.sqrt(quotient / ends))
    assert ratio.holds(1)
