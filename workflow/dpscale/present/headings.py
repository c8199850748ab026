"""What to take away from a chart, in one line of figures: pure functions of the rows that it draws.

A heading names figures and where they were measured. Whether a difference is more than noise is for `findings`.
"""

from collections.abc import Mapping

import pandas as pd

from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.finding import extreme, percent
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.quantities import TEST_ACCURACY, Quantity
from dpscale.vocabulary.states import BEST

NO_HEADLINE = f"No epoch has {HEADLINE_STEPS} full steps"


def parts_of_step(part: pd.DataFrame, names: Mapping[str, str], of: str) -> str:
    """The same `of` what a part of the table is of."""
    ordered = words.rows(part.sort_values("batch_per_gpu"))
    first, last = ordered[0], ordered[-1]
    heading = f"{of}: at batch {int(first['batch_per_gpu']):,} {_largest(first, names)} of a profiled step"
    if first is last:
        return heading
    return f"{heading}, at {int(last['batch_per_gpu']):,} {_largest(last, names)}"


def training(part: pd.DataFrame, baseline: str | None, drawn: Quantity) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `part` has the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    found = {str(arm): _end(rows, drawn) for arm, rows in part.groupby("arm", sort=False)}
    against = part.dropna(subset=["compared_with"]).groupby("arm")["compared_with"].first().to_dict()
    ends = {arm: end for arm, end in found.items() if arm not in (baseline, *against.values())}
    known = {arm: end for arm, end in ends.items() if end is not None}
    parts, named = [], baseline
    if known:
        best = (min if "loss" in drawn.column else max)(known, key=lambda arm: known[arm])
        ends_best = "ends best," if len(ends) > 1 else "ends"
        parts.append(f"{best} {ends_best} at {words.measured(known[best], drawn.unit)}")
        named = against.get(best, baseline)
    elif ends:
        parts.append("a seed of every arm diverged")
    if (base := found.get(str(named))) is not None:
        parts.append(f"the baseline {named} at {words.measured(base, drawn.unit)}")
    return f"{drawn.label}: {'; '.join(parts) or 'a seed of every arm diverged'}"


def frontier(part: pd.DataFrame, cost: Quantity, verdict: str, terms: Terms) -> str:
    """`Pareto-best: from b2048-lars, 54.2 % for 10.2 s, to b128, 71.3 % for 14.4 s`: the two ends, by means."""
    best = words.rows(part[part[verdict] == BEST].sort_values(cost.column))
    ends = [
        f"{row['arm']}, {words.measured(row[TEST_ACCURACY.column], TEST_ACCURACY.unit)} for "
        f"{words.measured(row[cost.column], cost.unit)}{'' if cost.unit.shown else f' {terms.label(cost)}'}"
        for row in (best[0], best[-1])
    ]
    return f"Pareto-best: {ends[0]}" if len(best) == 1 else f"Pareto-best: from {ends[0]}, to {ends[1]}"


def _end(curve: pd.DataFrame, drawn: Quantity) -> float | None:
    """The mean over seeds after the last epoch, or None where a seed diverged."""
    if (curve["diverged"] > 0).any():
        return None
    return float(extreme(curve, "epoch", largest=True)[drawn.column])


def _largest(row: Row, names: Mapping[str, str]) -> str:
    column = max(names, key=lambda name: row[name])
    return f"{names[column]} is {percent(row[column])}"
