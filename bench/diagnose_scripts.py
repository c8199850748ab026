"""How often `dpscale diagnose -- COMMAND` names the cause that is in a script, and how well it tells what a cure saves.

    python bench/diagnose_scripts.py --times 3 --out /tmp/scripts.json                  # two CPU workers, about an hour
    python bench/diagnose_scripts.py --device cuda --times 3 --out /tmp/scripts.json    # one GPU

Every cause is in `bench/injected_script.py`, which runs as it is by torchrun, once with it and once cured of it. Prints
the confusion matrix, who was accused wrongly, and the savings that were told beside what the cure really saves.
Nothing else should run on the machine; where something does, that it is named first is not counted.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from dpscale.analyse.diagnosis.script import diagnose_script
from dpscale.vocabulary.causes import CAUSES, NOTHING

SCRIPT = Path(__file__).with_name("injected_script.py")
LIMIT_S = 600
# What every run on a machine with other work has, whatever is injected.
AMBIENT = "other_work"


@dataclass(frozen=True)
class Case:
    """A cause, the script's options, what it is started by, and other causes that are as right an answer."""

    cause: str
    options: str = ""
    also: Sequence[str] = ()
    prefix: str = ""
    variables: str = ""
    cures: bool = True
    processes: int = 2
    shows_processes: bool = False
    """Whether the command says how many processes it starts, so that it is run on one device too."""


CPU = (
    Case("nothing", "--batch 1024 --width 512", cures=False),
    Case("slow_loader"),
    Case("loader_of_one_rank"),
    Case("workers_restarted"),
    Case("few_batches", also=("workers_restarted",)),
    Case("slow_device"),
    Case("uneven_ranks"),
    Case("heavy_gradients", "--batch 8 --width 1024", cures=False),
    Case("buffers"),
    Case("micro_batches", "--batch 16 --width 384"),
    Case("scalars", "--batch 64"),
    Case("sharding", "--batch 32 --width 384"),
    Case("anomaly", "--batch 32 --layers 10 --width 64"),
    Case("float64"),
    Case("many_small_tensors", "--batch 16 --layers 300"),
    Case("garbage_collection"),
    Case("validation"),
    Case("checkpoint"),
    Case("logging"),
    Case("own_code"),
    Case("work_not_divided"),
    Case("started_twice"),
    Case("batch_not_scaled", "--batch 16 --split", shows_processes=True, cures=False),
    Case("too_few_cores", prefix="taskset -c {core}", cures=False),
)
# Steps of some 10 ms on an H100, which they keep busy.
_LARGE, _DEEP = "--batch 8192 --width 4096", "--batch 8192 --width 2048 --layers 20"
GPU = (
    Case("nothing", _LARGE, processes=1, cures=False),
    Case("float64", _LARGE, processes=1),
    Case("no_tf32", _LARGE, processes=1),
    Case("allocator_emptied", _LARGE, processes=1),
    Case("hidden_synchronisation", _DEEP, processes=1),
    Case("many_small_tensors", "--layers 100", ("small_batch",), processes=1),
    Case("cudnn_search", "--images --batch 64", processes=1),
    Case("slow_loader", "--batch 4096 --width 4096", processes=1),
    Case("anomaly", _DEEP, processes=1),
    Case("garbage_collection", _LARGE, processes=1),
    Case("small_batch", "--layers 50", ("many_small_tensors",), processes=1, cures=False),
    Case("logging", _DEEP, processes=1),
    Case("checkpoint", _LARGE, processes=1),
    Case("debugger", _DEEP, processes=1, variables="CUDA_LAUNCH_BLOCKING=1", cures=False),
    Case("gloo_with_cuda", "--batch 1024 --width 4096", processes=2, cures=False),
)


@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cpu", show_default=True)
@click.option("--times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of every cause.")
@click.option("--limit", "limit_s", type=float, default=float("inf"), help="Seconds after which no run is begun.")
@click.option("--minutes", type=float, default=0.3, show_default=True, help="Of every run, beside its starts.")
@click.option("--cause", "only", multiple=True, help="This cause alone. Can be given several times.")
@click.option("--cures/--no-cures", default=True, help="Run each script cured of its cause too.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The JSON file to write.")
@click.option("--append", is_flag=True, help="Keep the runs that are in the file.")
@click.option("--records", type=click.Path(file_okay=False, path_type=Path), help="Folder for the records of all runs.")
def main(
    device: str,
    times: int,
    limit_s: float,
    minutes: float,
    only: tuple[str, ...],
    cures: bool,
    out: Path,
    append: bool,
    records: Path | None,
) -> None:
    rows: list[dict[str, Any]] = json.loads(out.read_text())["runs"] if append and out.exists() else []
    began = time.monotonic()
    for number in range(times):
        for case in CPU if device == "cpu" else GPU:
            if (only and case.cause not in only) or time.monotonic() - began > limit_s:
                continue
            for cured in (False, True) if case.cures and cures else (False,):
                name = f"{case.cause}{'-cured' if cured else ''}-{len(rows)}"
                row = run(case, device, minutes, cured, records and records / f"{name}.json")
                rows.append(row)
                out.write_text(json.dumps(summary(rows, device), indent=1) + "\n")
                state = "cured" if cured else "with it"
                reasons = ", ".join(f"{name} {share:.0%}" for name, share in row["reasons"].items())
                click.echo(
                    f"{number + 1}. {case.cause} {state}: {reasons or 'nothing'} ({row['seconds']:.0f} s)", err=True
                )
    told(summary(rows, device))


def run(case: Case, device: str, minutes: float, cured: bool, keep: Path | None) -> dict[str, Any]:
    """What one run of the command answers."""
    with tempfile.TemporaryDirectory() as folder:
        record_file = keep or Path(folder, "record.json")
        start = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "dpscale",
            "diagnose",
            "--minutes",
            str(minutes),
            "--json",
            str(record_file),
            "--",
        ]
        variables = dict(pair.split("=") for pair in case.variables.split())
        done = subprocess.run(
            [*command, *script_command(case, device, cured)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        seconds = time.monotonic() - start
        if done.returncode:
            click.echo(done.stderr[-2000:], err=True)
            return {"cause": case.cause, "also": list(case.also), "cured": cured, "first": "failed", "reasons": {},
                    "seconds": seconds}  # fmt: skip
        record = json.loads(record_file.read_text())
    return {"cause": case.cause, "also": list(case.also), "cured": cured, "seconds": seconds, **answered(record)}


def script_command(case: Case, device: str, cured: bool) -> list[str]:
    core = str(min(os.sched_getaffinity(0)))
    options = [*case.options.split(), "--cause", case.cause, "--device", device, *(["--cured"] if cured else [])]
    launcher = ["torchrun", "--standalone", f"--nproc-per-node={case.processes}"] if case.processes > 1 else ["python"]
    words = [*case.prefix.format(core=core).split(), str(Path(sys.executable).with_name(launcher[0])), *launcher[1:]]
    words += [str(SCRIPT), *options]
    # A shell hides how many processes there are: the runs on one device are left out.
    return words if case.shows_processes else ["sh", "-c", f"exec {shlex.join(words)}"]


def answered(record: Mapping[str, Any]) -> dict[str, Any]:
    diagnosis = diagnose_script(dict(record))
    reasons = [reason for reason in diagnosis.reasons if reason.cause.name != AMBIENT]
    saved = [remedy for reason in reasons[:1] for remedy in reason.remedies]
    measured = next((one.measured_s.value for one in saved if one.measured_s), None)
    predicted = next((one.predicted_s.value for one in saved if one.predicted_s), None)
    paced = next(run for run in record["runs"] if run["what"] == "paced")["processes"][0]
    timed = sum(block["seconds"] for block in paced["blocks"]) / max(
        1, sum(block["steps"] for block in paced["blocks"])
    )
    return {
        "first": reasons[0].cause.name if reasons else NOTHING.name,
        "reasons": {reason.cause.name: reason.share.value for reason in reasons},
        "smaller": {one.cause.name: one.share.value for one in diagnosis.smaller},
        "told_s": measured if measured is not None else predicted,
        "was_tried": measured is not None,
        "step_s": diagnosis.whole_s.value,
        "paced_step_s": timed,
        "other_cores": next(run for run in record["runs"] if run["what"] == "diagnosed")["other_cores"],
    }


def summary(rows: Sequence[Mapping[str, Any]], device: str) -> dict[str, Any]:
    sick = [row for row in rows if not row["cured"]]
    well = [row for row in rows if row["cured"]]
    first = [row["first"] in (row["cause"], *row["also"]) for row in sick]
    three = [bool({row["cause"], *row["also"]} & set([*row["reasons"], row["first"]][:3])) for row in sick]
    healthy = {name for row in rows if row["cause"] == NOTHING.name for name in row["reasons"]}
    accused = [[name for name in row["reasons"] if name not in {*healthy, *row["also"]}] for row in well]
    errors = [pair["error"] for pair in savings(rows)]
    return {
        "device": device,
        "named_first": sum(first),
        "among_three": sum(three),
        "of": len(sick),
        "wrongly_accused": sum(map(bool, accused)),
        "of_cured": len(well),
        "median_error_of_savings": median(errors) if errors else None,
        "matrix": {
            cause: dict(Counter(row["first"] for row in sick if row["cause"] == cause))
            for cause in dict.fromkeys(row["cause"] for row in sick)
        },
        "savings": list(savings(rows)),
        "runs": list(rows),
    }


def savings(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """By cause, in the order of runs: what was told that the change saves of a step, and what the cure saved of it."""
    for cause in dict.fromkeys(row["cause"] for row in rows):
        sick = [row for row in rows if row["cause"] == cause and not row["cured"] and row["first"] == cause]
        well = [row for row in rows if row["cause"] == cause and row["cured"] and "paced_step_s" in row]
        for one, other in zip(sick, well, strict=False):
            really = one["paced_step_s"] - other["paced_step_s"]
            if one["told_s"] and really > 0:
                yield {"cause": cause, "told_s": one["told_s"], "really_s": really, "was_tried": one["was_tried"],
                       "error": abs(one["told_s"] - really) / really}  # fmt: skip


def told(whole: Mapping[str, Any]) -> None:
    click.echo(
        f"\nnamed first in {whole['named_first']} of {whole['of']}, among the first three in {whole['among_three']}; "
    )
    click.echo(f"wrongly accused in {whole['wrongly_accused']} of {whole['of_cured']} that were cured")
    for cause, counts in whole["matrix"].items():
        assert cause in {*CAUSES, NOTHING.name}
        click.echo(f"{cause:24} {', '.join(f'{name} {count}' for name, count in counts.items())}")
    click.echo("\nsavings, ms of a step: told, really, error")
    for one in whole["savings"]:
        click.echo(f"{one['cause']:24} {one['told_s'] * 1e3:8.2f} {one['really_s'] * 1e3:8.2f} {one['error']:6.0%}")


if __name__ == "__main__":
    main()
