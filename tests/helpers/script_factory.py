"""Made-up records of scripts that were run as they are."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dpscale.records.files import decoded
from dpscale.records.script import ScriptRecord
from record_factory import made_up

ROUNDS = 9
STEPS = 20
# A healthy step of two ranks on a CPU, in ms.
HEALTHY = {"as_it_is": 10.4, "batch_kept": 10.3, "no_allreduce": 10.2, "batch_kept_no_allreduce": 10.1, "gc_off": 10.4}


def process(rank: int = 0, ranks: int = 2, steps_ms: Mapping[str, Any] = HEALTHY, **changed: Any) -> dict[str, Any]:
    """Return what one rank wrote. Probes take `steps_ms`: a number, or one for every step of a round in turn."""
    blocks = []
    again = {"as_it_is_again": steps_ms["as_it_is"]} if "as_it_is" in steps_ms else {}
    for number in range(ROUNDS):
        for name, times in {**steps_ms, **again}.items():
            in_turn_ms = [times] if isinstance(times, int | float) else list(times)
            step_s = [1e-3 * (1 + number * 1e-4) * in_turn_ms[step % len(in_turn_ms)] for step in range(STEPS)]
            blocks.append({
                "round": number, "probe": name, "steps": STEPS, "seconds": sum(step_s), "step_s": step_s,
                "loading_s": STEPS * changed.get("loading_ms", 0.1) / 1e3,
                "parts": parts_of_step(sum(step_s) / STEPS, name, changed.get("parts_ms", {})),
            })  # fmt: skip
    for name in ("loading_ms", "parts_ms"):
        changed.pop(name, None)
    values = {
        **made_up("script process"), "pid": 100 + rank, "rank": rank, "world_size": ranks, "blocks": blocks,
        "backend": "gloo" if ranks > 1 else None, "strategy": "ddp" if ranks > 1 else "single",
        "loader": {"workers": 2, "batches": 200 // ranks, "samples": 1600, "hashes": [f"{rank} {n}" for n in range(9)]},
    }  # fmt: skip
    return values | changed


def parts_of_step(step_s: float, probe: str, parts_ms: Mapping[str, float]) -> dict[str, float]:
    """Return parts that add up to a step: some of it is forward, and the rest is backward."""
    parts = {"forward": 0.3 * HEALTHY["no_allreduce"] / 1e3, **{name: ms / 1e3 for name, ms in parts_ms.items()}}
    return {**parts, "backward": step_s - sum(parts.values())}


def statement(code: str, samples: int, kind: str = "own", **changed: Any) -> dict[str, Any]:
    """Return a statement of the script's own code, of 1,000 samples in all."""
    place = {"file": "train.py", "line": 7, "code": code, "part": "own", "kind": kind, "inside": ""}
    return {**place, "samples": samples, **changed}


def script_record(
    *processes: Mapping[str, Any], one: Sequence[Mapping[str, Any]] = (), other_cores: float = 0.0, **changed: Any
) -> ScriptRecord:
    """With interventions, and with none: the first probe's times. `one` is what it was on one device, twice."""

    def run(kind: str, processes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "what": kind, "code": 0, "to_first_step_s": 4.0, "wall_s": 104.0, "other_cores": other_cores,
            "others_on_gpu": [], "processes": list(processes),
        }  # fmt: skip

    on_one_device = [run("one", one)] if one else []
    record = {
        **made_up("script record"), "one_unknown": None if one else "the command says no number of processes",
        "command": ["torchrun", "--nproc-per-node", str(len(processes)), "train.py"],
        "runs": [run("diagnosed", processes), *on_one_device, run("paced", processes), *on_one_device],
    }  # fmt: skip
    return decoded(ScriptRecord, json.dumps(record | changed).encode())
