"""A misspelt field is a type error: `make lint` says of a comment that ignores none that it is not needed."""

from dpscale.records.kinds import TimingRecord
from dpscale.records.script import ScriptRecord
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.timing import TimesRow


def misspelt(record: TimingRecord, script: ScriptRecord, facts: NetworkFacts, row: TimesRow) -> None:
    print(record.scopes["compute"].epochs_s)  # type: ignore[attr-defined]
    print(record.settings.precison)  # type: ignore[attr-defined]
    print(script.runs[0].process)  # type: ignore[attr-defined]
    print(facts.gradients_bytes)  # type: ignore[attr-defined]
    print(row.epochs_s)  # type: ignore[attr-defined]
    print(TimesRow(batch=32))  # type: ignore[call-arg]
