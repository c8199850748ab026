"""How a study speaks: of GPUs or workers, images or samples; its lists, plurals and states; and of which rows, in which
order."""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, TypeVar

from dpscale.present.text.numbers import ABSENT
from dpscale.schemas.settings import BUILT_IN, OF_FILE, JsonValues, sample_of
from dpscale.strategies.known import STRATEGIES
from dpscale.strategies.known import strategy as known_strategy
from dpscale.tables.column import Column
from dpscale.tables.row import OfConfiguration, Place
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import MARK, OTHER_RUNS, STATES

_SCOPES = {"compute": "compute", "end_to_end": "end-to-end"}


class _WithStatus(Protocol):
    @property
    def status(self) -> str: ...


class _Headline(Protocol):
    @property
    def is_headline(self) -> bool | None: ...


class _OfRuns(Protocol):
    @property
    def other_runs(self) -> bool | None: ...


R = TypeVar("R")
P = TypeVar("P", bound=OfConfiguration)
S = TypeVar("S", bound=_WithStatus)
H = TypeVar("H", bound=_Headline)


def is_own_workload(study: JsonValues) -> bool:
    """Whether a study trains a file of a user, not the built-in workload."""
    return bool(study["workload"] != BUILT_IN)


@dataclass(frozen=True)
class Terms:
    """How this study speaks: of GPUs or of workers, of images or of a file's samples, and of environments only where
    there are several."""

    device: str
    several_environments: bool
    synthetic: bool
    own_workload: bool = False

    @classmethod
    def of(cls, study: JsonValues, tables: Tables) -> "Terms":
        return cls(
            device="worker" if study["device"] == "cpu" else "GPU",
            several_environments=len(tables.environments) > 1,
            synthetic=study["dataset"]["source"] == "synthetic" or any(row.synthetic for row in tables.records),
            own_workload=is_own_workload(study),
        )

    @property
    def devices(self) -> str:
        return f"{self.device}s"

    @property
    def heading(self) -> str:
        """`GPUs`, `Workers`."""
        return capitalised(self.devices)

    @property
    def data_note(self) -> str:
        """Return the note that stands wherever data are shown, if there is one."""
        return "Synthetic images." if self.synthetic else ""

    @property
    def samples(self) -> str:
        """`images`, `samples`."""
        return self.worded("images")

    @property
    def a_sample(self) -> str:
        """`an image`, `a sample`."""
        return self.worded("an image")

    @property
    def batch(self) -> str:
        """`batch per GPU in images`."""
        return f"batch per {self.device} in {self.samples}"

    def filled(self, text: str) -> str:
        """Fill in the names of devices and samples, which labels of columns leave open: `Batch per {device}`."""
        names = {"device": self.device, "devices": self.devices, "Devices": self.heading, "samples": self.samples}
        return self.worded(text.format(**names))

    def heading_of(self, column: Column) -> str:
        """`Batch per GPU, images`: the label, and the unit that is shown."""
        return ", ".join(filter(None, (self.filled(column.label), self.worded(column.unit.shown))))

    def worded(self, written: str) -> str:
        """Return a text of the vocabulary, which speaks of images, in the words of this study."""
        if not self.own_workload:
            return written
        sample = sample_of(OF_FILE)
        written = written.replace("an image", f"a {sample}").replace("image", sample)
        return written.replace("Image", sample.capitalize())

    def notes_of(self, cells: Iterable[Iterable[str]]) -> list[str]:
        """Return the meanings of the words for states that stand in these cells, several after commas, or one before
        a colon; and that of the mark."""
        texts = [cell for row in cells for cell in row]
        words = {word.partition(":")[0] for text in texts for word in text.split(", ")}
        if any(MARK in text for text in texts):
            words.add(state(OTHER_RUNS))
        return [f"{word}: {self.filled(meaning)}." for word, meaning in STATES.values() if word in words]

    def count(self, number: int | None) -> str:
        """`1 GPU`, `4 GPUs`."""
        return plural(int(number or 0), self.device)

    def point(self, row: OfConfiguration) -> str:
        """`ddp on 4 GPUs at batch 512 per GPU`, and its environment where there are several."""
        return f"{self.group(row)} {self.at_batch(row)}"

    def at_batch(self, row: OfConfiguration) -> str:
        """`at batch 512 per GPU`, and its environment where there are several."""
        return f"at batch {row.batch_per_gpu:,} per {self.device}{self.environment(row)}"

    def group(self, row: OfConfiguration) -> str:
        """`ddp on 4 GPUs`."""
        return f"{row.strategy} on {self.count(row.gpus)}"

    def scope(self, row: Place) -> str:
        """`compute scope`, and its environment where there are several."""
        return f"{scope(row.scope)}{self.environment(row)}"

    def loading(self, row: Place) -> str:
        """`without data loading`, and its environment where there are several."""
        return f"{loading(row.scope)}{self.environment(row)}"

    def environment(self, row: object) -> str:
        """` in environment B` where there are several and this row has one; otherwise nothing."""
        return self.in_environment(getattr(row, "environment", ""))

    def in_environment(self, letter: str) -> str:
        """Return ` in environment B` of a letter where there are several environments; otherwise nothing."""
        return f" in environment {letter}" if self.several_environments and letter else ""


def mark(row: _OfRuns) -> str:
    """Return the mark behind figures whose printed times are of other runs; otherwise nothing."""
    return MARK if row.other_runs else ""


def states_of(row: _OfRuns) -> tuple[str, ...]:
    """Return the states with which figures are printed whose printed times are of other runs: they have the mark."""
    return (OTHER_RUNS,) if row.other_runs else ()


def state(status: str) -> str:
    """Return the word for a status."""
    return STATES[status][0] if status in STATES else status


def scope(name: str) -> str:
    """`compute scope`, `end-to-end scope`."""
    return f"{_SCOPES[name]} scope"


def loading(name: str) -> str:
    """`without data loading`, `with data loading`, of a scope."""
    return f"{'without' if name == 'compute' else 'with'} data loading"


def text(value: str) -> str:
    """Return a text, or a dash where there is none."""
    return value or ABSENT


def on_or_off(value: bool | None) -> str:
    return "on" if value else "off"


def capitalised(sentence: str) -> str:
    """Return the sentence with a capital first letter, the rest as it is. A name such as cuDNN keeps its own."""
    first = sentence.partition(" ")[0]
    return sentence if first != first.lower() else sentence[:1].upper() + sentence[1:]


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def out_of(number: int, total: int, noun: str) -> str:
    """`8 of 40 comparisons`."""
    return f"{number:,} of {plural(total, noun)}"


def listed(items: Sequence[str], limit: int = 12, separator: str = ", ") -> str:
    """`a, b, c`, and how many more where there are more than `limit`."""
    more = f" and {left_out(items, limit):,} more" if len(items) > limit else ""
    return separator.join(items[:limit]) + more


def joined(items: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def on_nodes(nodes: Iterable[int | None]) -> str:
    """` on 2 nodes`, where some are on several; otherwise nothing. How many may be unknown."""
    most = max((number or 1 for number in nodes), default=1)
    return f" on {most} nodes" if most > 1 else ""


def left_out(items: Sized, shown: int) -> int:
    """Return how many of the items are not shown."""
    return max(0, len(items) - shown)


def rank(strategy: str) -> int:
    """Return the place of a strategy in the order in which people read them. Raises StrategyError if it is unknown."""
    return list(STRATEGIES).index(known_strategy(strategy).name)


def colour(strategy: str) -> str:
    """Return the colour of a strategy, as a variable of the page's style. Raises StrategyError if it is unknown."""
    return f"var(--{known_strategy(strategy).name})"


def in_order(rows: Iterable[P]) -> list[P]:
    """Return the rows as people read them: by scope, scaling, strategy, devices, batch and environment. Raises
    StrategyError."""
    return sorted(rows, key=_place_in_order)


def _place_in_order(row: OfConfiguration) -> tuple[Any, ...]:
    scope, scaling, environment = (getattr(row, name, "") for name in ("scope", "scaling", "environment"))
    # Rows that were not measured have no environment and come last.
    return scope, scaling, rank(row.strategy), row.gpus, row.batch_per_gpu, not environment, environment


def ok(rows: Iterable[S]) -> list[S]:
    """Return the rows that hold a result."""
    return [row for row in rows if row.status == "ok"]


def headline(rows: Iterable[H]) -> list[H]:
    """Return the rows whose epochs have steps enough for findings, headings and verdict to speak of them."""
    return [row for row in rows if row.is_headline]


def largest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    """Return the row with the largest number, of those that have one; of several the first."""
    return max((row for row in rows if isfinite(key(row))), key=key)


def smallest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    """Return the row with the smallest number, of those that have one; of several the first."""
    return min((row for row in rows if isfinite(key(row))), key=key)
