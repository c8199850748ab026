"""Timing records as a cell writes them, with the figures that a test is about."""

from pathlib import Path
from typing import Any

from dpscale.measure import MEASUREMENT_VERSIONS
from dpscale.record import write_record
from dpscale.study import Cell, Settings

PARAMETERS = 11_173_962
SENSOR = {
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": 3201,
    "temperature_c": 40,
    "power_w": 300.5,
    "energy_j": 1e6,
    "throttle_reasons": [],
    "other_processes": [],
}


def timing_record(cell: Cell, settings: Settings, epoch_s: list[float] | None) -> dict[str, Any]:
    """The record of `cell`; out of memory where `epoch_s` is None. Steps take an equal share of the epoch."""
    at = cell.configuration
    gpus = at.gpus if settings.device == "cuda" else 0
    return {
        "kind": "timing",
        "measurement_version": MEASUREMENT_VERSIONS["timing"],
        "status": "oom" if epoch_s is None else "ok",
        "cell": {"strategy": at.strategy, "gpus": at.gpus, "batch_per_gpu": at.batch_per_gpu, "run": cell.run},
        "settings": settings.to_json(),
        "dataset": {
            "source": settings.dataset_source,
            "synthetic": settings.dataset_source == "synthetic",
            "images": settings.epoch_images,
            "sha256": "0" * 64,
        },
        "started_at": f"2026-01-01T00:00:{cell.run:02}+00:00",
        "finished_at": f"2026-01-01T00:01:{cell.run:02}+00:00",
        "provenance": {
            "dpscale_version": "0",
            "git_commit": "f" * 40,
            "git_dirty": False,
            "command": "dpscale time",
            "job_id": None,
            "environment": {},
        },
        "hardware": {
            "host": "node1",
            "device_model": "Test GPU",
            "cpu_model": "Test CPU",
            "cpu_cores": 8,
            "threads_per_worker": 8,
            "memory_bytes": 10**11,
            "gpus": [
                {
                    "name": "Test GPU",
                    "uuid": f"GPU-{index}",
                    "memory_bytes": 10**10,
                    "compute_capability": "9.0",
                    "pcie_generation": 5,
                    "pcie_width": 16,
                }
                for index in range(gpus)
            ],
            "links": [],
        },
        "software": {
            "python": "3.12.0",
            "torch": "2.11.0",
            "torchvision": "0.26.0",
            "cuda": "13.0",
            "cudnn": "91900",
            "nccl": "2.28.9",
            "driver": "580",
        },
        "sensors": {"before": [SENSOR] * gpus, "after": [SENSOR] * gpus},
        "network": {"parameters": PARAMETERS, "gradient_bytes": 4 * PARAMETERS},
        "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA out of memory"} if epoch_s is None else None,
        "epochs_total_s": None if epoch_s is None else sum(epoch_s),
        "scopes": {} if epoch_s is None else {scope: _scope(cell, settings, epoch_s) for scope in settings.scopes},
    }


def _scope(cell: Cell, settings: Settings, epoch_s: list[float]) -> dict[str, Any]:
    at = cell.configuration
    steps = -(-settings.epoch_images // at.global_batch)
    step_s = [seconds * at.global_batch / settings.epoch_images for seconds in epoch_s]
    return {
        "epoch_s": epoch_s,
        "rank_epoch_s": [[seconds] for seconds in epoch_s],
        "step_s_median": step_s,
        "step_s_quantiles": {
            "n": len(step_s) * steps,
            **dict.fromkeys(("min", "p05", "p25", "median", "p75", "p95", "max"), step_s[0]),
        },
        "steps_per_epoch": steps,
        "full_steps_per_epoch": settings.epoch_images // at.global_batch,
        "images_per_epoch": settings.epoch_images,
        "peak_memory_bytes": [10**9] * at.gpus if settings.device == "cuda" else None,
        "energy_j": [100.0] * len(epoch_s) if settings.device == "cuda" else None,
    }


def write(results: Path, cell: Cell, record: dict[str, Any]) -> Path:
    path = results / cell.path
    write_record("timing", path, record)
    return path
