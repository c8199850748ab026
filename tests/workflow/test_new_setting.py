"""A setting is stated once: one more line in one place, and everything that depends on settings knows it."""

import subprocess
from pathlib import Path

import pytest

import warm
from json_records import records_in
from project import STUDY, Project

BEFORE = '    precision: str = step_setting(\n        "precision",'
SETTING = '    tail_rotors: int = setting("optimiser.tail_rotors", "How many rotors the tail has.", 0, minimum=0)\n'

# Reads every record of the recorded study, and says how many are used and how many are not.
READ_RECORDED = """
from pathlib import Path
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect
study = Study.read(Path("config/recorded.yaml"))
collected = collect(Path("{recorded}"), plan(study.on_any_machine()).all_cells, study.settings)
print(len(collected.records), len(collected.rejected))
"""

# Which kinds of cells of a study, measured without the setting, are to be measured again with another value of it.
MEASURED_AGAIN = """
import sys
from pathlib import Path
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.outdated import find_outdated
from record_factory import any_record, write
values = {"study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32], "runs": 1,
          "training": {"seeds": 1, "arms": {"small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}}}
before, after = Study(values), Study({**values, "optimiser": {"tail_rotors": 2}})
results = Path(sys.argv[1])
for cell in plan(before).all_cells:
    record = any_record(cell, before.settings, [1.0])
    record["settings"].pop("tail_rotors", None)
    write(results, cell, record)
assert not find_outdated(before, plan(before), results).paths
again = {str(path) for path in find_outdated(after, plan(after), results).rejected_records}
print(*sorted({cell.kind for cell in plan(after).all_cells if str(results / cell.path) in again}))
print(*sorted({cell.kind for cell in plan(after).all_cells if str(results / cell.path) not in again}))
"""


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def grown(project: Project) -> Project:
    """The finished study, and the package with one setting more: one line in one place."""
    project.edit("schemas/settings.py", BEFORE, SETTING + BEFORE)
    return project


@pytest.mark.snakemake
def test_one_line_is_a_new_setting(grown: Project, root: Path, tmp_path: Path) -> None:
    place = grown.folder, grown.environment
    assert "--tail-rotors INTEGER RANGE" in printed(warm.dpscale(["time", "--help"], *place))

    used, rejected = printed(
        warm.python(["-c", READ_RECORDED.format(recorded=root / "results/recorded")], *place)
    ).split()
    assert (int(used), int(rejected)) == (len(records_in(root / "results/recorded")), 0)

    assert grown.planned() == {}, "a setting with its default is no reason to make anything again"

    again, not_again = printed(warm.python(["-c", MEASURED_AGAIN, str(tmp_path)], *place)).splitlines()
    assert again.split() == ["communication", "timing", "training"]
    assert not_again.split() == ["collectives"]

    grown.change_study(optimiser={"tail_rotors": 2})
    planned = grown.planned()
    assert planned["time"] == len(grown.records())
    assert STUDY["runs"] == 2
