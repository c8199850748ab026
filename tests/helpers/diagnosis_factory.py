"""Made-up records of diagnoses."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpscale.schemas.settings import StepSettings
from record_factory import where_and_when

ROUNDS = 9
BATCH = 32
# A healthy step on two GPUs, in ms.
HEALTHY = {
    "together": 10.1, "no_op_hook": 10.2, "training": 10.3, "loader": 2.0, "end_to_end": 10.4, "end_to_end_more": 10.4,
}  # fmt: skip
OF_FIRST = ("alone_reference", "alone_large", "alone_graph", "alone_unsynchronised")
BATCHES = {"alone_reference": 2 * BATCH, "alone_large": 8 * BATCH, "training_scaled": 8 * BATCH}
WORKERS = {"loader": 2, "end_to_end": 2, "end_to_end_fewer": 1, "end_to_end_more": 4, "end_to_end_all_cores": 2,
           "end_to_end_unpinned": 2}  # fmt: skip
GRADIENT_BYTES = 44_000_000


def diagnosis_record(
    steps_ms: Mapping[str, float],
    alone_ms: Sequence[float] = (10.0, 10.0),
    device: str = "cuda",
    allreduce_ms: float = 2.0,
    **parts: Mapping[str, Any],
) -> dict[str, Any]:
    """A record in which probes take `steps_ms`, in ms, and the plain step `alone_ms` on each device.

    Its rounds differ by a tenth of a percent. `parts` change what stands in its mappings.
    """
    probes = {"alone": _probe("alone", max(alone_ms), list(alone_ms))}
    for name, milliseconds in steps_ms.items():
        ranks = [milliseconds, None] if name in OF_FIRST else [milliseconds, milliseconds]
        probes[name] = _probe(name, milliseconds, ranks)
    seconds = [allreduce_ms * 1e-3] * 5
    link = {"bytes": 64 * 2**20, "seconds": [64 * 2**20 / 300e9] * 5}
    record = {
        "kind": "diagnosis",
        "measurement_version": 1,
        "status": "ok",
        "cell": {
            "strategy": "ddp", "gpus": len(alone_ms), "batch_per_gpu": BATCH, "loader_workers": 2,
            "global_batch_held": False,
        },
        "settings": StepSettings(device=device).to_json(),
        **where_and_when(1, len(alone_ms)),
        "network": {"parameters": GRADIENT_BYTES // 4, "gradient_bytes": GRADIENT_BYTES},
        "oom": None,
        "seed": 1,
        "orders": [["alone", *steps_ms]] * ROUNDS,
        "steps_per_epoch": 100,
        "probes": probes,
        "allreduce": {"bytes": GRADIENT_BYTES, "seconds": seconds, "messages": [], "conversion_s": [1e-3] * 7},
        "link": {"kind": "NVLink", "copy_gb_s": [350.0] * 7, "nominal_gb_s": 450, "allreduce": link},
        "cores": {"usable": 16, "of_machine": 16, "quota": None, "busy_share": 0.2, "of_ranks": [list(range(16))] * 2},
        "synchronisations": [],
        "launches": {"processes_of_launcher": None, "variable": None, "same_command": []},
    }  # fmt: skip
    for name, values in parts.items():
        record[name] = {**record[name], **values}
    return record


def _probe(name: str, milliseconds: float, ranks: Sequence[float | None]) -> dict[str, Any]:
    def drifting(value: float, number: int) -> float:
        return value * 1e-3 * (1 + number * 1e-4)

    loading = {"loader_workers": WORKERS[name], "start_s": [0.05] * ROUNDS} if name in WORKERS else {}
    return {
        "batch_per_gpu": BATCHES.get(name, BATCH),
        "steps": 10,
        "step_s": [drifting(milliseconds, number) for number in range(ROUNDS)],
        "rank_step_s": [
            [None if rank is None else drifting(rank, number) for rank in ranks] for number in range(ROUNDS)
        ],
        **loading,
    }
