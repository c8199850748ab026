"""The tables in a few lines of plain text, for the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer.series import configuration_of, first_scope
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present.text.numbers import ABSENT, MINUS, ends_of, plain, value_of, whole
from dpscale.present.text.words import in_order, left_out, scope, state
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import NOT_RESOLVABLE, NOT_WORTH_IT, UNDECIDED, WORTH_IT

_ROWS_SHOWN = 40
_DIGITS = 3
_WIDTH = 100
# There is little room.
_STATES, _NOT_SHOWN = {WORTH_IT: "yes", NOT_WORTH_IT: "no", UNDECIDED: "open"}, "few"
_MEANING = {"open": UNDECIDED, _NOT_SHOWN: f"not shown, fewer than {HEADLINE_STEPS} full steps per epoch"}


@dataclass(frozen=True)
class _Line:
    """The times of a configuration, and what stands beside them."""

    times: TimesRow
    speedup: SpeedupRow
    communication: CommunicationRow
    bandwidth: BandwidthRow


def summary(tables: Tables) -> str:
    """One line for every configuration of scope `compute` (or the first there is), at most 100 columns wide.

    Epoch time in s with its 95 % interval, weak speedup, communication time in s, bandwidth in GB/s.
    """
    if not tables.times:
        return "No configuration in times.csv."
    lines = _lines(tables)
    shown = lines[:_ROWS_SHOWN]
    notes = [f"{scope(shown[0].times.scope)}, weak scaling, 95 % intervals in brackets"]
    if any(line.times.epoch_s.is_range for line in shown):
        notes.append("[low to high] is the range of two runs")
    if any(row.synthetic for row in tables.records):
        notes.append("synthetic images")
    states = {_worth(line) for line in shown}
    notes += [f"{name}: {meaning}" for name, meaning in _MEANING.items() if name in states]
    columns = _columns(
        shown, several_environments=len({row.environment for row in tables.times if row.environment}) > 1
    )
    number = left_out(lines, len(shown))
    more = [f"... and {number:,} more in times.csv"] if number else []
    return "\n".join([*_in_lines(notes), *_aligned(columns), *more])


def _in_lines(notes: Sequence[str]) -> list[str]:
    """The notes side by side as far as they fit."""
    lines = [notes[0]]
    for note in notes[1:]:
        beside = f"{lines[-1]}; {note}"
        lines = [*lines[:-1], beside] if len(beside) <= _WIDTH else [*lines, note]
    return lines


def _lines(tables: Tables) -> list[_Line]:
    """The times of the scope with speedup, communication and bandwidth beside them."""
    told = first_scope(tables.times)
    weak = {configuration_of(row): row for row in tables.speedup if row.scaling == "weak" and row.scope == told}
    communication = {configuration_of(row): row for row in tables.communication if row.scope == told}
    bandwidth = {configuration_of(row): row for row in tables.bandwidth if row.scope == told}
    return [
        _Line(
            row,
            weak.get(configuration_of(row), SpeedupRow()),
            communication.get(configuration_of(row), CommunicationRow()),
            bandwidth.get(configuration_of(row), BandwidthRow()),
        )
        for row in in_order(row for row in tables.times if row.scope == told)
    ]


# Columns of text by their heading of two lines.
_COLUMNS: Sequence[tuple[str, str, Callable[[_Line], str]]] = (
    ("", "strategy", lambda line: line.times.strategy),
    ("", "gpus", lambda line: whole(line.times.gpus)),
    ("batch", "per GPU", lambda line: whole(line.times.batch_per_gpu)),
    ("", "status", lambda line: state(line.times.status)),
    ("epoch", "s [low, high]", lambda line: _epoch(line.times)),
    ("speed", "up", lambda line: plain(line.speedup.speedup.value, _DIGITS)),
    ("worth", "it", lambda line: _worth(line)),
    ("comm.", "s", lambda line: plain(line.communication.communication_s.value, _DIGITS)),
    ("bandw.", "GB/s", lambda line: _bandwidth(line.bandwidth)),
)


def _columns(lines: Sequence[_Line], several_environments: bool) -> list[list[str]]:
    columns = list(_COLUMNS)
    if several_environments:
        columns.insert(0, ("", "env", lambda line: line.times.environment or ABSENT))
    return [[above, below, *(_ascii(cell(line)) for line in lines)] for above, below, cell in columns]


def _epoch(row: TimesRow) -> str:
    if not row.epoch_s.is_known:
        return ABSENT
    return f"{value_of(row.epoch_s)} [{ends_of(row.epoch_s) or 'no interval'}]"


def _worth(line: _Line) -> str:
    """The state of the verdict: of epochs with few steps it has none."""
    if not line.speedup.speedup.is_known:
        return _ascii(ABSENT)
    return _STATES[line.speedup.worth] if line.speedup.is_headline else _NOT_SHOWN


def _bandwidth(row: BandwidthRow) -> str:
    if row.status == NOT_RESOLVABLE:
        least = plain(row.bandwidth_gb_s_at_least, _DIGITS)
        return NOT_RESOLVABLE if least == ABSENT else f">= {least}"
    return plain(row.bandwidth_gb_s.value, _DIGITS)


def _ascii(text: str) -> str:
    """Terminals without UTF-8 exist."""
    return text.replace(ABSENT, "-").replace(MINUS, "-")


def _aligned(columns: list[list[str]]) -> list[str]:
    """Words to the left, numbers to the right."""
    padded = []
    for column in columns:
        width = max(map(len, column))
        is_words = column[1] in ("env", "strategy", "status", "s [low, high]", "it")
        padded.append([entry.ljust(width) if is_words else entry.rjust(width) for entry in column])
    return ["  ".join(entries).rstrip() for entries in zip(*padded, strict=True)]
