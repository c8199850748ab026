"""What is wrong in made-up tables is named, and what is right is not accused.

`bench/audit_made_up.py` does the same with hundreds of them.
"""

from pathlib import Path
from random import Random

import pytest
from bench.made_up_tables import FAULTS, HONEST_KINDS, made_up, named

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.reading.own_table import read_table

# Whole audits, again and again.
pytestmark = pytest.mark.slow

TABLES = 6


@pytest.mark.parametrize("kind", [*HONEST_KINDS, *FAULTS, "mistaken", "outside"])
def test_what_is_wrong_is_named_and_what_is_right_is_not(tmp_path: Path, kind: str) -> None:
    for number in range(TABLES):
        made = made_up(Random(f"test {number}"), kind)
        (tmp_path / "t.csv").write_text(made.text)
        (study,) = read_table(tmp_path / "t.csv")
        record = audit(study)
        assert named(made, record) == (True, set()), made.text
        assert is_faulty(record) == bool(made.wrong)
