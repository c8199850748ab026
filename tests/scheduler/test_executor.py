"""Which cells share a job of Slurm, and how often Slurm is asked."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as plugin
from hypothesis import given
from hypothesis import strategies as st

from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import states_of
from dpscale.scheduler.executor import PASSING, PatientExecutor, Size, keep_words, spread

ONE, TWO = "gpu:v100:1", "gpu:v100:2"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 12))
def test_every_cell_is_in_one_job_of_its_size_and_run_that_holds_no_more(small: int, large: int, most: int) -> None:
    cells = {f"small-{number}": Size(1 + number % 3, 1, ONE, 1) for number in range(small)}
    cells |= {f"large-{number}": Size(1 + number % 3, 1, TWO, 2) for number in range(large)}
    jobs = spread(cells, most)
    assert sorted(cell for job in jobs for cell in job) == sorted(cells)
    assert all(len({cells[cell] for cell in job}) == 1 for job in jobs)
    runs = [cells[job[0]].run for job in jobs]
    assert runs == sorted(runs)
    assert len(jobs) == sum(-(-alike // most) for alike in Counter(cells.values()).values()), "as few as can be"
    assert all(len(job) <= most for job in jobs)


def test_the_order_is_random_and_the_same_each_time() -> None:
    cells = {f"batch-{number:02}": Size(1, 1, ONE, 1) for number in range(30)}
    jobs = spread(cells, 10)
    assert jobs == spread(dict(reversed(cells.items())), 10)
    assert all(job != sorted(job) for job in jobs)
    assert [len(set(job) & set(sorted(cells)[:10])) for job in jobs] != [10, 0, 0]


def test_looks_are_never_further_apart_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, slept_s = object.__new__(PatientExecutor), []

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    executor.workflow = SimpleNamespace(remote_execution_settings=SimpleNamespace(seconds_between_status_checks=10))
    for seconds in (None, 180, 5):
        executor.next_seconds_between_status_checks = seconds
        with pytest.raises(StopIteration):
            executor.sleep().send(None)  # another test of this process may have left a loop that runs
    assert slept_s == [10, 10, 5]


def test_only_the_user_excludes_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread submits the job of a node that failed again at once."""
    monkeypatch.setattr(plugin, "query_job_status", None)
    executor = object.__new__(plugin.Executor)
    executor._failed_nodes = {"gn7"}
    executor.workflow = SimpleNamespace(executor_settings=SimpleNamespace())
    PatientExecutor.take_over(executor, cell_rules=())
    executor._failed_nodes.add("gn1")  # as the plugin does before it says that the job failed
    assert executor._failed_nodes == {"gn7"}


REFUSAL = "Batch job submission failed: "


PASSES = [
    *("QOSGrpSubmitJobsLimit", "AssocMaxSubmitJobLimit", "Resource temporarily unavailable", "Connection timed out"),
    *("Zero Bytes were transmitted or received", "Protocol authentication error"),
]
STAYS = ["Invalid qos specification", "Requested node configuration is not available", "AssocMaxJobs"]


def test_what_sbatch_says_is_waited_for_where_it_passes() -> None:
    assert [said for said in PASSES + STAYS if any(pattern.search(REFUSAL + said) for pattern in PASSING)] == PASSES


def test_what_sbatch_says_is_why_a_cell_failed(tmp_path: Path) -> None:
    study = Study({"study": "s", "device": "cpu", "strategies": ["single"], "gpus": [1]})
    cell = plan(study).all_cells[0]
    job = SimpleNamespace(log=[str((tmp_path / "logs" / cell.path).with_suffix(".log"))])
    said = f"sbatch: error: Memory is too much\nsbatch: error: {REFUSAL}No partition"
    keep_words(job, f"SLURM sbatch failed. The error message was '{said}'.\n    sbatch call:\n        sbatch")
    (state,) = states_of([cell], study.settings, tmp_path)
    assert (state.state, state.reason) == ("failed", f"sbatch: error: Memory is too much; {REFUSAL}No partition")
