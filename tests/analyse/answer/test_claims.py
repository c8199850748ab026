"""Claims: a predicate that rests on an interval is one, and is counted."""

import re
from pathlib import Path

import dpscale
from dpscale.analyse.answer.claims import CLAIMS, SPEEDUP_TREND, counts_rows
from rows import known, one, read_tables

ON_INTERVALS = re.compile(r"\.(is_above|is_below|exceeds)\(|\b(low|high) *[<>]|[<>]=? *(\w+\.)?(low|high)\b")
# Arithmetic and drawing, by which nothing is said.
ELSEWHERE = {"analyse/answer/claims.py", "present/text/numbers.py", "present/charts/lines.py"}


def test_no_predicate_on_an_interval_stands_elsewhere() -> None:
    package = Path(dpscale.__file__).parent
    paths = [*(package / "analyse").rglob("*.py"), *(package / "present").rglob("*.py")]
    deciding = {str(path.relative_to(package)) for path in paths if ON_INTERVALS.search(path.read_text())}
    assert deciding <= ELSEWHERE


def test_batches_are_compared_pair_by_pair_and_counted() -> None:
    place = {"gpus": 4, "scope": "compute", "environment": "A", "is_headline": True, "status": "ok", "scaling": "weak"}
    speedups = {("ddp", 32): 1.5, ("ddp", 128): 3.5, ("ddp", 512): 2.5, ("dp", 128): 1.1}
    tables = read_tables({
        "speedup": [
            {**place, "strategy": strategy, "batch_per_gpu": batch, **known("speedup", speedup)}
            for (strategy, batch), speedup in speedups.items()
        ]
    })  # fmt: skip
    small, middle, large, _ = tables.speedup
    assert SPEEDUP_TREND.way(small, large) == "rises"
    assert SPEEDUP_TREND.way(middle, large) == "falls"
    counts = list(counts_rows(tables))
    assert {row.claim for row in counts} == {*CLAIMS, "intervals used"}
    rises = one(counts, claim="speedup rises with the batch")
    assert (rises.number, rises.asked) == (2, 3)
    assert one(counts, claim="intervals used").number == 4, "each of them once"
