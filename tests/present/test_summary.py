"""The summary for the terminal."""

import re
from typing import Any

from page_tables import (
    absent_row,
    bandwidth_row,
    empty,
    environment_row,
    h200,
    record_row,
    speedup_row,
    tables,
    times_row,
)

from dpscale.present.findings import summary as module
from dpscale.tables.tables import Tables


def summary(given: Tables) -> str:
    return module.summary(given)


def test_a_line_says_all_of_a_configuration() -> None:
    lines = summary(h200()).splitlines()
    (line,) = [line for line in lines if line.split()[:3] == ["ddp", "4", "128"]]
    assert line.split() == ["ddp", "4", "128", "ok", "0.770", "[0.762,", "0.778]", "3.73", "yes", "0.0525", "125"]
    assert any(re.search(r" >= [\d.,]+$", line) for line in lines), "of a bandwidth that is not resolvable"
    assert any("OOM" in line for line in lines) and any("capped" in line for line in lines)


def test_it_fits_a_terminal_and_is_ascii_with_numbers_aligned() -> None:
    text = summary(h200())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert text.isascii()
    assert "nan" not in text.lower()
    end = next(line for line in lines if line.startswith("strategy")).index("gpus") + len("gpus")
    assert {line[end] for line in lines[2:]} == {" "}


def test_the_widest_words_still_fit() -> None:
    configuration: dict[str, Any] = {"strategy": "ddp", "gpus": 64, "batch": 16_384}
    times = [
        times_row(12_345.6, **configuration),
        absent_row("not available", "no CUDA", environment=None, **configuration),
    ]
    times.append(times_row(12_345.6, **{**configuration, "environment": "B"}))
    speedup = [speedup_row(30.0, 2.0, spread=0.2, **configuration)]
    letters = [environment_row("A"), environment_row("B")]
    data = tables(
        times=times,
        speedup=speedup,
        bandwidth=[bandwidth_row(1.0, resolvable=False, **configuration)],
        environments=letters,
    )
    assert max(map(len, summary(data).splitlines())) <= 100


def test_long_studies_are_cut_with_a_count() -> None:
    times = [times_row(1.0, strategy="single", gpus=1, batch=batch) for batch in range(1, 101)]
    lines = summary(tables(times=times)).splitlines()
    assert len(lines) == 1 + 2 + 40 + 1
    assert lines[-1] == "... and 60 more in times.csv"


def test_the_only_scope_there_is() -> None:
    row = times_row(3.14, strategy="single", gpus=1, batch=32, scope="end_to_end")
    assert summary(tables(times=[row])).startswith("end-to-end scope")


def test_synthetic_images_are_named() -> None:
    configuration: dict[str, Any] = {"strategy": "single", "gpus": 1, "batch": 32}
    record = {**record_row(**configuration), "synthetic": True}
    assert "synthetic images" in summary(tables(times=[times_row(3.14, **configuration)], records=[record]))


def test_empty_tables() -> None:
    assert summary(empty()) == "No configuration in times.csv."


def test_the_states_are_those_of_the_verdict() -> None:
    shared: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
    sped = {32: 1.2, 128: 2.02, 512: 3.8, 2_048: 3.9}
    data = tables(
        times=[times_row(1.0, batch=batch, **shared) for batch in (*sped, 64)],
        speedup=[speedup_row(speedup, 2.0, spread=0.02, batch=batch, **shared) for batch, speedup in sped.items()],
    )
    first, second, *lines = summary(data).splitlines()
    assert first.endswith("; open: undecided")
    assert second == "few: not shown, fewer than 10 full steps per epoch"
    states = {line.split()[2]: line.split()[8] for line in lines[2:]}
    assert states == {"32": "no", "64": "-", "128": "open", "512": "yes", "2,048": "few"}
    assert "undecided" not in summary(tables(times=[times_row(1.0, batch=32, **shared)]))


def test_a_range_is_explained_where_there_is_one() -> None:
    row = times_row(1.0, strategy="ddp", gpus=4, batch=32)
    assert "is the range of two runs" in summary(tables(times=[{**row, "ranges": "epoch_s"}]))
    assert "is the range of two runs" not in summary(tables(times=[row]))
