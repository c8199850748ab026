"""Two studies to compare, made of records of which it is known how they differ."""

import pickle
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pandas as pd

import h200_study
from dpscale.analyse.comparison import Compared, Side, compare
from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from record_factory import training_record

Change = Callable[[AnyCell, dict[str, Any]], None]

ARMS = {
    "small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128},
    "large": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512},
}
ACCURACIES = {"small": [0.70, 0.71, 0.72], "large": [0.48, 0.50, 0.52]}


def study(**changes: Any) -> Study:
    return h200_study.study(**{"training": {"arms": ARMS, "baseline": "small"}, **changes})


def records(wanted: Study) -> Collected:
    """Every record of the study: times, communication and collectives on 4 H200, and both arms."""
    without_arms = Study({**wanted.values, "training": {}})
    found = h200_study.collected(without_arms)
    for cell in plan(wanted).training:
        last = ACCURACIES[cell.arm][cell.seed - 1]
        found.records[cell] = training_record(cell, [last - 0.1, last])
    return found


def side(name: str = "one", change: Change | None = None, of: Study | None = None) -> Side:
    """A study whose records `change` was called with, each once; it may change them."""
    wanted = of or study()
    if not change and not of:
        return Side(name, wanted, _unchanged_tables())
    collected: Collected = pickle.loads(pickle.dumps(records(wanted)))  # a deep copy, in a fifth of the time
    for cell, record in collected.records.items():
        if change:
            change(cell, record)
    return Side(name, wanted, build_tables(wanted, collected))


@cache
def _unchanged_tables() -> Mapping[str, pd.DataFrame]:
    """Of the study as it is, which most tests compare with: nothing changes them."""
    return build_tables(study(), records(study()))


def compared(change: Change | None = None, of: Study | None = None, may_differ: tuple[str, ...] = ()) -> Compared:
    """The study against the same after `change`, which may be `of` another study."""
    return compare(side("before"), side("after", change, of), may_differ)


def slower(factor: float, *strategies: str) -> Change:
    """Epochs and steps take so many times longer; of these strategies, or of all."""

    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if type(cell) is TimingCell and (not strategies or cell.configuration.strategy in strategies):
            for scope in record["scopes"].values():
                for name in ("epoch_s", "step_s_median"):
                    scope[name] = [seconds * factor for seconds in scope[name]]

    return change
