"""Numbers in documents that are made of single files: of what `bench/` measured, and of what a few records say."""

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from dpscale.formulas.figure import UNEVEN, Figure, multiplied
from dpscale.formulas.statistics import mean_with_t_interval, paired_difference
from dpscale.present.text.numbers import Printed
from dpscale.present.text.words import joined
from dpscale.records.files_of_runs import files_of_runs, lines_of
from dpscale.vocabulary.causes import CAUSES, NOTHING

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "results/recorded"
# The rows of the table of small batches, by the name of their variant in bench/small_batch.py.
SMALL_BATCH = {
    "as torch has it": "captured: ddp",
    "`ddp.broadcast_buffers: false`, `ddp.gradient_as_bucket_view: true`, `ddp.bucket_mb: 10`": (
        "captured: ddp, views, 10 MiB"
    ),
    "`ddp.broadcast_buffers: false`, `ddp.reducer: copies`, `compile: by-unit`": "captured: copies",
}
# The rows of the table of what rivals `copies`: a step in a CUDA graph, and as it is.
RIVALS = {
    "ring, as many channels as NCCL takes": "ddp, views",
    "ring, four channels": "ddp, views, four channels",
    "ring, one channel": "ddp, views, one channel",
    "buckets in symmetric memory": "ddp, views, symmetric",
    "`ddp.reducer: copies`": "copies",
}
# The rungs of the ladder that ends with `copies`, and what each of them adds.
COPIES = {
    "alone": "one GPU",
    "together": "both at once",
    "together, by unit": "compiled stage by stage",
    "copies, unaveraged": "sending gradients",
    "copies": "averaging them and sending averages",
}
NOT_MEASURED = "This was not measured yet."
DIAGNOSED = {
    "gpu": "[one H100]({file}) a script, two machines",
    "cpu": "[two CPU workers]({file}) on two quiet cores",
    "cpu-crowded": "[the same]({file}), twelve scripts at once on 24 cores of a busy host",
}


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    names = list(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, ["---"] * len(names), *rows))


def rounded(figure: Figure, digits: int) -> str:
    """Return `1,421 [1,010, 1,999]`, `1.45 (1.31 to 1.60, 2 runs)`, or the value alone, with so many digits behind the
    point."""
    value, low, high = (f"{number:,.{digits}f}" for number in (figure.value, figure.low, figure.high))
    if math.isnan(figure.low):
        return value
    return Printed(value, low, high, figure).text


def recorded(study: str, folder: str, **cell: str | int) -> list[Mapping[str, Any]]:
    """Return the records of a study that are in a folder of it and of cells with these values, run by run."""
    lines = (
        line
        for file in files_of_runs(ROOT / "results" / study)
        if file.parent.name == folder
        for line in lines_of(file)
    )
    return [record for record in map(json.loads, lines) if cell.items() <= record["cell"].items()]


def scopes(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield all scopes of timing records."""
    for record in records:
        yield from (record.get("scopes") or {}).values()


def module_of_bench(name: str) -> Any:
    """Return a module of bench/. It is loaded when it is asked for: some load torch."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"bench.{name}")


def spreads_by_turns() -> str:
    """Return the table of bench/turns.py about its machines."""
    files = sorted((ROOT / "results/recorded-turns").glob("*.json"))
    lines = module_of_bench("turns").table([json.loads(path.read_text())["jobs"] for path in files])
    return "".join(f"{line}\n" for line in lines)


def spreads_by_pairing() -> str:
    """Return the table of bench/pairings.py about the recorded studies."""
    return "".join(f"{line}\n" for line in module_of_bench("pairings").table(ROOT / "results"))


def small_batch(pattern: str = "machine-*.json") -> Mapping[str, tuple[str, str]]:
    """Return the time of every variant and rung of bench/small_batch.py in ms, and the speedup of variants."""
    files = sorted((ROOT / "results/recorded-small-batch").glob(pattern))
    lines = module_of_bench("small_batch").table([json.loads(file.read_text())["times_s"] for file in files])
    numbers = re.compile(r"\s*(.*?)\s+([+-]?\d+\.\d{3}) ms(?:  speedup (.*))?")
    matches = filter(None, map(numbers.fullmatch, lines))
    return {match[1]: (match[2], match[3] or "") for match in matches}


def small_batch_table() -> str:
    times = small_batch()
    return markdown(("ddp", "step, ms", "speedup"), ([label, *times[name]] for label, name in SMALL_BATCH.items()))


def rivals_of_copies() -> str:
    """Return the table of what else lets a gradient hold fewer multiprocessors, beside `copies`."""
    times = small_batch("rivals-*.json")
    rows = []
    for label, name in RIVALS.items():
        captured = f"captured: {name}".replace("views", "views, 10 MiB")
        rows.append([label, *times[captured], *times[f"eager: {name}"]])
    return markdown(("gradients by", "captured step, ms", "speedup", "eager step, ms", "speedup"), rows)


def small_batch_ladder() -> str:
    times = small_batch()
    first, *more = ((label, times[rung][0]) for rung, label in COPIES.items())
    parts = [f"{first[0]} {first[1].lstrip('+')} ms", *(f"{label} {added}" for label, added in more)]
    return "; ".join(parts)


def diagnosis() -> str:
    """Return how often bench/diagnose_scripts.py was told the cause that it had put into a script."""
    shown_table = module_of_bench("diagnosis_table").shown_table
    rows = []
    for name, label in DIAGNOSED.items():
        file = f"results/recorded-diagnosis/scripts-{name}.json"
        shown = shown_table(json.loads((ROOT / file).read_text())["runs"])
        counts = [
            re.findall(rf"{place}: (\d+ of \d+)", shown)[0] for place in ("named first", "first three", "when off")
        ]
        saving = re.findall(r"savings told: (\d+)%", shown)[0]
        rows.append([label.format(file=f"../{file}"), *counts, f"{saving} %"])
    head = ("where", "named first", "among the first three", "without the cause, told of one that is not there")
    return markdown((*head, "savings, off in the median"), rows)


def public_scripts() -> str:
    """Return what was said of scripts that nobody here wrote, and what a loop by hand around their step takes."""
    said = json.loads((ROOT / "results/recorded-diagnosis/public-scripts.json").read_text())
    rows = []
    for script in said["scripts"]:
        changed = f", with {script['changed']}" if script["changed"] else ""
        reasons = [
            CAUSES[reason["cause"]].label + (f" {reason['share']['value']:.0%}" if reason["share"] else "")
            for reason in script["reasons"]
        ]
        has_rounds = reasons or any("low" in (script[figure] or {}) for figure in ("speedup", "step_s"))
        loop = script["own_loop"]
        rows.append((
            f"{script['repository']}, `{script['script']}`{changed}",
            f"{script['devices']} {script['strategy']}",
            of_one_gpu(script["speedup"]) if script["speedup"] and has_rounds else "",
            ", ".join(reasons) or (NOTHING.label if has_rounds else "too few rounds for a cause"),
            of_one_gpu({"value": loop["one_gpu_s"] / loop["all_gpus_s"]}) if loop else "not measured",
        ))  # fmt: skip
    head = ("script, as its authors have it", "GPUs", "beside one GPU", "reasons, of the step or the time", "by hand")
    return markdown(head, rows)


def of_one_gpu(speedup: Mapping[str, float]) -> str:
    """Return `1.96 [1.59, 2.18] times as fast`, or the same the other way round."""
    is_slower = speedup["value"] < 1
    value, *ends = (
        1 / speedup[name] if is_slower else speedup[name] for name in ("value", "low", "high") if name in speedup
    )
    shown = f"{value:.3g}" + (f" [{min(ends):.3g}, {max(ends):.3g}]" if ends else "")
    return f"{shown} times {'as long' if is_slower else 'as fast'}"


def clock_cost(machine: str) -> Mapping[str, Mapping[str, list[float]]]:
    """Return the seconds of a cell and of a loop by hand, round by round, as bench/clock_cost.py timed them."""
    times: Mapping[str, Mapping[str, list[float]]] = json.loads((RECORDED / f"clock-cost/{machine}.json").read_text())
    return times


def cost_of_marks() -> str:
    times = clock_cost("h100-1")
    cell, by_hand = times["cell"], times["by_hand"]
    marks = mean_with_t_interval(cell["mark_s"])
    copies = paired_difference(cell["copy_s"], by_hand["copy_s"])
    step_s = median(by_hand["step_s"])
    marks_us, copies_us = (rounded(multiplied(figure, 1e6), 0).replace(" ", " µs ", 1) for figure in (marks, copies))
    return (
        f"over {len(cell['step_s'])} rounds, the marks took {marks_us} of a step of {1e3 * step_s:.1f} ms, "
        f"{100 * marks.value / step_s:.1f} %, and copying a batch as a tree of tensors took {copies_us} more"
    )


def cost_of_an_epoch() -> str:
    times = clock_cost("h100-2")
    cell, by_hand = (list(map(math.log, times[loop]["step_s"])) for loop in ("cell", "by_hand"))
    ratio = rounded(paired_difference(cell, by_hand).map(math.exp), 3)
    return f"over {len(cell)} rounds, the whole epoch was {ratio} times that by hand"


def binding_to_cores() -> str:
    """Return the standard deviation of runs that are bound to cores over that of free ones."""
    machines = [json.loads(path.read_text()) for path in sorted((RECORDED / "bound-to-cores").glob("*.json"))]
    compared = module_of_bench("bound_to_cores").compared
    without, loading = (
        rounded(compared([machine[scope] for machine in machines]), 2) for scope in ("compute", "end_to_end")
    )
    return f"{without} without loading and {loading} with it"


def loading_on_the_device() -> str:
    """Return what an epoch with loading took longer, where images were in the memory of the GPU."""
    times = json.loads((ROOT / "results/recorded-end-to-end/h200.json").read_text())["scopes"]
    compute, loaded = (times[scope]["epoch_s"] for scope in ("compute", "end_to_end"))
    compute_s, loaded_s = median(compute), median(loaded)
    return (
        f"{len(compute)} epochs each, after six to warm up, do not (`results/recorded-end-to-end`): "
        f"{loaded_s:.4f} s against {compute_s:.4f} s, {100 * (loaded_s / compute_s - 1):.2f} % longer"
    )


def loading_in_single_epochs() -> str:
    """Return what the first epoch with loading took longer in each run."""
    runs = recorded("recorded-h200-4", "variants", variant="on-device", strategy="single", batch_per_gpu=2048)
    both = [record["scopes"] for record in runs]
    longer = [times["end_to_end"]["epoch_s"][0] / times["compute"]["epoch_s"][0] - 1 for times in both]
    return f"{100 * min(longer):.0f} to {100 * max(longer):.0f} %"


def barrier() -> str:
    """Return how long the barrier took that `epoch_s` of version 1 had, and the times of ranks had not."""
    barriers_s = [
        epoch_s - max(of_ranks)
        for scope in scopes(recorded("recorded", "cells", strategy="ddp"))
        for epoch_s, of_ranks in zip(scope["epoch_s"], scope["rank_epoch_s"], strict=True)
    ]
    return f"{1e3 * median(barriers_s):.1f} ms in the median and up to {1e3 * max(barriers_s):.1f} ms"


def gap_of_uneven_steps() -> str:
    """Return between which shares of the median no run's quartiles of steps are apart: around the limit `UNEVEN`."""
    studies = [folder.parent.name for folder in ROOT.glob("results/recorded*/cells")]
    on_several = [record for study in studies for gpus in (2, 4) for record in recorded(study, "cells", gpus=gpus)]
    spreads = [
        (steps["p75"] - steps["p25"]) / steps["median"]
        for scope in scopes(on_several)
        if (steps := scope.get("step_s_quantiles")) and scope["full_steps_per_epoch"] >= 10
    ]
    even, uneven = max(share for share in spreads if share < UNEVEN), min(share for share in spreads if share > UNEVEN)
    return f"{math.ceil(1000 * even) / 10:g} and {math.floor(1000 * uneven) / 10:g} %"


def loaded_epochs() -> str:
    """Return how long epochs took with loading, with ddp on 4 GPUs at batch 128."""
    cells = recorded("recorded", "cells", strategy="ddp", gpus=4, batch_per_gpu=128)
    epochs_s = [seconds for record in cells for seconds in record["scopes"]["end_to_end"]["epoch_s"]]
    return f"{min(epochs_s):.2f} to {max(epochs_s):.2f} s"


def cores_of_one_h200() -> str:
    """Return on how many cores the eager step of one H200 ran, run by run."""
    runs = recorded("recorded-h200-4", "cells", strategy="single", batch_per_gpu=32)
    return joined([f"{cores}" for cores in sorted(record["hardware"]["cpu_cores"] for record in runs)])


def trained_epochs() -> str:
    """Return how long an epoch of the first three seeds of `b512` took."""
    records = recorded("recorded", "training", arm="b512")[:3]
    sixth, *third = (median(epoch["epoch_s"] for epoch in record["epochs"]) for record in records)
    return f"{sixth:.2f} s per epoch on the sixth, {third[0]:.2f} and {third[1]:.2f} s on the third"


def search_per_thread() -> str:
    """Return a row per machine and case of docs/upstream/cudnn_search_per_thread.py."""
    rows = []
    for file in sorted((ROOT / "results/recorded-search-per-thread").glob("*.json")):
        measured = json.loads(file.read_text())
        step_ms = {
            (case["batch_per_gpu"], case["gpus"], case["searches"]): f"{case['step_ms']:,}"
            for case in measured["cases"]
        }
        for batch, gpus in dict.fromkeys((batch, gpus) for batch, gpus, _ in step_ms):
            times = (step_ms[batch, gpus, searches] for searches in (False, True))
            name = "one GPU" if gpus == 1 else f"DataParallel on {gpus} GPUs"
            rows.append((f"{measured['gpu']}, torch {measured['torch']}", f"{batch:,}", name, *times))
    head = ("machine", "batch per GPU", "what trains", "step without a search, ms", "with a search, ms")
    return markdown(head, rows) if rows else f"{NOT_MEASURED}\n"


MADE: Mapping[str, Callable[[], str]] = {
    "turns": spreads_by_turns,
    "pairings": spreads_by_pairing,
    "small-batch": small_batch_table,
    "small-batch-alone": lambda: small_batch()["captured: alone"][0],
    "small-batch-ladder": small_batch_ladder,
    "rivals-of-copies": rivals_of_copies,
    "search-per-thread": search_per_thread,
    "diagnosis": diagnosis,
    "public-scripts": public_scripts,
    "cost-of-marks": cost_of_marks,
    "cost-of-an-epoch": cost_of_an_epoch,
    "binding": binding_to_cores,
    "loading-on-the-device": loading_on_the_device,
    "loading-in-single-epochs": loading_in_single_epochs,
    "barrier": barrier,
    "gap": gap_of_uneven_steps,
    "cores": cores_of_one_h200,
    "loaded-epochs": loaded_epochs,
    "trained-epochs": trained_epochs,
}
