"""Tables as `dpscale tables` writes them: of the study on record, and rows near it that are made up."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dpscale.analyse.tables import complete
from dpscale.audit.audit import audit
from dpscale.audit.published import read_all
from dpscale.plan.study import Study
from dpscale.present.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.study import AuditTables
from dpscale.tables.tables import Tables
from once import once
from record_factory import made_up
from recorded import recorded_tables
from rows import Entries, apart, key, known, read_tables

ROOT = Path(__file__).parents[2]
IMAGES = 50_000
GPU = Terms(device="GPU", several_environments=False, synthetic=False)
WORKER = replace(GPU, device="worker")
SEVERAL = replace(GPU, several_environments=True)


def study(**changes: Any) -> Mapping[str, Any]:
    """A complete study, defaults filled in."""
    return Study({"study": "h200", **changes}).values


def times_row(epoch_s: float, **where: Any) -> Entries:
    quantities = {**known("epoch_s", epoch_s), **known("images_per_s", IMAGES / epoch_s)}
    return {**with_steps(**where), "status": "ok", "runs": 3, **quantities}


def with_steps(**where: Any) -> Entries:
    place = key(**where)
    steps = IMAGES // place["global_batch"]
    return {**place, "full_steps_per_epoch": steps, "is_headline": steps >= 10}


def absent_row(status: str, reason: str | None, **where: Any) -> Entries:
    return {**key(**where), "status": status, "reason": reason, "runs": 0, "n": 0}


def speedup_row(speedup: float, baseline_s: float, **where: Any) -> Entries:
    row = with_steps(**where)
    return {
        **row, "scaling": "weak", "status": "ok", "epoch_s": baseline_s / speedup, "baseline_epoch_s": baseline_s,
        **known("speedup", speedup), **known("efficiency", speedup / row["gpus"]),
    }  # fmt: skip


def block_row(name: str, drift: float, **where: Any) -> Entries:
    drifted = {"drift": drift, "has_drifted": abs(drift) > 0.02}
    return {**key(**where), "scaling": "weak", "block": name, **drifted}


def record_row(run: int = 1, **where: Any) -> Entries:
    place = key(**where)
    path = f"cells/{place['strategy']}/gpus-{place['gpus']}/batch-{place['batch_per_gpu']}/run-{run}.json"
    where_measured = {name: place[name] for name in ("strategy", "gpus", "batch_per_gpu", "environment")}
    return {**where_measured, "path": path, "run": run, **made_up("records.csv")}


def missing_row(
    status: str = "missing", reason: str = "no record yet", log: str | None = None, run: int = 1, **where: Any
) -> Entries:
    record = record_row(run, **where)
    names = ("path", "strategy", "gpus", "batch_per_gpu", "run")
    return {**{name: record[name] for name in names}, "status": status, "reason": reason, "log": log}


def environment_row(letter: str = "A", records: int = 78) -> Entries:
    return {"environment": letter, "records": records, **made_up("environments.csv")}


def arm_row(arm: str, accuracy: float, **more: Any) -> Entries:
    """A row of training_summary.csv."""
    return {
        "arm": arm, **key("ddp", 4, 512), "epochs": 5, "is_baseline": False, "status": "ok", "seeds": 3, "diverged": 0,
        "compared_with": None if more.get("is_baseline") else "small", **known("test_accuracy", accuracy), **more,
    }  # fmt: skip


def epoch_row(arm: str, seed: int, epoch: int, accuracy: float | None, batch: int = 512) -> Entries:
    """A row of training.csv; the loss was not finite any more where `accuracy` is None."""
    return {
        "arm": arm, **key("ddp", 4, batch), "seed": seed, "epoch": epoch,
        "status": "diverged" if accuracy is None else "ok",
        "training_loss": None if accuracy is None else 2 - accuracy, "test_accuracy": accuracy,
    }  # fmt: skip


def empty() -> Tables:
    """Tables without a row, but for the counts of nothing."""
    return tables(environments=[])


def tables(**rows: list[Entries]) -> Tables:
    """Empty tables but for the given rows and what follows from them; `environments` has one row unless given."""
    read = read_tables({"environments": [environment_row()], **rows})
    # A file has no blocks, of which the answer is made.
    of_one_block = [replace(row.speedup, blocks=apart({1: row.speedup.value})) for row in read.speedup]
    speedup = [replace(row, speedup=figure) for row, figure in zip(read.speedup, of_one_block, strict=True)]
    return complete(replace(read, speedup=speedup))


@cache
def bare_page() -> str:
    """The page of a study of which nothing but its environment is known. Many tests look at it."""
    return render(study(), tables())


def h200() -> Tables:
    """The study that is on record of 4 H200: both scopes, trainings, and what is measured beside times."""
    return recorded_tables(ROOT, "recorded")


def place(strategy: str = "ddp", gpus: int = 4, batch: int = 32, **more: Any) -> Entries:
    """Return the configuration of a row, as the factories of rows take it."""
    return {"strategy": strategy, "gpus": gpus, "batch": batch, **more}


def audited(root: Path, data: Tables) -> Tables:
    """Return the tables with the audits of the published studies."""
    audits_of = _audits(root)
    return replace(
        data,
        audit=audits_of.audit,
        audit_findings=audits_of.audit_findings,
        audit_warnings=audits_of.audit_warnings,
    )


@cache
@once
def _audits(root: Path) -> Tables:
    """They are the same in every test."""
    records = [audit(published) for published in read_all(sorted((root / "config/published").glob("*.yaml"))).values()]
    return Tables(**AuditTables.of(records)._asdict())


def ladder_rows(*rungs: tuple[float, float]) -> list[Entries]:
    """Rows of ladder.csv, of dp on 2 GPUs: of parts, and of the step that they reach, in ms."""
    adds = (None, "threads, contention", "inputs, outputs", "replicate, reduce")
    return [
        {
            "strategy": "dp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "environment": "A",
            "rung": str(order), "order": order, "adds": adds[order], "share": part / 40, "step_s": reached * 1e-3,
            "difference_s": part * 1e-3 if order else None,
        }
        for order, (part, reached) in enumerate(rungs)
    ]  # fmt: skip
