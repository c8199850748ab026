"""What explains the tables to hand in: every sentence against its row, and rows that make it false or other."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from page_tables import GPU, h200, tables

from dpscale.formulas.figure import Figure
from dpscale.present.handin.sentences import Paragraphs, of_bandwidth, of_communication, of_speedup
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.timing import SpeedupRow

DATA = h200()
DDP: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
WEAK = {**DDP, "scaling": "weak", "scope": "compute"}
R = TypeVar("R", SpeedupRow, CommunicationRow, BandwidthRow)


def said(paragraphs: Paragraphs) -> list[str]:
    """Every sentence behind what it is about."""
    return [f"{about}: {each}" for about, sentences in paragraphs.items() for each in sentences]


def speedup_sentences(rows: Sequence[SpeedupRow] = DATA.speedup, scope: str = "compute", **more: Any) -> list[str]:
    return said(of_speedup(replace(DATA, speedup=rows, **more), scope, GPU))


def communication_sentences(
    rows: Sequence[CommunicationRow] = DATA.communication, ladder: Sequence[LadderRow] = ()
) -> list[str]:
    return said(of_communication(replace(DATA, communication=rows, ladder=ladder), GPU))


def bandwidth_sentences(rows: Sequence[BandwidthRow] = DATA.bandwidth) -> list[str]:
    return said(of_bandwidth(replace(DATA, bandwidth=rows), GPU))


def sentence(sentences: list[str], part: str) -> str:
    (found,) = (each for each in sentences if part in each)
    return found


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


def numbers(text: str) -> list[float]:
    """The numbers of a text, in their order."""
    return [float(number.replace(",", "")) for number in re.findall(r"(?<![\w(])[\d,]*\d(?:\.\d+)?", text)]


def test_formulas_are_true_of_the_digits_that_they_print() -> None:
    speedup = at(DATA.speedup, 512, scope="compute", scaling="weak")
    alone, together, quotient = numbers(sentence(speedup_sentences(), "an efficiency"))[-4:-1]
    assert alone / together == pytest.approx(quotient, abs=0.01) == pytest.approx(speedup.speedup.value, abs=0.005)

    row = at(DATA.communication, 512)
    together, alone, gpus, rest = numbers(sentence(communication_sentences(), "of the epoch."))[-5:-1]
    assert (
        together - alone / gpus == pytest.approx(rest, rel=5e-3) == pytest.approx(row.communication_s.value, rel=5e-3)
    )

    sent = at(DATA.bandwidth, 512)
    megabytes, steps, seconds, gigabytes = numbers(sentence(bandwidth_sentences(), " MB × "))[-4:]
    assert megabytes * steps / seconds / 1e3 == pytest.approx(gigabytes, rel=5e-3)
    assert megabytes == pytest.approx(sent.allreduce_bytes_per_step / 1e6, rel=1e-3)
    assert steps == sent.steps_per_epoch


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (around(3.8), "rises from 3.07 at batch 32 to 3.80 at batch 512."),
        (around(1.5), "falls from 3.07 at batch 32 to 1.50 at batch 512."),
        (Figure.of(1.5, 1.0, 4.0), "is 3.07 at batch 32 and 1.50 at batch 512: the two intervals overlap"),
        (Figure(1.5, kind="one run"), "is 3.07 at batch 32 and 1.50 at batch 512: too few runs"),
    ],
)
def test_the_trend_needs_intervals_that_are_apart(last: Figure, told: str) -> None:
    rows = changed(DATA.speedup, {**WEAK, "batch_per_gpu": 512}, speedup=last)
    assert f"The speedup with ddp on 4 GPUs {told}" in " ".join(speedup_sentences(rows))


def test_a_batch_alone_has_no_trend() -> None:
    alone = speedup_sentences([row for row in DATA.speedup if row.batch_per_gpu == 512])
    assert "The speedup with" not in " ".join(alone)


def test_fewer_steps_are_a_cause_only_where_the_share_falls() -> None:
    text = " ".join(speedup_sentences())
    assert "An epoch has 391 steps at batch 32 and 25 at 512" in text
    shares = [f"{100 * at(DATA.communication, batch).communication_share:.3g} %" for batch in (32, 512)]
    assert f"takes {shares[0]} of the epoch at the smaller batch, {shares[1]} at the larger." in text
    few_runs = [replace(row, speedup=Figure(row.speedup.value, kind="one run")) for row in DATA.speedup]
    assert "Cause" not in " ".join(speedup_sentences(few_runs))
    for share in (0.9, -0.01):
        rows = changed(DATA.communication, {**DDP, "batch_per_gpu": 512}, communication_share=share)
        assert "Cause" not in " ".join(speedup_sentences(communication=rows))


def test_loading_is_said_as_it_was_measured() -> None:
    loaded = at(DATA.speedup, 512, scope="end_to_end", scaling="weak").speedup
    text = sentence(speedup_sentences(), "in the clock")
    assert f"is {loaded.value:.4f} [{loaded.low:.4f}, " in text, "its low end is above 1"
    alone = " ".join(speedup_sentences([row for row in DATA.speedup if row.scope == "compute"]))
    assert "Loading is not in these times." in alone and "in the clock" not in alone
    assert "Note: The DataLoader is in these times." in speedup_sentences(scope="end_to_end")


def test_batches_of_few_steps_are_named() -> None:
    few = "On 4 GPUs, an epoch has fewer than 10 full steps at batch 2,048 and 8,192:"
    assert few in sentence(speedup_sentences(), "say little")
    assert "say little" not in " ".join(speedup_sentences([row for row in DATA.speedup if row.batch_per_gpu < 1000]))


def with_messages(alone_s: float) -> list[CommunicationRow]:
    return changed(
        DATA.communication,
        {**DDP, "batch_per_gpu": 32},
        communication_step_s=around(0.002),
        isolated_step_s=Figure(alone_s),
    )


def test_messages_explain_communication_where_they_were_timed() -> None:
    assert "Cause" not in " ".join(communication_sentences())
    text = " ".join(communication_sentences(with_messages(0.0003)))
    assert "a step takes 2.000 ms longer than on 1 GPU, and its messages alone take 0.300 ms." in text
    assert "The rest is over" in text
    assert "The rest" not in " ".join(communication_sentences(with_messages(0.003)))


@pytest.mark.parametrize(("host_s", "told"), [(0.001, "waiting, 4.000 ms per step"), (0.008, "host work, 8.000 ms")])
def test_a_ladder_explains_it_better(host_s: float, told: str) -> None:
    place: dict[str, Any] = {**DDP, "batch_per_gpu": 32, "global_batch": 128, "environment": "A"}
    rungs = [
        LadderRow(**place, rung=rung, order=order, adds=adds, difference_s=around(seconds))
        for rung, order, seconds, adds in (
            ("alone", 0, 0.0, ""), ("no_sync", 1, host_s, "host work"), ("full", 2, 0.004, "waiting")
        )
    ]  # fmt: skip
    text = " ".join(communication_sentences(with_messages(0.0003), rungs))
    assert f"1 GPU is {told}" in text and "messages alone" not in text


def test_intervals_that_hold_zero_are_counted() -> None:
    shown = [row for row in DATA.communication if row.is_headline and row.status == "ok"]
    holding = sum(row.communication_s.low <= 0 for row in shown)
    assert holding > 0
    assert f"Note: In {holding} of {len(shown)} rows the interval holds zero" in " ".join(communication_sentences())
    above = [replace(row, communication_s=Figure.of(1, 0.5, 2)) for row in DATA.communication]
    assert "zero" not in " ".join(communication_sentences(above))


@pytest.mark.parametrize(
    ("links", "said"),
    [(Figure(300), ["300.0 GB/s", "more than transfers"]), (Figure(1), ["1.000 GB/s"]), (Figure(), [])],
)
def test_links_that_carry_more_are_a_cause(links: Figure, said: list[str]) -> None:
    text = " ".join(bandwidth_sentences(changed(DATA.bandwidth, {"gpus": 4}, bus_bandwidth_gb_s=links)))
    assert [part for part in ("300.0 GB/s", "1.000 GB/s", "more than transfers") if part in text] == said


def test_what_is_not_resolvable_is_counted() -> None:
    shown = [row for row in DATA.bandwidth if row.is_headline]
    unresolved = sum(row.status == "not resolvable" for row in shown)
    assert f"Note: In {unresolved} of {len(shown)} rows no bandwidth follows" in " ".join(bandwidth_sentences())
    assert "Note" not in " ".join(bandwidth_sentences([row for row in DATA.bandwidth if row.status == "ok"]))


def test_nothing_measured_has_nothing_to_explain() -> None:
    none = tables()
    assert said(of_speedup(none, "compute", GPU)) + said(of_communication(none, GPU)) == []
    assert said(of_bandwidth(none, GPU)) == []
