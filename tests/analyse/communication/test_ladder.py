"""The ladder of a step: differences that add up, records that have none, and E2 and E5 as they follow from rungs."""

import json
from operator import sub
from pathlib import Path
from statistics import median

import pytest

from dpscale.analyse.answer.claims import SLOW_DEVICE
from dpscale.analyse.communication import collectives_rows, from_steps, ladder_rows, message_s, rungs_of
from dpscale.formulas import OnServer
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.plan.cells import CollectivesCell, CommunicationCell, Configuration
from dpscale.records.files import JsonRecord
from dpscale.records.kinds import CollectivesRecord, CommunicationRecord
from dpscale.schemas.settings import TimingSettings
from dpscale.tables.communication import LadderRow
from json_records import records_in
from record_factory import collectives_record, communication_record, typed
from recorded import recorded_tables
from rows import one

SETTINGS = TimingSettings()
RUNGS = {
    "ddp": ["alone", "together", "no_sync", "no_op_hook", "training"],
    "dp": ["alone", "threads", "scattered", "training"],
}
STEP_S, EXPOSED_S = 0.1, 0.01


def record(strategy: str = "ddp", run: int = 1, factor: float = 1.0) -> JsonRecord:
    cell = CommunicationCell(Configuration(strategy, 2, 64), run)
    return {
        **communication_record(cell, SETTINGS, factor * STEP_S, 0.02, factor * EXPOSED_S),
        "block": OnServer(f"run {run}", run),
    }


def version_1(strategy: str = "ddp") -> JsonRecord:
    older = record(strategy)
    steps = older["steps"]
    del steps["seed"], steps["orders"]
    steps["variants"] = {
        name: {"step_s": blocks["step_s"]}
        for name, blocks in steps["variants"].items()
        if name in ("training", "no_op_hook", "no_sync")
    }
    return {**older, "measurement_version": 1}


def ladder(*records: JsonRecord, alone_s: Figure = UNKNOWN) -> list[LadderRow]:
    configuration = Configuration(records[0]["cell"]["strategy"], 2, 64)
    return list(ladder_rows(configuration, "A", [typed(CommunicationRecord, record) for record in records], alone_s))


def drifting(record: JsonRecord, rungs_differ: bool = False) -> JsonRecord:
    """Return a record whose rounds get longer, and whose rungs may differ from round to round."""
    for number, blocks in enumerate(record["steps"]["variants"].values()):
        blocks["step_s"] = [
            seconds * (1 + place) * (1 + 0.01 * ((number + place) % 3) * rungs_differ)
            for place, seconds in enumerate(blocks["step_s"])
        ]
    return record


@pytest.mark.parametrize("alone_s", [UNKNOWN, Figure(0.3)], ids=["its own scale", "that of the timing cells"])
@pytest.mark.parametrize("strategy", RUNGS)
def test_differences_add_up_to_the_whole_step_less_the_one_alone(strategy: str, alone_s: Figure) -> None:
    runs = [drifting(record(strategy, run, factor), True) for run, factor in ((1, 1.0), (2, 1.13), (3, 0.97))]
    rows = ladder(*runs, alone_s=alone_s)
    assert [(row.order, row.rung) for row in rows] == list(enumerate(RUNGS[strategy]))
    first, last = rows[0], rows[-1]
    assert not first.difference_s.is_known
    assert first.step_s.value == alone_s.value or not alone_s.is_known
    reached_s = first.step_s.value
    for row in rows[1:]:
        reached_s += row.difference_s.value
        assert row.step_s.value == pytest.approx(reached_s, rel=1e-12)
        assert row.share == pytest.approx(row.difference_s.value / last.step_s.value, rel=1e-12)
        assert row.difference_s.low <= row.difference_s.value <= row.difference_s.high
    assert sum(row.share for row in rows) == pytest.approx(1, rel=1e-12)


def test_a_difference_is_taken_in_a_round_so_that_what_servers_and_minutes_differ_by_drops_out() -> None:
    runs = [drifting(record(run=run, factor=factor)) for run, factor in ((1, 1.0), (2, 1.2), (3, 0.8))]
    on_one, contention, *_ = ladder(*runs, alone_s=Figure.of(0.09, 0.07, 0.11))
    alone_s = median(record()["steps"]["variants"]["alone"]["step_s"])
    assert contention.difference_s.value == pytest.approx(0.2 * EXPOSED_S * 0.09 / alone_s)
    assert contention.difference_s.high - contention.difference_s.low < 1e-9
    assert on_one.step_s.high - on_one.step_s.low == pytest.approx(0.04), "the scale has an interval of its own"


def test_records_without_a_whole_ladder_have_none() -> None:
    too_large = {**record(), "steps": None, "status": "oom"}
    whole_step_alone = record()
    whole_step_alone["steps"]["variants"] = {"training": whole_step_alone["steps"]["variants"]["training"]}
    for incomplete in (version_1(), version_1("dp"), too_large, whole_step_alone):
        assert rungs_of(typed(CommunicationRecord, incomplete)) == ()
        assert ladder(incomplete) == []
    assert len(ladder(too_large, record())) == len(RUNGS["ddp"])


def test_the_ablation_is_held_against_a_hook_in_python() -> None:
    """Only version 1, which has no such hook, takes the whole step."""
    current = record()
    hook = current["steps"]["variants"]["allreduce_hook"]
    hook["step_s"] = [seconds + 0.003 for seconds in hook["step_s"]]
    for measured, expected_s in ((current, EXPOSED_S + 0.003), (version_1(), EXPOSED_S)):
        ablation_s = from_steps([typed(CommunicationRecord, measured)]).ablation_step_s
        assert ablation_s.value == pytest.approx(expected_s)


def test_what_fsdp_sends_is_its_step_less_one_that_shards_alone(root: Path) -> None:
    """That step is no rung: it gathers weights, as the whole step does, and the rung after `together` gathers none."""
    lines = (root / "results/recorded-strategies/communication/run-1.jsonl").read_text().splitlines()
    of_fsdp = next(line for line in map(json.loads, lines) if line["cell"]["strategy"] == "fsdp")
    whole, alone = (of_fsdp["steps"]["variants"][rung]["step_s"] for rung in ("training", "no_communication"))
    row = one(recorded_tables(root, "recorded-strategies").communication, strategy="fsdp", batch_per_gpu=128)
    assert row.ablation_step_s.value == pytest.approx(median(map(sub, whole, alone)))
    rungs = [row.rung for row in recorded_tables(root, "recorded-strategies").ladder if row.strategy == "fsdp"]
    assert rungs == ["alone", "together", "kept_whole", "gathered_once", "training"]


def test_a_size_between_two_that_were_timed_takes_the_time_between_theirs() -> None:
    swept = collectives_record(CollectivesCell(2, 1), SETTINGS, 1e-5, 250.0)
    swept |= {"environment": "A", "block": OnServer("run 1", 1)}
    timed = list(collectives_rows({(2, "A"): [typed(CollectivesRecord, swept)]}, None, []))
    assert message_s(("broadcast", 100_000), timed).value == pytest.approx(1e-5 + 100_000 / 250e9)
    assert not message_s(("broadcast", 2**40), timed).is_known, "beyond all sizes nothing is known"
    assert not message_s(("broadcast", 1), timed).is_known


@pytest.mark.parametrize("clock", ["rank_step_s", "rank_block_step_s"])
def test_the_slowest_rank_of_steps_in_which_none_waits_is_named(clock: str) -> None:
    """The mean step counts, where the record has it: a median does not see a rank that is stopped now and then."""
    records = [record(run=run) for run in (1, 2)]
    for run_record in records:
        for rung in ("together", "no_sync"):
            run_record["steps"]["variants"][rung] |= {
                "rank_step_s": [[0.1, 0.1]] * 3,
                "rank_block_step_s": None,
                clock: [[0.1, 0.2 + place / 1e3] for place in range(3)],
            }
    records[1]["nodes"] = [
        {"hardware": {**records[1]["hardware"], "host": host}, "software": records[1]["software"], "environment": {}}
        for host in ("gn1", "gn2")
    ]
    (row,) = [row for row in ladder(*records) if row.slowest]
    assert (row.rung, row.slowest) == ("together", "rank 1; rank 1 on gn2")
    assert row.uneven_s.value == pytest.approx(0.101)
    assert row.uneven_s.is_above(0.09)


# Its GPU 0 was slowed by its own heat, as its driver says (results/recorded-two-gpus/README.md). At smaller batches the
# host decides what a step takes.
SLOWED_BY_HEAT = ("recorded-two-gpus", {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 512, "run": 8})


@pytest.mark.parametrize("study", ["recorded", "recorded-two-gpus", "recorded-h200-2", "recorded-gpt"])
def test_only_a_hot_device_is_slow_and_each_would_be_at_half_its_speed(root: Path, study: str) -> None:
    of_ddp = [one for one in records_in(root / "results" / study, "communication") if one["cell"]["strategy"] == "ddp"]
    assert of_ddp
    for of_run in of_ddp:
        cell, of_run["block"] = of_run["cell"], OnServer("run 1", 1)
        if not rungs_of(typed(CommunicationRecord, of_run)):
            continue
        slow_devices = [row.slowest for row in SLOW_DEVICE.of(ladder(of_run)).holding]
        is_hot = (study, cell) == SLOWED_BY_HEAT
        assert slow_devices == (["rank 0"] if is_hot else []), cell
        if is_hot:
            continue
        for rung in ("together", "no_sync"):
            variant = of_run["steps"]["variants"][rung]
            for clock in {"rank_step_s", "rank_block_step_s"} & {*variant}:
                variant[clock] = [[first, 2 * second, *more] for first, second, *more in variant[clock]]
        (slow,) = SLOW_DEVICE.of(ladder(of_run)).holding
        assert slow.slowest == "rank 1", cell
