"""The page of more than two studies: one row per study, and each against the first one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.analyse.comparison_studies import Overview
from dpscale.present import comparison_charts, comparison_groups, words
from dpscale.present.comparison_groups import Pair
from dpscale.present.comparison_views import environment_text, groups_view, property_name
from dpscale.present.comparison_warnings import of_sides, settings_that_differ, terms_of
from dpscale.present.text.html import fill
from dpscale.present.view import Column, View, text, view_of
from dpscale.present.words import Row, Terms
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.quantities import SOFTWARE, SPEEDUP, THROUGHPUT, Quantity

_PROPERTIES = ("cpu_model", "links", *SOFTWARE, "variables", "dataset_sha256", "hosts")


def render(studies: Overview) -> str:
    """The page as HTML. Pure, but for reading its own template."""
    terms = terms_of(studies.sides)
    groups = studies.tables["compared_groups"]
    return fill(
        "comparison_studies.html.j2",
        terms=terms,
        first=studies.first,
        names=[side.name for side in studies.sides],
        answers=_answers(studies, terms),
        guard=comparison_groups.guard(groups, terms, studies.first.name),
        details=_details(studies, terms),
        warnings=warnings(studies),
        point=point(studies, terms),
        figures=figures(studies, terms),
        groups=groups_view(groups, Pair(studies.first.name, ""), terms),
        changes=comparison_charts.changes_of_studies(groups, studies.first.name, terms),
        machines=machines(studies, terms),
    )


def summary(studies: Overview) -> list[str]:
    """The sentences for a terminal: the answers, and what is slower than is tolerated."""
    terms = terms_of(studies.sides)
    guard = comparison_groups.guard(studies.tables["compared_groups"], terms, studies.first.name)
    return [*_answers(studies, terms), *guard]


def warnings(studies: Overview) -> list[str]:
    """Settings that differ because they may, and what a reader must know of how each study was measured."""
    differing = settings_that_differ(studies.first.name, studies.differing)
    return [*differing, *of_sides(studies.sides, studies.tables["compared_records"])]


def _answers(studies: Overview, terms: Terms) -> list[str]:
    return [
        sentence
        for groups, pair in _against_first(studies)
        for sentence in comparison_groups.answers(groups, terms, pair)
    ]


def _details(studies: Overview, terms: Terms) -> dict[str, list[str]]:
    """Of every study against the first one, the groups that show no difference, and those that are not compared."""
    return {
        f"{pair.second} against {pair.first}": [
            *comparison_groups.without_difference(groups, terms, pair),
            *comparison_groups.not_compared(groups, terms, pair),
        ]
        for groups, pair in _against_first(studies)
    }


def _against_first(studies: Overview) -> list[tuple[pd.DataFrame, Pair]]:
    """Every study but the first one: its groups, and its name beside the first one's."""
    groups, (first, *others) = studies.tables["compared_groups"], studies.sides
    return [(groups[groups["study"] == side.name], Pair(first.name, side.name)) for side in others]


def point(studies: Overview, terms: Terms) -> str:
    """Where the figures of the table are from, or that there is no such point."""
    found = words.rows(studies.tables["compared_figures"])
    if not found:
        return "No configuration was timed in all studies, so no figure of one can stand beside that of another."
    row = found[-1]
    return (
        f"Figures are of {terms.point(row)}, the largest that all studies timed, and of {terms.count(1)} at that "
        "batch. They stand as on the page of each study."
    )


@dataclass(frozen=True)
class _Figure:
    """A column of the table: a quantity of one device or of the shared point, in a scope."""

    quantity: Quantity
    is_baseline: bool
    scope: str


def figures(studies: Overview, terms: Terms) -> View:
    """One row per study: its machine, and its figures at the point that all have."""
    rows = words.rows(studies.tables["compared_figures"])
    columns = [text("Study", "study"), text(terms.device, "device_model"), text("Hosts", "hosts"), _most(terms)]
    for wanted in _wanted(rows):
        columns.append(Column(_heading(wanted, rows, terms), _cell(wanted, rows)))
    columns += [text("Started, UTC", "first_started_at"), Column("Records", lambda row: words.whole(row["records"]))]
    table = studies.tables["compared_studies"]
    return view_of(
        "studies", "The studies", table, columns, source="compared_figures", whole=studies.tables["compared_figures"]
    )


def _most(terms: Terms) -> Column:
    return Column(f"{terms.heading} per job, at most", lambda row: words.whole(row["gpus"]))


def _wanted(rows: Sequence[Row]) -> list[_Figure]:
    """Images per second of one device and of several, and the speedup, in every scope."""
    scopes = dict.fromkeys(str(row["scope"]) for row in rows)
    several = any(row["strategy"] != BASELINE for row in rows)
    found = []
    for scope in scopes:
        found.append(_Figure(THROUGHPUT, True, scope))
        if several:
            found += [_Figure(THROUGHPUT, False, scope), _Figure(SPEEDUP, False, scope)]
    return found


def _heading(wanted: _Figure, rows: Sequence[Row], terms: Terms) -> str:
    """`Throughput, images/s, ddp on 4 GPUs, compute scope`."""
    row = next(row for row in rows if (row["strategy"] == BASELINE) == wanted.is_baseline)
    place = terms.group(row)
    return f"{terms.heading_of(wanted.quantity)}: {place}, {words.scope(wanted.scope)}"


def _cell(wanted: _Figure, rows: Sequence[Row]) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        (found,) = (
            figure
            for figure in rows
            if figure["study"] == row["study"]
            and figure["scope"] == wanted.scope
            and (figure["strategy"] == BASELINE) == wanted.is_baseline
        )
        if words.is_known(found[wanted.quantity.column]):
            return words.estimate(found, wanted.quantity.column, wanted.quantity.unit)
        return words.ABSENT if found["status"] == "ok" else words.state(str(found["status"]))

    return cell


def machines(studies: Overview, terms: Terms) -> View:
    """A row per property of where the studies were measured, and a column per study."""
    table = studies.tables["compared_studies"]
    of_study = {row["study"]: row for row in words.rows(table)}
    rows = pd.DataFrame({"property": ["device_model", *_PROPERTIES]})

    def column(name: str) -> Column:
        return Column(name, lambda row: environment_text(str(row["property"]), of_study[name][row["property"]]), False)

    columns = [Column("Property", lambda row: property_name(row, terms), is_number=False), *map(column, of_study)]
    return view_of("machines", "What measured", rows, columns, source="compared_studies", whole=table)
