"""The hand-in question by question, in the assignment's order: tables in its layout, what they say, and for what was
not measured what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpscale.analyse.answer.claims import (
    EPOCH_IN_ALL_RUNS,
    EPOCH_TREND,
    FALLS,
    LARGE_IS_WORSE,
    RISES,
    large_beside_baseline,
)
from dpscale.present.charts.charts import epoch_time
from dpscale.present.charts.picture import Picture
from dpscale.present.findings.findings import findings_of_training
from dpscale.present.handin_assignment import AssignmentRows, AssignmentTable, largest_rung
from dpscale.present.text.numbers import estimate, recomputable, whole
from dpscale.present.text.sentences import Paragraphs, paragraphs
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, headline, ok, scope
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import PERCENT, PLAIN, SECONDS
from dpscale.tables.timing import TimesRow
from dpscale.tables.training import TrainingSummaryRow


@dataclass(frozen=True)
class Section:
    """A question: its sentences, and its table and picture if there are any. Heading and formulas are those of its name
    in the template."""

    name: str
    paragraphs: Paragraphs
    table: ShownTable | None = None
    picture: Picture | None = None


def sections(
    rows: AssignmentRows,
    grids: Sequence[AssignmentTable],
    times: Sequence[TimesRow],
    arms: Sequence[TrainingSummaryRow],
    terms: Terms,
) -> list[Section]:
    """Return the questions in the assignment's order. `rows` and `grids` are those of its batches, `times` of all."""
    tables = {grid.name: grid for grid in grids}
    asked = {"table-1": "speedup", "table-2": "communication", "table-3": "bandwidth"}
    buffers = largest_rung(rung for rung in rows.ladder if "buffers" in rung.adds)
    answered = [_sweep(times, terms)]
    for name, question in asked.items():
        grid = tables.get(name)
        sentences = grid.paragraphs if grid else {}
        table = grid.by_devices(terms) if grid else None
        answered.append(Section(question, sentences or paragraphs("handin", question, terms), table))
    return [
        *answered,
        _training(ok(arms), terms),
        Section("remedies", paragraphs("handin", "remedies", terms, findings=findings_of_training(arms, terms))),
        Section("sampler", paragraphs("handin", "sampler", terms)),
        Section("buffers", paragraphs("handin", "buffers", terms, rung=buffers)),
        Section("more", paragraphs("handin", "more", terms)),
    ]


def _sweep(times: Sequence[TimesRow], terms: Terms) -> Section:
    """Return Question 1: a row per batch of one device, its plot, and why times change with the batch."""
    first = min((row.scope for row in times), default="compute")
    of_one_device = sorted(
        (row for row in times if (row.strategy, row.scope) == (BASELINE, first)), key=lambda row: row.batch_per_gpu
    )
    timed = ok(of_one_device)
    speaking = headline(timed) or timed
    ends = [speaking[0], speaking[-1]] if speaking else []
    too_large = min((row.batch_per_gpu for row in of_one_device if row.status == "oom"), default=None)
    way = _way(*ends) if len(speaking) > 1 else ""
    sentences = paragraphs("handin", "sweep", terms, ends=ends, way=way, too_large=too_large)
    if not timed:
        return Section("sweep", sentences)
    columns = [ShownColumn[object](name) for name in ("Batch", "Steps", "Time, s", f"{terms.samples.capitalize()}/s")]
    cells = [
        [f"{row.batch_per_gpu:,}", whole(row.steps_per_epoch), recomputable(row.epoch_s, SECONDS).brief,
         recomputable(row.images_per_s, PLAIN).value]
        for row in timed
    ]  # fmt: skip
    caption = f"Epoch time T(1,b) of one {terms.device}, s, {scope(first)}"
    pictures = epoch_time(timed, terms).pictures if len(timed) > 1 else ()
    table = ShownTable("sweep", caption, columns, cells, title="Time against batch")
    return Section("sweep", sentences, table.with_legend(), pictures[0] if pictures else None)


def _way(smallest: TimesRow, largest_batch: TimesRow) -> str:
    """Return how the time of an epoch goes from the smallest batch to the largest, and how sure that is."""
    pair = smallest, largest_batch
    if (way := EPOCH_TREND.way(*pair)) in (RISES, FALLS):
        return way
    if in_all_runs := [way for way, claim in EPOCH_IN_ALL_RUNS.items() if claim.surely(pair)]:
        return f"{in_all_runs[0]} in all runs, too few for an interval,"
    have_interval = any(row.epoch_s.has_interval for row in pair)
    return f"{'shows no sure change' if have_interval else 'has no interval, so no change is sure'}: it is"


def _training(arms: Sequence[TrainingSummaryRow], terms: Terms) -> Section:
    """Return Question 4.1: loss and accuracy of every arm, and those of the largest batch without a remedy beside the
    baseline."""
    pair = next(large_beside_baseline(arms), None)
    sentences = paragraphs("handin", "training", terms, pair=pair, surely=bool(pair and LARGE_IS_WORSE.surely(pair)))
    headings = ["Arm", terms.heading, f"Batch per {terms.device}", "Epochs", "Training loss", "Training accuracy, %"]
    cells = [
        [row.arm, f"{row.gpus:,}", f"{row.batch_per_gpu:,}", whole(row.epochs), estimate(row.training_loss),
         estimate(row.training_accuracy, PERCENT)]
        for row in arms
    ]  # fmt: skip
    columns = [ShownColumn[object](name, is_number=name != "Arm") for name in headings]
    caption = (
        f"After the last epoch: mean cross-entropy, and accuracy, over the {terms.samples} as they were trained with"
    )
    return Section(
        "training", sentences, ShownTable("training", caption, columns, cells, title="Training") if arms else None
    )
