"""What the rule of bench/turns.py says of the machines on record."""

import json
from pathlib import Path

from bench.turns import ALLOWED_LENGTHENING, table


def test_what_the_documentation_says_of_the_machines_on_record(root: Path) -> None:
    files = sorted((root / "results/recorded-turns").glob("machine-*.json"))
    *lines, conclusion = table([json.loads(path.read_text())["jobs"] for path in files])
    assert conclusion.startswith("The rule takes 1 turn,")
    values = {
        name.partition(" (")[0]: [float(value.strip(" %+")) for value in cells]
        for _, name, *cells, _ in (map(str.strip, line.split("|")) for line in lines if "%" in line)
    }
    between_runs, with_machines = values["between runs: all"], values["runs and machines: all"]
    assert between_runs[0] == min(between_runs)
    assert with_machines[-1] == min(with_machines)
    lengthening = values["same steps in stretches, over one turn: mean of all"]
    assert lengthening[-1] == max(lengthening)
    largest = values["same steps in stretches, over one turn: largest median"]
    assert all(percent > 100 * ALLOWED_LENGTHENING for percent in largest[1:])
