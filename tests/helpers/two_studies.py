"""Studies to compare, made of records of which it is known how they differ."""

import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import h200_study
from dpscale.analyse.tables import build_tables
from dpscale.compare.comparison import ComparedStudies, ComparedStudy
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.tables.tables import Tables
from record_factory import collected_of, network_facts, training_record

Change = Callable[[AnyCell, dict[str, Any]], None]

ARMS = {
    "small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128},
    "large": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512},
}
ACCURACIES = {"small": [0.70, 0.71, 0.72], "large": [0.48, 0.50, 0.52]}


def study(**changes: Any) -> Study:
    return h200_study.study(**{"training": {"arms": ARMS, "baseline": "small"}, **changes})


def small(**changes: Any) -> Study:
    """Of times alone."""
    return study(**{"communication": {"runs": 0}, "training": {}, "batch_per_gpu": [128, 512], **changes})


def records(wanted: Study) -> dict[AnyCell, dict[str, Any]]:
    """Every record of the study: times, communication and collectives on 4 H200, and both arms."""
    without_arms = Study({**wanted.values, "training": {}})
    by_cell = h200_study.written(without_arms)
    for cell in plan(wanted).training:
        last = ACCURACIES[cell.arm][cell.seed - 1]
        by_cell[cell] = training_record(cell, [last - 0.1, last])
    return by_cell


def changed_records(wanted: Study, change: Change | None) -> dict[AnyCell, dict[str, Any]]:
    """Its records, of which `change` was called with each; it may change them."""
    # A deep copy, in a fifth of the time.
    copied: dict[AnyCell, dict[str, Any]] = pickle.loads(pickle.dumps(records(wanted)))
    for cell, record in copied.items():
        if change:
            change(cell, record)
    return copied


def changed(wanted: Study, change: Change | None) -> Collected:
    """The study with `changed_records`."""
    return collected_of(changed_records(wanted, change), network_facts(wanted.settings))


def side(name: str = "one", change: Change | None = None, of: Study | None = None) -> ComparedStudy:
    """A study after `change`."""
    wanted = of or study()
    tables = build_tables(wanted, changed(wanted, change)) if change or of else _unchanged_tables()
    return ComparedStudy(name, wanted, tables)


@cache
def _unchanged_tables() -> Tables:
    """Of the study as it is, which most tests compare with: nothing changes them."""
    return build_tables(study(), changed(study(), None))


def compared(change: Change | None = None, of: Study | None = None) -> ComparedStudies:
    """The study against the same after `change`, which may be `of` another study."""
    return ComparedStudies([side("before"), side("after", change, of)])


def slower(factor: float, *strategies: str) -> Change:
    """Epochs and steps take so many times longer; of these strategies, or of all."""

    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if type(cell) is TimingCell and (not strategies or cell.configuration.strategy in strategies):
            for scope in record["scopes"].values():
                for name in ("epoch_s", "step_s_median"):
                    scope[name] = [seconds * factor for seconds in scope[name]]
                scope["rank_epoch_s"] = [[seconds * factor for seconds in ranks] for ranks in scope["rank_epoch_s"]]

    return change
