"""The page of two studies side by side, in the form of a study's page: what changed, by how much, and how sure that is.

Every sentence is computed from the tables; a change is claimed only where its 95 % interval carries it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.analyse.comparison import ALL_SCOPES, NO_INTERVAL, NOT_APART, SIDES, SUBJECTS, Compared, as_written
from dpscale.present import comparison_charts, comparison_groups, words
from dpscale.present.comparison_groups import Pair
from dpscale.present.comparison_views import Views, operation
from dpscale.present.comparison_warnings import of_sides, settings_that_differ, terms_of
from dpscale.present.finding import extreme, place
from dpscale.present.text.html import fill
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.quantities import MILLISECONDS, POINTS, SOFTWARE, TIMES

# Properties that two environments of the same kind share.
_OF_ENVIRONMENT = ("device_model", *SOFTWARE)


@dataclass(frozen=True)
class Verdict:
    """The answers, one sentence per scope; what is slower than is tolerated, where somebody asked; which groups show no
    difference, and which are not compared; a tally of the epochs of every scope, and of every other kind of figure;
    how many claims chance alone would make."""

    answers: Sequence[str]
    guard: Sequence[str]
    without_difference: Sequence[str]
    not_compared: Sequence[str]
    sentences: Sequence[str]
    others: Sequence[str]
    by_chance: str

    @property
    def answer(self) -> str:
        """Of the compute scope, or of the first there is."""
        return self.answers[0]


@dataclass(frozen=True)
class _Headline:
    """The figure that speaks for a subject: how it is named, and how a row's place and effect are written."""

    subject: str
    quantity: str
    noun: str
    place: Callable[[Row, Terms], str]
    effect: Callable[[Row], str]


def _point(row: Row, terms: Terms) -> str:
    return terms.point(row)


def _ratio(row: Row) -> str:
    return words.estimate(row, "ratio", TIMES, with_unit=True)


_EPOCH = _Headline("compared_times", "epoch_s", "", _point, _ratio)
_HEADLINES = (
    _Headline(
        "compared_speedup", "speedup", "Speedup",
        lambda row, terms: f"{row['scaling']}, {place(row, terms)}", _ratio,
    ),
    _Headline(
        "compared_communication", "communication_step_s", "Communication of a step by subtraction (E1)", _point,
        lambda row: f"by {words.estimate(row, 'difference', MILLISECONDS, with_unit=True)}",
    ),
    _Headline("compared_bandwidth", "bandwidth_gb_s", "Inferred bandwidth", _point, _ratio),
    _Headline(
        "compared_collectives", "bus_bandwidth_gb_s", "Bus bandwidth alone",
        lambda row, terms: (
            f"{operation(row)} of {words.whole(row['message_bytes'])} bytes on {terms.count(row['gpus'])}"
        ),
        _ratio,
    ),
    _Headline(
        "compared_training", "test_accuracy", "Test accuracy",
        lambda row, terms: f"arm {row['arm']}",
        lambda row: f"by {words.estimate(row, 'difference', POINTS, with_unit=True)}",
    ),
)  # fmt: skip


def render(compared: Compared) -> str:
    """The page as HTML. Pure, but for reading its own template."""
    terms = terms_of(compared.sides)
    epochs = _of(compared, _EPOCH)
    return fill(
        "comparison.html.j2",
        terms=terms,
        first=compared.first,
        second=compared.second,
        described=[_described(compared, name) for name in SIDES],
        common=_common_settings(compared),
        verdict=verdict(compared),
        warnings=warnings(compared),
        same_environment=_same_environment(compared),
        views=Views(compared, terms),
        changes=comparison_charts.changes(compared, epochs, terms),
        speeds=comparison_charts.speeds(epochs, compared, terms),
        epoch_times=comparison_charts.epoch_times(epochs, compared, terms),
    )


def summary(compared: Compared) -> list[str]:
    """The sentences for a terminal: the answers, and what is slower than is tolerated."""
    found = verdict(compared)
    return [*found.answers, *found.guard]


def verdict(compared: Compared) -> Verdict:
    """What the intervals say of the second study against the first."""
    terms = terms_of(compared.sides)
    epochs = _of(compared, _EPOCH)
    with_outcome = epochs.dropna(subset=["outcome"])
    outcomes = compared.tables["compared_outcomes"]
    of_epochs = _outcomes(outcomes, _EPOCH)
    sentences = [
        _tally(
            with_outcome[with_outcome["scope"] == scope],
            of_epochs[scope],
            _EPOCH,
            f"Epochs, {words.scope(scope)}",
            terms,
        )
        for scope in sorted(of_epochs)
        if scope != ALL_SCOPES
    ]
    others = [
        _tally(
            _of(compared, headline).dropna(subset=["outcome"]),
            _outcomes(outcomes, headline)[ALL_SCOPES],
            headline,
            headline.noun,
            terms,
        )
        for headline in _HEADLINES
    ]
    groups, pair = compared.tables["compared_groups"], Pair(compared.first.name, compared.second.name)
    return Verdict(
        answers=comparison_groups.answers(groups, terms, pair),
        guard=comparison_groups.guard(groups, terms, compared.first.name),
        without_difference=comparison_groups.without_difference(groups, terms, pair, epochs),
        not_compared=comparison_groups.not_compared(groups, terms, pair),
        sentences=sentences,
        others=[sentence for sentence in others if sentence],
        by_chance=_by_chance(of_epochs),
    )


def _outcomes(outcomes: pd.DataFrame, headline: _Headline) -> dict[str, Row]:
    """How often a headline's quantity came to which outcome, by scope."""
    found = outcomes[(outcomes["table"] == headline.subject) & (outcomes["quantity"] == headline.quantity)]
    return {str(row["scope"]): row for row in words.rows(found)}


def warnings(compared: Compared) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    differing = settings_that_differ(compared.first.name, {compared.second.name: compared.differing})
    images = _property(compared, "dataset_sha256")
    if images[0] != images[1]:
        samples = terms_of(compared.sides).samples
        differing.append(f"The {samples} have different checksums: arms were not trained on the very same ones.")
    return [*differing, *of_sides(compared.sides, compared.tables["compared_records"])]


def _of(compared: Compared, headline: _Headline) -> pd.DataFrame:
    table = compared.tables[headline.subject]
    return table[table["quantity"] == headline.quantity]


def _by_chance(of_epochs: Mapping[str, Row]) -> str:
    """`2.5 of 50 epoch times`: how many would lie beyond their intervals if nothing differed; "" where none can."""
    outcome = of_epochs[ALL_SCOPES]
    if not outcome["by_chance"]:
        return ""
    return f"{words.figure(outcome['by_chance'], 2)} of {words.plural(outcome['with_interval'], 'epoch time')}"


def _tally(rows: pd.DataFrame, counts: Row, headline: _Headline, noun: str, terms: Terms) -> str:
    """How often which outcome, and the largest changes; "" where there is nothing to tell."""
    if not counts["number"]:
        return ""
    subject = SUBJECTS[headline.subject]
    named = {
        "above": subject.above,
        "below": subject.below,
        "not_apart": f"{NOT_APART} beyond the intervals",
        "no_interval": NO_INTERVAL,
    }
    parts = [f"{outcome} in {counts[name]:,}" for name, outcome in named.items() if counts[name]]
    middle = f", median {words.measured(counts['ratio_median'], TIMES)}" if subject.column == "ratio" else ""
    return f"{noun}: {', '.join(parts)} of {counts['number']:,}{middle}.{_largest(rows, headline, terms)}"


def _largest(rows: pd.DataFrame, headline: _Headline, terms: Terms) -> str:
    """The largest changes to either side, of those beyond their intervals."""
    subject = SUBJECTS[headline.subject]
    sentences = []
    for word, outcome, largest in (("Highest", subject.above, True), ("Lowest", subject.below, False)):
        changed = rows[rows["outcome"] == outcome]
        if len(changed):
            row = extreme(changed, subject.column, largest)
            sentences.append(f" {word}: {headline.place(row, terms)}, {headline.effect(row)}.")
    return "".join(sentences)


def _property(compared: Compared, name: str) -> tuple[str, str]:
    table = compared.tables["compared_environments"]
    row = words.rows(table[table["property"] == name])[0]
    return words.text(row["first"]), words.text(row["second"])


def _described(compared: Compared, name: str) -> str:
    """`NVIDIA H200, measured 2026-11-20, commit 4be1f0c24be1`."""
    side = SIDES.index(name)
    first, last = (_property(compared, moment)[side][:10] for moment in ("first_started_at", "last_finished_at"))
    days = first if first == last else f"{first} to {last}"
    commits, dirty = (_property(compared, key)[side] for key in ("git_commits", "git_dirty"))
    known = [] if commits == words.ABSENT else commits.split("; ")
    commit = f"commit {known[0]}" if len(known) == 1 else f"{len(known)} commits" if known else "commit not recorded"
    changed = ", with uncommitted changes" if dirty == "yes" else ""
    return f"{_property(compared, 'device_model')[side]}, measured {days}, {commit}{changed}"


def _common_settings(compared: Compared) -> str:
    """`network cifar_resnet18, width 64, ...`: what can change a number and is the same in both."""
    differing = {difference.setting for difference in compared.differing if difference.arm is None}
    settings = compared.first.study.settings
    return ", ".join(
        f"{name} {as_written(getattr(settings, name))}" for name in settings.names() if name not in differing
    )


def _same_environment(compared: Compared) -> bool:
    """Whether both were measured on the same kind of device with the same software."""
    return all(first == second for first, second in (_property(compared, name) for name in _OF_ENVIRONMENT))
