"""Compared studies and their page: how sure a ratio is, what differs is named, and what is no evidence is refused;
and `dpscale compare` as it is called."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from cases import cases
from command_line import dpscale
from dpscale.compare.comparison import ComparedStudies, compared_times, ratio_of, render, studies_of
from dpscale.errors import ComparisonError
from dpscale.formulas import OnServer
from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.formulas.statistics import ratio_of_blocks
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import NETWORK_FACTS, Study
from dpscale.records.files import JsonRecord, write_record
from dpscale.tables.timing import TimesRow
from html_reader import assert_sound, visible
from made_study import H200, Change, collected, compared, records_of, side, slower, study
from record_factory import network_facts, write

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def small(**changes: Any) -> Study:
    """A study of times alone."""
    return study(**{"communication": {"runs": 0}, "batch_per_gpu": [128, 512], **changes})


def other_nccl(cell: AnyCell, record: JsonRecord) -> None:
    record["software"]["nccl"] = "2.30.0"


def epoch(runs: Sequence[float], servers: Sequence[int] = range(1, 100)) -> Figure:
    """Every run on a server of its own, or on these."""
    on_servers = enumerate(zip(servers, runs, strict=False), 1)
    return estimate_of_blocks({OnServer(f"run {run}", server): epoch_s for run, (server, epoch_s) in on_servers})


def times(**runs_by_batch: Sequence[float]) -> list[TimesRow]:
    return [
        TimesRow(
            scope="compute", strategy="ddp", gpus=2, batch_per_gpu=int(batch.removeprefix("b")), epoch_s=epoch(runs)
        )
        for batch, runs in runs_by_batch.items()
    ]


def test_intervals_hold_for_all_batches_of_a_group_at_once() -> None:
    first, second = [2.0, 2.02, 1.99], [2.06, 2.12, 2.08]
    (single,) = compared_times("second", times(b512=second), times(b512=first))
    welch = ratio_of_blocks(second, first)
    assert (single.ratio.value, *single.ratio.interval) == pytest.approx((welch.value, *welch.interval))
    more = {batch: [1.0, 1.3, 0.8] for batch in ("b32", "b128", "b2048")}
    of_four = list(compared_times("second", times(b512=second, **more), times(b512=first, **more)))
    (ratio,) = (row.ratio for row in of_four if row.times.batch_per_gpu == 512)
    assert ratio.value == single.ratio.value
    assert single.ratio.is_above(1) and ratio.holds(1)


def test_runs_on_one_server_are_one_unit_unless_there_is_no_other() -> None:
    second = epoch([12.0, 12.3, 12.2])
    on_one, together, apart = (
        ratio_of(second, epoch([8.0, 8.2, 8.1], servers)) for servers in ([1, 1, 1], [1, 2, 2], [1, 2, 3])
    )
    assert (on_one.kind, together.kind, apart.kind) == ("one machine", "interval", "interval")
    assert together.interval != pytest.approx(apart.interval)


def test_settings_and_environment_that_differ_are_named_for_the_study_that_has_them() -> None:
    second = side("second", other_nccl, small(precision="bfloat16"))
    described = ComparedStudies([side("first", None, small()), second]).descriptions()
    assert "Unlike" not in described["first"]
    assert "Unlike first: precision bfloat16 (not float32), NCCL 2.30.0 (not 2.28.9)." in described["second"]


def test_several_environments_are_never_pooled() -> None:
    def change(cell: AnyCell, record: JsonRecord) -> None:
        if cell.coordinates.get("run") == 2:
            other_nccl(cell, record)

    with pytest.raises(ComparisonError, match=r"after: its records are of 2 environments"):
        compared(change)


def test_studies_that_share_a_record_are_refused() -> None:
    """Every pair is looked at; the same times on another day are another record."""

    def measured_again(cell: AnyCell, record: JsonRecord) -> None:
        record["started_at"] = record["started_at"].replace("20", "19", 1)

    plain = small(batch_per_gpu=[128])
    again = collected(plain, measured_again)
    assert len(studies_of({"a": plain, "b": plain}, [collected(plain), again])) == 2
    with pytest.raises(ComparisonError, match=r"^c: records of it stand in a too\. The same file in both"):
        studies_of(dict.fromkeys("abc", plain), [collected(plain), again, collected(plain, slower(1.2, "ddp"))])


def test_each_study_is_compared_with_the_first() -> None:
    def hostile(cell: AnyCell, record: JsonRecord) -> None:
        slower(1.3)(cell, record)
        record["hardware"]["device_model"] = "<script>alert(1)</script>"

    compared_studies = ComparedStudies(
        [
            side("a", None, small()),
            side("b", hostile, small()),
            side("c", slower(0.5), small(batch_per_gpu=[512])),
            side("d", None, small(batch_per_gpu=[32])),
        ]
    )
    assert list(compared_studies.verdicts()) == [
        "b against a: slower in 10 of 10 configurations in both.",
        "c against a: faster in 5 of 5 configurations in both.",
        "d against a: none of 0 configurations in both.",
    ]
    assert {row.study for row in compared_studies.slower_than(0.05)} == {"b"}
    page = render(compared_studies, 0.05)
    assert_sound(page)
    assert "<script" not in page
    assert next(compared_studies.verdicts()) in visible(page)


Command = Callable[..., CompletedProcess[str]]


def measured(folder: Path, name: str, change: Change | None = None, results: str = "", **values: Any) -> None:
    """A study file in `folder`, and its records in `results`, by default where the project has them."""
    wanted = {**H200, "study": name, **values}
    study = Study(wanted)
    for cell, record in records_of(study, change).items():
        # Measured for this study: no record is the same file as in another one.
        record["provenance"]["job_id"] = results or name
        write(folder / (results or study.results), cell, record)
    write_record("network", folder / (results or study.results) / NETWORK_FACTS, network_facts(study.settings))
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(wanted))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies, `slower` with a ddp that takes 20 % more time, and `once` the same in one run."""
    place = tmp_path_factory.mktemp("studies")
    measured(place, "plain")
    measured(place, "slower", slower(1.2, "ddp"))
    measured(place, "once", slower(1.2, "ddp"), runs=1)
    return place


@pytest.fixture
def compare(folder: Path) -> Command:
    return lambda *arguments: dpscale("compare", *arguments, "--out", "page.html", folder=folder)


def test_two_studies_give_a_page_a_table_and_every_ratio_for_programs(compare: Command, folder: Path) -> None:
    done = compare("plain.yaml", "slower.yaml")
    assert done.returncode == 0, done.stderr
    assert "slower against plain: slower in 6, no difference shown in 9 of 15 configurations in both." in done.stdout
    assert re.search(r"ddp on 4 GPUs +512 .* +1.20 \[1.20, 1.20\] +slower", done.stdout)
    assert done.stdout.endswith("\npage: page.html\n")
    assert (folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    rows = json.loads(compare("plain.yaml", "slower.yaml", "--json").stdout)
    row = next(row for row in rows if (row["strategy"], row["gpus"], row["batch_per_gpu"]) == ("ddp", 4, 512))
    assert (row["study"], round(row["ratio"], 2), row["verdict"]) == ("slower", 1.2, "slower")
    assert row["interval"][0] <= row["ratio"] <= row["interval"][1]


def test_one_study_measured_on_two_machines(compare: Command, folder: Path) -> None:
    measured(folder, "plain", slower(1.5), results="elsewhere")
    done = compare("plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "elsewhere")
    assert done.returncode == 0
    assert "plain (2) against plain (1): slower in 15 of 15 configurations in both." in done.stdout


@pytest.mark.parametrize(
    ("second", "limit", "beyond", "undecided"),
    cases(__file__, "tolerated"),
)
def test_what_is_slower_than_is_tolerated_ends_with_status_1(
    compare: Command, folder: Path, second: str, limit: str, beyond: bool, undecided: bool
) -> None:
    done = compare("plain.yaml", f"{second}.yaml", "--fail-slower", limit)
    assert (done.returncode, done.stderr) == (int(beyond), "")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("Slower by more than"))
    assert ("ddp on 2 GPUs at batch 128 per GPU (compute scope) 1.20×" in line) == beyond
    assert ("Undecided, which is no failure: none." not in done.stdout) == undecided
    assert line in (folder / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(__file__, "refused"),
)
def test_wrong_arguments_are_refused(compare: Command, arguments: list[str], message: str) -> None:
    done = compare(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True)
