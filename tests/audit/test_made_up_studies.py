"""Studies made up under known conventions with known faults are found out, and random tables are not.

`bench/audit_made_up.py` does the same with thousands of each.
"""

from random import Random

import pytest

from dpscale.audit.conventions import COMPUTE_COLUMN
from dpscale.audit.search import search
from made_up_studies import FAULTS, MadeUp, Outcome, made_up, outcome, random_table

# Whole searches, again and again.
pytestmark = pytest.mark.slow

STUDIES_OF_A_FAULT, TABLES = 4, 12


def studies(fault: str) -> list[MadeUp]:
    return [made_up(Random(f"test {number}"), fault) for number in range(STUDIES_OF_A_FAULT)]


@pytest.mark.parametrize("fault", FAULTS)
def test_conventions_are_found_and_nobody_is_accused_wrongly(fault: str) -> None:
    outcomes = [outcome(made) for made in studies(fault)]
    assert [found.missed for found in outcomes if found.missed] == []
    assert [found.wrong for found in outcomes if found.wrong] == []


def test_an_audit_that_is_told_another_truth_has_missed_it() -> None:
    """The comparison itself can fail."""
    made, other = studies("none")[:2]
    swapped = MadeUp(made.study, made.exact, {**made.truth, "speedup": made.truth["compute_s"]}, "none")
    assert outcome(made).missed == []
    assert any(missed.startswith("speedup") for missed in outcome(swapped).missed)
    assert other.truth.keys() == made.truth.keys()


def test_a_convention_through_a_misprinted_column_is_that_through_what_the_column_was() -> None:
    """The bandwidth was computed through the compute column before a cell of that was misprinted."""
    made = made_up(Random("1 1201"), "typo in a figure")
    truth, found = made.truth["bandwidth"], search(made.study, "bandwidth").best
    assert [quantity for quantity, _ in made.cells] == ["compute_s"]
    assert COMPUTE_COLUMN in truth.choices
    assert found and COMPUTE_COLUMN not in found.convention.choices
    assert outcome(made) == Outcome([], [])


def test_random_tables_are_not_reproduced() -> None:
    verdicts = []
    for number in range(TABLES):
        study = random_table(Random(f"test {number}"))
        verdicts += [search(study, quantity).verdict for quantity in study.quantities]
    assert len(verdicts) == 4 * TABLES
    assert not {"reproduced", "reproduced except", "up to a constant"} & set(verdicts)
