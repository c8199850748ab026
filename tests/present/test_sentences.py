"""Everything that pages and hand-ins of recorded studies say, beside what the commit before said.

A change of words is a change of `__snapshots__`, to be read in the diff: `pytest tests/present --snapshot-update`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from dpscale.analyse.answer.answer import answer_of
from dpscale.plan.study import Study
from dpscale.present.findings.answer import first_screen
from dpscale.present.findings.cautions import by_chance, first_cautions, other_cautions
from dpscale.present.findings.findings import findings
from dpscale.present.handin_report import report
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from recorded import recorded_study, recorded_tables


def sentences(study: Study, tables: Tables) -> Iterator[str]:
    """Yield every sentence behind the place where it stands, and what is counted as absent."""
    terms = Terms.of(study.values, tables)
    yield first_screen(answer_of(tables), terms).on_terminal
    yield from (f"absence: {row.flat()}" for row in tables.absences)
    yield f"by chance: {by_chance(tables.counts, terms)}"
    yield from (f"first caution: {caution}" for caution in first_cautions(tables, terms))
    yield from (f"caution: {caution}" for caution in other_cautions(tables, terms))
    for section, sentences_there in findings(tables, terms).items():
        yield from (f"{section}: {finding}" for finding in sentences_there)
    handed_in = report(study.values, tables, terms)
    yield from (f"lacking: {sentence}" for sentence in handed_in.lacking)
    for question in handed_in.sections:
        for kind, paragraph in question.paragraphs.items():
            yield from (f"{question.name}, {kind}: {sentence}" for sentence in paragraph)


@pytest.mark.parametrize(
    "results",
    [
        *("recorded", "recorded-two-gpus", "recorded-h200-4", "recorded-gpt"),
        *("recorded-strategies", "recorded-strategies-gpt"),
    ],
)
def test_what_a_recorded_study_says(root: Path, results: str, snapshot: SnapshotAssertion) -> None:
    assert list(sentences(recorded_study(root, results), recorded_tables(root, results))) == snapshot
