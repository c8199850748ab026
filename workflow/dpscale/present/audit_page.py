"""The page of one audited study: what was printed, what it is under the definitions here, and which cells to look at.

Made from the record of an audit alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpscale.audit.consistency import SEVERITIES
from dpscale.audit.tables import CORRECTED_BY
from dpscale.present.html import fill
from dpscale.present.words import ABSENT

Record = Mapping[str, Any]

_NAMES = {
    "speedup": "Speedup",
    "speedup_alternative": "Alternative speedup",
    "images_per_s": "Throughput, images/s",
    "compute_s": "Compute time, s",
    "communication_s": "Communication time, s",
    "bandwidth": "Bandwidth",
    "utilisation_percent": "Utilisation, %",
}

# What a check means, and what to do, in words for whoever printed the figures.
_HELP = {
    "N*T(1,b)/T(N,b) reported as speedup": (
        "An epoch is the same work on any number of GPUs. So T(1,b)/T(N,b) is the speedup already; times N, the GPUs "
        "count twice."
    ),
    "speedup is not T(1,b)/T(N,b)": "Divide the epoch time of one GPU by that of N GPUs, both from the same table.",
    "unit is not that of the label": "Write the unit that you divided by, or divide by that of the label.",
    "the compute column is the total": (
        "T(N,b) is compute and communication together. What is left for compute is T(1,b)/N."
    ),
    "T(N,b) is not compute plus communication": "The two parts of an epoch should add up to its time.",
    "time that the GPU cannot reach": (
        "The clock was stopped before the GPU was done. Call torch.cuda.synchronize() before you read the clock."
    ),
    "time close to the GPU's peak": (
        "Real networks seldom use more than 70 % of a GPU's peak. Check that the clock waits for the GPU."
    ),
    "bandwidth above any link": "Check the bytes, the time and the unit: no link can carry that.",
    "bandwidth above the link named": (
        "Check the bytes, the time and the unit, and whether it is the link that your GPUs used."
    ),
    "batch larger than the dataset": "Such a batch has no full step. What was timed is one smaller step.",
    "cell that its column's convention does not give": "Compute this cell again from the times.",
    "a time that its figures contradict": "Compare this time with your log: the figures were computed from another.",
    "figures of two clocks": "Figures of different clocks cannot be set against each other: use one clock for all.",
    "bound by loading, not by GPUs": (
        "The DataLoader is slower than the GPUs here. More loader workers may help; more GPUs do not."
    ),
    "two one-GPU times differ": "Say which of the two is the base, and why they differ.",
    "communication on one GPU": "One GPU has nobody to communicate with. Look at what this clock holds.",
    "communication grows with GPUs": (
        "An epoch on more GPUs has fewer steps, so a ring communicates less per epoch. With DataParallel it can grow."
    ),
    "efficiency above 100 %": "N GPUs are seldom more than N times as fast. Something else changed: find out what.",
    "utilisation of a link that is none": "Divide by the bandwidth of the link that your GPUs have.",
    "time unlike those of others on this GPU": "Others needed a much different time for the same work on this GPU.",
    "times of another study": "Two measurements never agree in every digit. One table is a copy of the other.",
}


@dataclass(frozen=True)
class Finding:
    """What was found out about a quantity."""

    name: str
    verdict: str
    sentence: str


@dataclass(frozen=True)
class Check:
    """What does not agree: its severity, what to do about it, and the cells with their numbers."""

    severity: str
    name: str
    help: str
    cells: Sequence[str]


@dataclass(frozen=True)
class Cell:
    """An entry of the table, and the worst severity of what is said about it."""

    text: str
    severity: str = ""


@dataclass(frozen=True)
class Column:
    """A heading, and the quantity that is printed, or computed here, under it."""

    heading: str
    quantity: str
    is_printed: bool


def render(record: Record) -> str:
    """The page of an audit's record, as HTML that needs no other file. Pure, but for reading its own template."""
    columns = _columns(record)
    return fill(
        "audit.html.j2",
        title=record["title"],
        answer=answer(record),
        checks=_checks(record),
        findings=[
            Finding(_NAMES[quantity["quantity"]].partition(",")[0], quantity["verdict"], quantity["sentence"])
            for quantity in record["quantities"]
        ],
        columns=columns,
        rows=_rows(record, columns),
        batch="Global batch" if record["batch"] == "global" else "Batch",
        remarks=[remark["sentence"] for remark in record["remarks"]],
        cautions=sorted({figure["caution"] for figure in record["corrected"] if figure["caution"]}),
        unit=record["bandwidth_unit"],
    )


def answer(record: Record) -> str:
    """How many cells are impossible, wrong, or worth a look, in one sentence."""
    worst = _worst(record)
    counts = {severity: sum(found == severity for found in worst.values()) for severity in SEVERITIES}
    words = {
        "impossible": ("is impossible", "are impossible"),
        "wrong": (
            "is not what it is called, or not what your times give",
            "are not what they are called, or not what your times give",
        ),
        "look": ("is worth a look", "are worth a look"),
    }
    parts = [
        f"{count} {'figure' if count == 1 else 'figures'} {words[severity][count != 1]}"
        for severity, count in counts.items()
        if count
    ]
    checkable = sum(quantity["checkable_cells"] for quantity in record["quantities"])
    return "; ".join(parts) + "." if parts else f"Nothing calls for a second look: {checkable} figures were checked."


def _worst(record: Record) -> dict[tuple[str, int, int], str]:
    """The worst severity by quantity, batch and GPUs."""
    order = SEVERITIES
    found: dict[tuple[str, int, int], str] = {}
    for warning in record["warnings"]:
        key = warning["quantity"], warning.get("batch_per_gpu", warning.get("global_batch")), warning["gpus"]
        found[key] = min(found.get(key, order[-1]), warning["severity"], key=order.index)
    return found


def _checks(record: Record) -> list[Check]:
    """What does not agree, worst first; a detail that many cells share is said once."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for warning in record["warnings"]:
        details = groups.setdefault((warning["severity"], warning["check"]), {})
        details.setdefault(warning["detail"], []).append(_place(warning))
    return [
        Check(severity, check, _help(check), list(_details(details)))
        for (severity, check), details in sorted(groups.items(), key=lambda group: SEVERITIES.index(group[0][0]))
    ]


def _help(check: str) -> str:
    if check.startswith("speedup over"):
        return "Speedup is over one GPU. Say so where it is over several."
    if check.endswith("is not what it is called"):
        return "Compute it again as the definitions below say, or call it what it is."
    return _HELP.get(check, "")


def _details(details: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for detail, places in details.items():
        yield f"{places[0]}: {detail}" if len(places) == 1 else f"{detail} ({len(places)} cells)"


def _place(warning: Record) -> str:
    name = "batch" if "batch_per_gpu" in warning else "global batch"
    batch = warning.get("batch_per_gpu", warning.get("global_batch"))
    return f"{name} {batch:,} on {warning['gpus']} GPU{'s' if warning['gpus'] > 1 else ''}"


def _columns(record: Record) -> list[Column]:
    """Times, then every printed quantity with what it is here beside it, then what was computed here alone."""
    corrected = {figure["quantity"] for figure in record["corrected"]}
    found = [Column("T(N,b), s", "epoch_s", is_printed=True)]
    for quantity in record["quantities"]:
        name = quantity["quantity"]
        unit = f", {record['bandwidth_unit']}" if name == "bandwidth" else ""
        found.append(Column(f"{_NAMES[name]}{unit}, printed", name, is_printed=True))
        if CORRECTED_BY.get(name, name) in corrected:
            here = ", GB/s" if name == "bandwidth" else ""
            found.append(Column(f"{_NAMES[name]}{here}, as defined here", name, is_printed=False))
    printed = {quantity["quantity"] for quantity in record["quantities"]}
    found += [
        Column(f"{_NAMES[name]}{', GB/s' if name == 'bandwidth' else ''}, as defined here", name, is_printed=False)
        for name in ("speedup", "communication_s", "bandwidth")
        if name in corrected and name not in printed
    ]
    return found


def _rows(record: Record, columns: Sequence[Column]) -> list[tuple[int, int, list[Cell]]]:
    """Batch, GPUs and entries of every cell."""
    printed = {
        ("epoch_s", time["batch_per_gpu"], time["gpus"]): time["printed"]
        for time in record["times"]
        if time["quantity"] == "epoch_s"
    }
    for quantity in record["quantities"]:
        name = quantity["quantity"]
        printed |= {(name, cell["batch_per_gpu"], cell["gpus"]): cell["printed"] for cell in quantity["cells"]}
    here = {
        (figure["quantity"], figure["batch_per_gpu"], figure["gpus"]): figure
        for figure in record["corrected"]
        if "batch_per_gpu" in figure
    }
    worst = _worst(record)
    places = sorted({key[1:] for key in (*printed, *here)})
    return [
        (batch, gpus, [_cell(column, (batch, gpus), printed, here, worst) for column in columns])
        for batch, gpus in places
    ]


def _cell(
    column: Column,
    place: tuple[int, int],
    printed: Mapping[tuple[str, int, int], str],
    here: Mapping[tuple[str, int, int], Record],
    worst: Mapping[tuple[str, int, int], str],
) -> Cell:
    if column.is_printed:
        key = (column.quantity, *place)
        return Cell(printed.get(key, ABSENT), worst.get(key, ""))
    figure = here.get((CORRECTED_BY.get(column.quantity, column.quantity), *place))
    if figure is None:
        return Cell(ABSENT)
    if figure["corrected"] is None:
        return Cell("not resolvable" if figure["reason"].startswith("not resolvable") else "not known")
    return Cell(_shown(figure["corrected"]), "look" if figure["caution"] else "")


def _shown(interval: Mapping[str, float]) -> str:
    """Three significant digits, fewer where rounding hides them."""
    value, half = interval["value"], (interval["high"] - interval["low"]) / 2
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if half < abs(value) / 20 else f"{value:.2g}"
