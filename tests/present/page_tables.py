"""Tables as `dpscale tables` writes them: of the study on record, and rows near it that are made up."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dpscale.analyse.tables import complete
from dpscale.audit.audit import audit
from dpscale.audit.reading.published import read_all
from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.published import AuditTables
from dpscale.tables.tables import Tables
from recorded import recorded_page, recorded_tables
from rows import read_tables

ROOT = Path(__file__).parents[2]
IMAGES = 50_000
GRADIENT_BYTES = 44_695_848
GPU = Terms(device="GPU", several_environments=False, synthetic=False)
WORKER = replace(GPU, device="worker")
SEVERAL = replace(GPU, several_environments=True)
ARMS = {"small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}


def study(**changes: Any) -> Mapping[str, Any]:
    """A complete study, defaults filled in."""
    return Study({"study": "h200", **changes}).values


def around(name: str, value: float, spread: float = 0.01) -> dict[str, float]:
    """A quantity and its interval."""
    half = abs(value) * spread
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def key(strategy: str, gpus: int, batch: int, scope: str = "compute", environment: Any = "A") -> dict[str, Any]:
    return {
        "strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "global_batch": gpus * batch,
        "scope": scope, "environment": environment,
    }  # fmt: skip


def times_row(epoch_s: float, spread: float = 0.01, **where: Any) -> dict[str, Any]:
    place = key(**where)
    steps = -(-IMAGES // place["global_batch"])
    return {
        **place, "status": "ok", "runs": 3, "n": 15, **around("epoch_s", epoch_s, spread),
        "first_timed_epoch_s": epoch_s * 1.01, **around("step_s", epoch_s / steps, spread),
        **around("images_per_s", IMAGES / epoch_s, spread), "steps_per_epoch": steps,
        "full_steps_per_epoch": IMAGES // place["global_batch"],
        "peak_memory_bytes": 1.5e9 + 14.3e6 * place["batch_per_gpu"],
        "energy_j": 650 * epoch_s * place["gpus"],
    }  # fmt: skip


def absent_row(status: str, reason: str | None, **where: Any) -> dict[str, Any]:
    return {**key(**where), "status": status, "reason": reason, "runs": 0, "n": 0}


def speedup_row(speedup: float, baseline_s: float, spread: float = 0.01, **where: Any) -> dict[str, Any]:
    scaling = where.pop("scaling", "weak")
    place = key(**where)
    row = {
        **place, "scaling": scaling, "status": "ok", "n": 15, "blocks": 3, "baseline_n": 15,
        "full_steps_per_epoch": IMAGES // place["global_batch"],
        "epoch_s": baseline_s / speedup, "baseline_epoch_s": baseline_s, **around("speedup", speedup, spread),
        **around("efficiency", speedup / place["gpus"], spread),
    }  # fmt: skip
    return row if scaling == "strong" else {**row, **around("speedup_from_steps", speedup * 1.002, spread)}


def communication_row(epoch_s: float, baseline_s: float, spread: float = 0.05, **where: Any) -> dict[str, Any]:
    place = key(**where)
    compute_s = baseline_s / place["gpus"]
    seconds = epoch_s - compute_s
    steps = -(-IMAGES // place["global_batch"])
    return {
        **place, "status": "ok", "n": 15, "blocks": 3, "epoch_s": epoch_s, "compute_s": compute_s,
        "full_steps_per_epoch": IMAGES // place["global_batch"],
        **around("communication_s", seconds, spread), "communication_share": seconds / epoch_s,
        "step_s": epoch_s / steps, "baseline_step_s": compute_s / steps,
        **around("communication_step_s", seconds / steps, spread),
    }  # fmt: skip


def bandwidth_row(communication_s: float, resolvable: bool = True, **where: Any) -> dict[str, Any]:
    place = key(**where)
    steps = -(-IMAGES // place["global_batch"])
    sent = 2 * (place["gpus"] - 1) / place["gpus"] * GRADIENT_BYTES
    row = {
        **place, "n": 15, "parameters": GRADIENT_BYTES // 4, "allreduce_bytes_per_step": sent,
        "full_steps_per_epoch": IMAGES // place["global_batch"],
        "steps_per_epoch": steps, "allreduce_bytes_per_epoch": sent * steps, "gradient_bytes": GRADIENT_BYTES,
        **around("communication_s", communication_s, 0.05 if resolvable else 2),
    }  # fmt: skip
    if not resolvable:
        reason = "the interval of the communication time includes zero"
        least = sent * steps / row["communication_s_high"] / 1e9
        return {**row, "status": "not resolvable", "reason": reason, "bandwidth_gb_s_at_least": least}
    return {**row, "status": "ok", **around("bandwidth_gb_s", sent * steps / communication_s / 1e9, 0.05)}


def block_row(name: str, drift: float | None = None, **where: Any) -> dict[str, Any]:
    has_drifted = None if drift is None else abs(drift) > 0.02
    return {
        **key(**where),
        "scaling": "weak",
        "block": name,
        "status": "ok",
        "drift": drift,
        "has_drifted": has_drifted,
    }


def record_row(run: int = 1, status: str = "ok", **where: Any) -> dict[str, Any]:
    place = key(**where)
    path = f"cells/{place['strategy']}/gpus-{place['gpus']}/batch-{place['batch_per_gpu']}/run-{run}.json"
    return {
        **{name: place[name] for name in ("strategy", "gpus", "batch_per_gpu", "environment")}, "kind": "timing",
        "path": path, "run": run, "status": status, "started_at": "2025-11-19T08:30:00Z",
        "finished_at": "2025-11-20T09:31:00Z", "host": "gpu-node-07", "git_commit": "4be1f0c2" * 5,
        "git_dirty": False, "job_id": 118241,
        "gpu_uuids": "; ".join(f"GPU-{n:08x}-0000-4000-8000-0123456789ab" for n in range(place["gpus"])),
        "other_processes": 0, "dataset_source": "cifar10", "synthetic": False, "dataset_sha256": "9d" * 32,
    }  # fmt: skip


def missing_row(
    status: str = "missing", reason: str = "no record yet", log: str | None = None, **where: Any
) -> dict[str, Any]:
    record = record_row(where.pop("run", 1), **where)
    names = ("path", "strategy", "gpus", "batch_per_gpu", "run")
    return {**{name: record[name] for name in names}, "status": status, "reason": reason, "log": log}


def environment_row(letter: str = "A", records: int = 78) -> dict[str, Any]:
    return {
        "environment": letter, "device_model": "NVIDIA H200", "cpu_model": "Intel Xeon Platinum 8468",
        "driver": "580.65.06", "cuda": "13.0", "cudnn": "9.13.0", "nccl": "2.28.9", "torch": "2.11.0+cu130",
        "torchvision": "0.26.0", "python": "3.11.9", "dataset_sha256": "9d" * 32,
        "links": "NVLink, 18 links, via switch", "hosts": "gpu-node-07", "records": records,
    }  # fmt: skip


def arm_row(arm: str, accuracy: float, spread: float = 0.01, **more: Any) -> dict[str, Any]:
    """A row of training_summary.csv: ddp on 4 GPUs at batch 512 unless said otherwise, known to `spread`."""
    place = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512, "global_batch": 2048, "environment": "A"}
    return {
        "arm": arm, **place, "epochs": 5, "remedies": "", "is_baseline": False, "status": "ok", "seeds": 3,
        "compared_with": None if more.get("is_baseline") else "small", "diverged": 0,
        **around("test_accuracy", accuracy, spread), **more,
    }  # fmt: skip


def epoch_row(arm: str, seed: int, epoch: int, accuracy: float | None, batch: int = 512) -> dict[str, Any]:
    """A row of training.csv; the loss was not finite any more where `accuracy` is None."""
    return {
        "arm": arm, "strategy": "ddp", "gpus": 4, "batch_per_gpu": batch, "global_batch": 4 * batch,
        "environment": "A", "seed": seed, "epoch": epoch, "status": "diverged" if accuracy is None else "ok",
        "training_loss": None if accuracy is None else 2 - accuracy, "test_accuracy": accuracy,
    }  # fmt: skip


def empty() -> Tables:
    """Tables without a row, but for the counts of nothing."""
    return tables(environments=[])


def tables(**rows: list[dict[str, Any]]) -> Tables:
    """Empty tables but for the given rows and what follows from them; `environments` has one row unless given."""
    return complete(read_tables({"environments": [environment_row()], **rows}))


@cache
def bare_page() -> str:
    """The page of a study of which nothing but its environment is known. Many tests look at it."""
    return render(study(), tables())


def plain_page() -> str:
    """The page of the study that is on record of 4 H200."""
    return recorded_page(ROOT, "recorded")


def h200() -> Tables:
    """The study that is on record of 4 H200: both scopes, trainings, and what is measured beside times."""
    return recorded_tables(ROOT, "recorded")


def place(strategy: str = "ddp", gpus: int = 4, batch: int = 32, **more: Any) -> dict[str, Any]:
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
def _audits(root: Path) -> Tables:
    """They are the same in every test."""
    records = [audit(published) for published in read_all(sorted((root / "config/published").glob("*.yaml"))).values()]
    return Tables(**AuditTables.of(records)._asdict())


def collective_row(operation: str, gpus: int, message_bytes: int, bus_gb_s: float, **more: Any) -> dict[str, Any]:
    return {
        "operation": operation, "gpus": gpus, "message_bytes": message_bytes, "environment": "A", "runs": 1, "n": 5,
        "servers": 1,
        **around("time_s", message_bytes / bus_gb_s / 1e9), **around("bus_bandwidth_gb_s", bus_gb_s), **more,
    }  # fmt: skip


def ladder_rows(*rungs: tuple[float, float]) -> list[dict[str, Any]]:
    """Rows of ladder.csv, of dp on 2 GPUs: of parts, and of the step that they reach, in ms."""
    adds = (None, "threads, contention", "inputs, outputs", "replicate, reduce")
    return [
        {
            "strategy": "dp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "environment": "A",
            "rung": str(order), "order": order, "adds": adds[order], "share": part / 40, "step_s": reached * 1e-3,
            "difference_s": part * 1e-3 if order else None, "beyond_alone_s": (reached - 8) * 1e-3,
        }
        for order, (part, reached) in enumerate(rungs)
    ]  # fmt: skip
