"""The tables in a few lines of plain text, for the terminal."""

from collections.abc import Sequence

import pandas as pd

from dpscale.analyse.claims import is_range, is_true
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.words import POINT_COLUMNS, Row, Tables
from dpscale.vocabulary.states import NOT_RESOLVABLE, NOT_WORTH_IT, UNDECIDED, WORTH_IT

_ROWS_SHOWN = 40
_PLACE = [*POINT_COLUMNS, "environment"]
_DIGITS = 3
_WIDTH = 100
# There is little room.
_STATES, _NOT_SHOWN = {WORTH_IT: "yes", NOT_WORTH_IT: "no", UNDECIDED: "open"}, "few"
_MEANING = {"open": UNDECIDED, _NOT_SHOWN: f"not shown, fewer than {HEADLINE_STEPS} full steps per epoch"}


def summary(tables: Tables) -> str:
    """One line for every configuration of scope `compute` (or the first there is), at most 100 columns wide.

    Epoch time in s with its 95 % interval, weak speedup, communication time in s, bandwidth in GB/s.
    """
    times = tables["times"]
    if times.empty:
        return "No configuration in times.csv."
    scopes = list(times["scope"].unique())
    scope = "compute" if "compute" in scopes else scopes[0]
    lines = _lines(tables, scope)
    shown = lines.head(_ROWS_SHOWN)
    columns = _columns(shown, several_environments=times["environment"].nunique() > 1)
    notes = [f"{words.scope(scope)}, weak scaling, 95 % intervals in brackets"]
    if any(is_range(row, "epoch_s") for row in words.rows(shown)):
        notes.append("[low to high] is the range of two runs")
    if any(words.are_true(tables["records"]["synthetic"])):
        notes.append("synthetic images")
    states = {_worth(row) for row in words.rows(shown)}
    notes += [f"{state}: {meaning}" for state, meaning in _MEANING.items() if state in states]
    number = words.left_out(lines, len(shown))
    more = [f"... and {number:,} more in times.csv"] if number else []
    return "\n".join([*_in_lines(notes), *_aligned(columns), *more])


def _in_lines(notes: Sequence[str]) -> list[str]:
    """The notes side by side as far as they fit."""
    lines = [notes[0]]
    for note in notes[1:]:
        beside = f"{lines[-1]}; {note}"
        lines = [*lines[:-1], beside] if len(beside) <= _WIDTH else [*lines, note]
    return lines


def _lines(tables: Tables, scope: str) -> pd.DataFrame:
    """The times of the scope with speedup, communication and bandwidth beside them."""
    speedup = tables["speedup"]
    weak = speedup[(speedup["scaling"] == "weak") & (speedup["scope"] == scope)]
    lines = words.in_order(tables["times"][tables["times"]["scope"] == scope])
    lines = lines.drop(columns="is_headline")
    lines = lines.merge(weak[[*_PLACE, "speedup", "worth", "is_headline"]], on=_PLACE, how="left")
    if scope != "compute":
        return lines.assign(
            communication_s=None, bandwidth_status=None, bandwidth_gb_s=None, bandwidth_gb_s_at_least=None
        )
    lines = lines.merge(tables["communication"][[*_PLACE, "communication_s"]], on=_PLACE, how="left")
    bandwidth = tables["bandwidth"][[*_PLACE, "status", "bandwidth_gb_s", "bandwidth_gb_s_at_least"]]
    return lines.merge(bandwidth.rename(columns={"status": "bandwidth_status"}), on=_PLACE, how="left")


def _columns(lines: pd.DataFrame, several_environments: bool) -> list[list[str]]:
    """Columns of text, each with its heading of two lines first."""
    rows = words.rows(lines)
    columns = [
        ["", "strategy", *(row["strategy"] for row in rows)],
        ["", "gpus", *(words.whole(row["gpus"]) for row in rows)],
        ["batch", "per GPU", *(words.whole(row["batch_per_gpu"]) for row in rows)],
        ["", "status", *(words.state(row["status"]) for row in rows)],
        ["epoch", "s [low, high]", *(_epoch(row) for row in rows)],
        ["speed", "up", *(_plain(words.figure(row["speedup"], _DIGITS)) for row in rows)],
        ["worth", "it", *(_worth(row) for row in rows)],
        ["comm.", "s", *(_plain(words.figure(row["communication_s"], _DIGITS)) for row in rows)],
        ["bandw.", "GB/s", *(_bandwidth(row) for row in rows)],
    ]
    if several_environments:
        columns.insert(0, ["", "env", *(_plain(words.text(row["environment"])) for row in rows)])
    return columns


def _epoch(row: Row) -> str:
    written = words.estimate(row, "epoch_s").replace("range of two runs: ", "").replace(": one run", "")
    return _plain(written)


def _worth(row: Row) -> str:
    """The state of the verdict: of epochs with few steps it has none."""
    if not words.is_known(row["speedup"]):
        return _plain(words.ABSENT)
    is_shown = is_true(row["is_headline"])
    return _STATES[str(row["worth"])] if is_shown else _NOT_SHOWN


def _bandwidth(row: Row) -> str:
    if row["bandwidth_status"] == NOT_RESOLVABLE:
        least = row["bandwidth_gb_s_at_least"]
        return f">= {words.figure(least, _DIGITS)}" if words.is_known(least) else NOT_RESOLVABLE
    return _plain(words.figure(row["bandwidth_gb_s"], _DIGITS))


def _plain(text: str) -> str:
    """Terminals without UTF-8 exist."""
    return text.replace(words.ABSENT, "-").replace(words.MINUS, "-")


def _aligned(columns: list[list[str]]) -> list[str]:
    """Words to the left, numbers to the right."""
    padded = []
    for column in columns:
        width = max(map(len, column))
        is_words = column[1] in ("env", "strategy", "status", "s [low, high]", "it")
        padded.append([entry.ljust(width) if is_words else entry.rjust(width) for entry in column])
    return ["  ".join(entries).rstrip() for entries in zip(*padded, strict=True)]
