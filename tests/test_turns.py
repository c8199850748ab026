"""The rule of bench/turns.py on jobs that are made up, and what it says of the machines on record."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bench.turns import ALLOWED_LENGTHENING, STEPS, TURNS, table

SLOW = 0.05


def machine(deviation: dict[int, float], longer: dict[int, float] | None = None, shared: float = 0.0) -> list[Any]:
    """Jobs of eight rounds whose ln S lies alternately above and below its mean, by `deviation` of their turns. With
    many turns they may take longer. `shared` is by how much a whole job is slower at random, on one GPU and on two."""
    random = Random(1)
    jobs = []
    for number in range(1, 9):
        for strategy in ("ddp", "dp"):
            for batch in STEPS["cuda"]:
                for turns in TURNS:
                    host = math.exp(random.gauss(0, shared))
                    ratio = math.exp(deviation[turns] * (-1) ** number)
                    stretch_s = host * (longer or {}).get(turns, 1.0) / turns
                    jobs.append(
                        {
                            "strategy": strategy, "batch": batch, "turns": turns, "round": number,
                            "alone_s": [0.8 * stretch_s] * 2 * turns, "parallel_s": [stretch_s / ratio] * turns,
                        }
                    )  # fmt: skip
    return jobs


def decision(*machines: list[Any]) -> str:
    return list(table(machines))[-1]


@pytest.mark.parametrize(
    ("deviation", "longer", "turns"),
    [
        (dict.fromkeys(TURNS, SLOW), None, 1),
        ({1: SLOW, 3: SLOW / 3, 6: SLOW / 3, 12: SLOW / 3}, None, 3),
        ({1: SLOW, 3: SLOW, 6: SLOW, 12: SLOW / 3}, None, 12),
        ({1: SLOW, 3: SLOW, 6: SLOW, 12: SLOW / 3}, {12: 1.02}, 1),
    ],
)
def test_the_fewest_turns_win_that_narrow_and_do_not_lengthen(
    deviation: dict[int, float], longer: dict[int, float] | None, turns: int
) -> None:
    assert decision(machine(deviation, longer)).startswith(f"The rule takes {turns} turn")


def test_the_own_job_wins_where_hosts_slow_whole_jobs() -> None:
    assert "the job's own turns" in decision(machine(dict.fromkeys(TURNS, 0.02), shared=0.1))
    assert "the block's time of one GPU" in decision(machine(dict.fromkeys(TURNS, 0.02)))


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
