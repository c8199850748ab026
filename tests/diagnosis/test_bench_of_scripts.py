"""The cases of bench/diagnose_scripts.py, and what its table counts."""

from dataclasses import replace
from typing import Any

import pytest
from bench.diagnosis_cases import CASES, LINES, OWN_CODE, Case, injected_lines, is_right
from bench.diagnosis_table import shown_table, wilson_interval

from dpscale.analyse.causes import FoundCause
from dpscale.formulas.figure import Figure
from dpscale.vocabulary.causes import CAUSES

EVERY_CASE = [case for cases in CASES.values() for case in cases]
UNKNOWN = [case for case in EVERY_CASE if case.cause in LINES]


def test_every_cause_is_injected_somewhere() -> None:
    assert {case.answer for case in EVERY_CASE} >= set(CAUSES)


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: f"{case.script}-{case.cause}")
def test_right_is_a_line_of_the_injected_block_alone(case: Case) -> None:
    lines = injected_lines(case)
    first, last = lines[0]
    assert is_right(case, _own_code(f"/home/{case.path.name}, line {last}: code"))
    assert not is_right(case, _own_code(f"/home/{case.path.name}, line {first - 1}: code"))
    assert not is_right(case, _own_code(f"/home/other.py, line {last}: code"))
    assert not is_right(case, replace(_own_code(f"{case.path.name}, line {last}: code"), cause=CAUSES["logging"]))
    assert not is_right(case, _own_code("no place"))


def _own_code(note: str) -> FoundCause:
    return FoundCause(CAUSES[OWN_CODE], Figure(), Figure(), [], [], [note])


def test_a_script_counts_once_however_often_it_ran() -> None:
    rows = [_row("mlp", True), _row("mlp", True), _row("gpt", True), _row("gpt", False)]
    shown = shown_table(rows)
    assert "named first: 3 of 4" in shown
    assert "by distinct script: 1 of 2" in shown


def _row(script: str, is_right: bool) -> dict[str, Any]:
    about = {"device": "cpu", "script": script, "gpus": 1, "cause": "scalars", "also": [], "healthy": [], "off": False}
    answer = {"first": "scalars", "reasons": {"scalars": 0.4}, "right": [is_right], "told_s": None}
    return {**about, **answer}


def test_wilson_interval_of_a_count() -> None:
    low, high = wilson_interval(9, 10)
    assert (low, high) == pytest.approx((0.596, 0.982), abs=5e-4)
    assert wilson_interval(0, 20)[0] == 0
