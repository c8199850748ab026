"""What explains the tables to hand in: every sentence against its row, and rows that make it false or other."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from page_tables import GPU, h200, tables

from dpscale.formulas.figure import Figure
from dpscale.present.handin.sentences import of_bandwidth, of_communication, of_speedup
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow

DATA = h200()
DDP: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
WEAK = {**DDP, "scaling": "weak", "scope": "compute"}
R = TypeVar("R", SpeedupRow, CommunicationRow, BandwidthRow)


def speedup_sentences(rows: Sequence[SpeedupRow] = DATA.speedup, scope: str = "compute", **more: Any) -> list[str]:
    data = replace(DATA, **more)
    return of_speedup(rows, data.communication, data.times, scope, GPU)


def communication_sentences(
    rows: Sequence[CommunicationRow] = DATA.communication, ladder: Sequence[LadderRow] = ()
) -> list[str]:
    return of_communication(rows, ladder, GPU)


def sentence(sentences: list[str], start: str) -> str:
    (found,) = (each for each in sentences if each.startswith(start))
    return found


def starts(sentences: list[str]) -> list[str]:
    return [re.split(r"[ :,]", each)[0] for each in sentences]


def is_at(row: object, where: dict[str, Any]) -> bool:
    return all(getattr(row, name) == entry for name, entry in where.items())


def changed(rows: Sequence[R], where: dict[str, Any], **values: Any) -> list[R]:
    """With `values` in the rows in which the fields of `where` have these entries."""
    assert any(is_at(row, where) for row in rows)
    return [replace(row, **values) if is_at(row, where) else row for row in rows]


def at(rows: Sequence[R], batch: int, **where: Any) -> R:
    """The only row of ddp on 4 GPUs at this batch in which these fields have these entries."""
    (only,) = (row for row in rows if is_at(row, {**DDP, "batch_per_gpu": batch, **where}))
    return only


def around(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


def figures(text: str) -> list[float]:
    """The numbers of a text with their units, in their order."""
    found = re.findall(r"(−?[\d,]+(?:\.\d+)?)(?: (?:s|ms|%|GB/s|MB)(?![\w/])|×)", text)
    return [float(number.replace(",", "").replace("−", "-")) for number in found]


def test_formulas_have_the_numbers_of_their_row() -> None:
    text = sentence(speedup_sentences(), "Formula")
    weak = at(DATA.speedup, 512, scope="compute", scaling="weak")
    assert "with ddp on 4 GPUs at batch 512 per GPU" in text
    assert figures(text) == pytest.approx(
        [weak.baseline_epoch_s, weak.epoch_s, weak.speedup.value, 100 * weak.efficiency.value], rel=2e-3
    )
    first, second, quotient, _ = figures(text)
    assert first / second == pytest.approx(quotient, abs=0.01), "the sum can be done again with what is printed"

    row = at(DATA.communication, 512)
    assert figures(sentence(communication_sentences(), "Formula")) == pytest.approx(
        [row.epoch_s, row.compute_s, row.communication_s.value, 100 * row.communication_share], rel=5e-3
    )

    text, sent = sentence(of_bandwidth(DATA.bandwidth, GPU), "Formula"), at(DATA.bandwidth, 512)
    megabytes, seconds, gigabytes = figures(text)
    assert [megabytes, seconds, gigabytes] == pytest.approx(
        [sent.allreduce_bytes_per_step / 1e6, sent.communication_s.value, sent.bandwidth_gb_s.value], rel=2e-3
    )
    assert f" × {sent.steps_per_epoch:,} / " in text
    assert megabytes * (sent.steps_per_epoch or 0) / seconds / 1e3 == pytest.approx(gigabytes, rel=5e-3)


def test_the_trend_needs_intervals_that_are_apart() -> None:
    first, last = (at(DATA.speedup, batch, scope="compute", scaling="weak").speedup for batch in (32, 512))
    assert (
        f"with ddp it rises from {first.value:.2f}× [{first.low:.2f}, {first.high:.2f}] at batch 32 to "
        f"{last.value:.2f}×"
    ) in sentence(speedup_sentences(), "Trend")
    for figure, told in (
        (around(1.5), "with ddp it falls from"),
        (Figure.of(1.5, 1.0, 4.0), "with ddp it shows no difference, from"),
        (Figure(1.5, 1.0, 4.0, "range"), "with too few runs to tell whether it changes."),
    ):
        rows = changed(DATA.speedup, {**WEAK, "batch_per_gpu": 512}, speedup=figure)
        assert told in sentence(speedup_sentences(rows), "Trend")


@pytest.mark.parametrize(("value", "called"), [(6.0, "highest"), (0.5, "lowest")])
def test_the_trend_names_a_batch_beyond_both_ends(value: float, called: str) -> None:
    def trend(figure: Figure) -> str:
        rows = changed(DATA.speedup, {**WEAK, "batch_per_gpu": 128}, speedup=figure)
        return sentence(speedup_sentences(rows), "Trend")

    assert "est at 128" not in sentence(speedup_sentences(), "Trend")
    assert f", and is {called} at 128, with {value:.2f}× [" in trend(around(value))
    assert "est at 128" not in trend(Figure.of(value, 0.1, 9.0))


def test_a_batch_alone_has_no_trend() -> None:
    assert "Trend" not in starts(speedup_sentences([row for row in DATA.speedup if row.batch_per_gpu == 512]))


def test_fewer_steps_are_a_cause_only_where_the_share_falls() -> None:
    text = sentence(speedup_sentences(), "Cause")
    shares = [100 * at(DATA.communication, batch).communication_share for batch in (32, 512)]
    assert "fewer steps, 391 at batch 32 and 25 at 512" in text
    assert figures(text) == pytest.approx(shares, rel=5e-3)
    few_runs = [replace(row, speedup=replace(row.speedup, kind="range")) for row in DATA.speedup]
    assert "Cause" not in starts(speedup_sentences(few_runs))
    for share in (0.9, -0.01):
        rows = changed(DATA.communication, {**DDP, "batch_per_gpu": 512}, communication_share=share)
        assert "Cause" not in starts(speedup_sentences(communication=rows))


def test_loading_is_said_as_it_was_measured() -> None:
    loaded = at(DATA.speedup, 512, scope="end_to_end", scaling="weak").speedup
    text = sentence(speedup_sentences(), "Mind")
    assert f"a speedup of {loaded.value:.4f}× [{loaded.low:.4f}, " in text, "its low end is above 1"
    alone = [row for row in DATA.speedup if row.scope == "compute"]
    assert "it was not measured" in sentence(speedup_sentences(alone), "Mind")
    assert sentence(speedup_sentences(scope="end_to_end"), "Mind") == "Mind: the DataLoader is in these times."


def test_batches_of_few_steps_are_named() -> None:
    assert sentence(speedup_sentences(), "On 4 GPUs").endswith(
        "fewer than 10 full steps at batch 2,048 and 8,192: such speedups say little."
    )
    assert "On" not in starts(speedup_sentences([row for row in DATA.speedup if row.batch_per_gpu < 1000]))


def with_messages(alone_s: float) -> list[CommunicationRow]:
    return changed(
        DATA.communication,
        {**DDP, "batch_per_gpu": 32},
        communication_step_s=around(0.002),
        isolated_step_s=Figure(alone_s),
    )


def test_messages_explain_communication_where_they_were_timed() -> None:
    assert "Cause" not in starts(communication_sentences())
    text = sentence(communication_sentences(with_messages(0.0003)), "Cause")
    assert figures(text) == [2.0, 0.3] and "The rest is overhead of the host" in text
    assert "The rest" not in sentence(communication_sentences(with_messages(0.003)), "Cause")


@pytest.mark.parametrize(
    ("host_s", "told"), [(0.001, "waiting by the ladder, which has 4.000 ms"), (0.008, "host work by the ladder")]
)
def test_a_ladder_explains_it_better(host_s: float, told: str) -> None:
    place: dict[str, Any] = {**DDP, "batch_per_gpu": 32, "global_batch": 128, "environment": "A"}
    rungs = [
        LadderRow(**place, rung=rung, order=order, adds=adds, difference_s=around(seconds))
        for rung, order, seconds, adds in (
            ("alone", 0, 0.0, ""), ("no_sync", 1, host_s, "host work"), ("full", 2, 0.004, "waiting")
        )
    ]  # fmt: skip
    text = sentence(communication_sentences(with_messages(0.0003), rungs), "Cause")
    assert f"most is {told}" in text and "(E5)" not in text


def test_intervals_that_hold_zero_are_named() -> None:
    text = communication_sentences()[-1]
    holding = [row for row in DATA.communication if row.communication_s.low <= 0 and row.is_headline]
    assert holding
    for row in holding:
        assert GPU.group(row) in text and f"{row.batch_per_gpu:,}" in text
    above = [replace(row, communication_s=Figure.of(1, 0.5, 2)) for row in DATA.communication]
    only = "Mind: inferred by subtraction, this holds every overhead of the host too."
    assert communication_sentences(above)[-1] == only


def test_links_that_carry_more_are_a_cause() -> None:
    def of_links(gb_s: Figure) -> list[str]:
        return of_bandwidth(changed(DATA.bandwidth, {"gpus": 4}, bus_bandwidth_gb_s=gb_s), GPU)

    text = sentence(of_links(Figure(300)), "Cause")
    assert "reaches a bus bandwidth of 300 GB/s. The communication time holds more than transfers" in text
    assert sentence(of_links(Figure(1)), "Cause").endswith("a bus bandwidth of 1.00 GB/s.")
    assert "Cause" not in starts(of_links(Figure()))


def test_what_is_not_resolvable_is_named() -> None:
    text = sentence(of_bandwidth(DATA.bandwidth, GPU), "Not resolvable")
    unresolved = [row for row in DATA.bandwidth if row.status == "not resolvable" and row.is_headline]
    assert set(re.findall(r"\bd?dp on \d GPUs", text)) == {GPU.group(row) for row in unresolved}
    assert "Not" not in starts(of_bandwidth([row for row in DATA.bandwidth if row.status == "ok"], GPU))


def test_nothing_measured_has_nothing_to_explain() -> None:
    none: Tables = tables()
    assert speedup_sentences(none.speedup) == communication_sentences(none.communication) == []
    assert of_bandwidth(none.bandwidth, GPU) == []
