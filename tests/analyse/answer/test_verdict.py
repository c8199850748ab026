"""On which side of a limit a speedup lies, and how many more machines or runs would decide."""

from dataclasses import replace

import pytest

from cases import cases
from dpscale.analyse.answer.answer import Asked, Units, answer_of, more_units, verdict
from dpscale.analyse.tables import build_tables, complete
from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.plan.cells import AnyCell, Configuration, TimingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from dpscale.tables.answer import AnswerRow
from made_study import collected, study
from record_factory import timing_record, typed_records
from rows import apart, together


def of_two(speedup: Figure) -> AnswerRow:
    """Return the row of 2 GPUs, which are worth it from 1.4 times on."""
    return AnswerRow(gpus=2, speedup=speedup, limit=1.4)


@pytest.mark.parametrize(("blocks", "speedups", "worth", "more"), cases(__file__, "verdicts"))
def test_the_verdict_and_how_many_more_decide(blocks: str, speedups: list[float], worth: str, more: int | None) -> None:
    on_servers = {"machines": apart, "runs": together}[blocks]
    speedup = estimate_of_blocks(on_servers(dict(enumerate(speedups))))
    units = Units.of(speedup)
    assert verdict(of_two(speedup), units) == worth
    if worth not in ("worth it", "not"):
        assert more_units(speedup, units, 1.4) == more


def test_two_that_borrowed_are_as_far_apart_as_their_interval_says() -> None:
    """t of two degrees of freedom is 4.303: an interval of 1.78 [1.33, 2.38] is of a spread of 9.6 %."""
    alike = Figure(1.78, 1.33, 2.38, "interval", apart({1: 1.77, 2: 1.79}), borrowed_from=21)
    assert verdict(of_two(alike), Units.of(alike)) == "probably"
    assert more_units(alike, Units.of(alike), 1.4) == 1
    assert more_units(alike, Units.of(alike), 1.72) is None


def test_one_more_run_takes_what_is_measured_again_took_in_the_median() -> None:
    study = Study(cases(__file__, "study"), source="/somewhere/clone/config/mine.yaml")
    single, ddp = Configuration("single", 1, 32), Configuration("ddp", 2, 32)
    as_study, with_own_runs = (VariantCell(ddp, 1, name, study.variants[name].settings) for name in ("as-study", "own"))
    minutes: dict[TimingCell | VariantCell, int] = {
        TimingCell(single, 1): 1, TimingCell(single, 2): 2, TimingCell(single, 3): 9, TimingCell(ddp, 1): 4,
        as_study: 8, with_own_runs: 50,
    }  # fmt: skip
    records: dict[AnyCell, JsonRecord] = {
        cell: {**timing_record(cell, study.settings, [1.0]), "started_at": "2026-01-01T00:00:00+00:00",
               "finished_at": f"2026-01-01T00:{number:02}:00+00:00"}
        for cell, number in minutes.items()
    }  # fmt: skip
    asked = Asked.of(study, typed_records(records))
    assert asked.run_s == 60 * (2 + 4 + 8), "a variant with a number of its own is not measured again"
    assert asked.study_file == "config/mine.yaml", "no place of this machine"
    assert (asked.batch_per_gpu, asked.worth_from) == (32, 0.7)


def test_runs_of_variants_are_no_runs_of_the_answer() -> None:
    one_run = study(gpus=[1, 2], runs=1, communication={"runs": 0})
    tables = build_tables(one_run, collected(one_run))
    of_variant = [replace(run, variant="graph", run=7) for run in tables.runs]
    more = complete(replace(tables, runs=[*tables.runs, *of_variant]), Asked(study_file="mine.yaml"))
    assert answer_of(more).several[0].command == "make report CONFIG=mine.yaml RUNS=3"
