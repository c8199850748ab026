"""A misspelt field of a record, of its settings or of a row is found by the type checker."""

from pathlib import Path

import pytest
from mypy import api

MISSPELT = """
from dpscale.records.kinds import TimingRecord
from dpscale.records.script import ScriptRecord
from dpscale.strategies.facts import NetworkFacts
from dpscale.tables.timing import TimesRow

def read(record: TimingRecord, script: ScriptRecord, facts: NetworkFacts, row: TimesRow) -> TimesRow:
    print(record.scopes["compute"].epochs_s)
    print(record.settings.precison)
    print(script.runs[0].process)
    print(facts.gradients_bytes)
    print(row.epochs_s)
    return TimesRow(batch=32)
"""


@pytest.mark.slow
def test_a_misspelt_field_is_a_type_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    output, _, _ = api.run(["--config-file", str(root / "pyproject.toml"), str(tmp_path / "misspelt.py")])
    faulty = [line.split(":")[1] for line in output.splitlines() if ": error:" in line]
    assert faulty == ["8", "9", "10", "11", "12", "13"], output
