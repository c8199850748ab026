"""Every number in the text of the recorded studies' pages stands in a cell of a table, by the rounding that is shown.

What is not looked for in tables is listed below with its reason. A number of few digits is found in thousands of cells
by chance, so all that `present.text.numbers` writes is looked for before it is rounded too. Counts are small whole
numbers: `test_findings` and `test_cautions` hold those to their claims.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from page_tables import audited

from dpscale.analyse.communication import estimators
from dpscale.analyse.timing import points
from dpscale.audit.page import render_studies
from dpscale.formulas import scaling
from dpscale.plan.study import Study
from dpscale.present import page as page_module
from dpscale.tables.column import KIB, PERCENT, PLAIN
from dpscale.tables.tables import TABLES, Tables
from dpscale.vocabulary.networks import public_best
from recorded import recorded_tables, watched, written_page

# Whole pages, again and again.
pytestmark = pytest.mark.slow

FOLDER = Path(page_module.__file__).parent / "template"
TEMPLATES = [FOLDER / name for name in ("page.html.j2", "definitions.html.j2", "audit.html.j2")]
NUMBER = re.compile(r"[−+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[−+-]?\d+)?")
# What a number stands beside: brackets, units that follow at once, the end of a sentence.
AROUND = "()[]{}|;:,.%×*=&$"
# Counts of what the page itself lists or leaves out: nothing that was measured.
OF_THE_PAGE = re.compile(
    r"and [\d,]+ more|Rests on [\d,]+ rows?|[\d,]+ of [\d,]+ (?:points|bars) are drawn|[\d,]+ more rows are in"
    r"|measures [\d,]+ missing cells|\([\d,]+ cells?\)|The first of [\d,]+ batches and [\d,]+ numbers"
)


# Limits that a sentence names because the code decides by them.
LIMITS = [
    PERCENT.of(limit)
    for limit in (
        estimators.DISTORTED_BEYOND,
        points.DRIFT_TOLERANCE,
        scaling.SLOWER_BY,
    )
]
# What others published of this network on one GPU: no table of a study has it.
PUBLISHED = [public_best().images_per_s, PERCENT.of(public_best().mfu)]


class Text(HTMLParser):
    """The text of a page without style and script; of charts only descriptions, as ticks of axes are no results."""

    def __init__(self, page: str):
        super().__init__()
        self.hidden = 0
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in ("style", "script", "text")
        self.found.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script", "text")
        self.found.append(" ")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.found.append(data)


def numbers(text: str) -> Iterator[str]:
    """The numbers of a text that stand alone: not those in names, versions and dates."""
    for word in text.split():
        bare = word.strip(AROUND)
        if NUMBER.fullmatch(bare):
            yield bare


def value(number: str) -> tuple[float, float]:
    """What a number says without its sign, and half a unit of its last digit."""
    plain = number.replace(",", "").replace("−", "-").lstrip("+-")
    digits, _, power = plain.partition("e")
    decimals = len(digits.partition(".")[2])
    return float(plain), 0.5 * 10.0 ** (int(power or 0) - decimals)


def cells(tables: Tables) -> Iterator[float]:
    """Every number of the tables without its sign, as stored and as its unit is shown."""
    for name, kind in TABLES.items():
        # Figures of published studies are shares that are shown in %.
        shares = (PERCENT,) if name == "audit" else ()
        units = {entry: (PLAIN, column.unit, *shares) for column in kind.columns().values() for entry in column.names}
        units["message_bytes"] = (PLAIN, KIB)
        for row in getattr(tables, name):
            for column, entry in row.flat().items():
                if isinstance(entry, str):
                    yield from (value(number)[0] for number in numbers(entry))
                elif entry is not None and not isinstance(entry, bool):
                    yield from (abs(float(unit.of(entry))) for unit in units[column])


def not_found(text: str, known: Iterable[float]) -> list[str]:
    """The numbers of the text that none of the known ones is rounded to."""
    ordered = np.array(sorted(known))
    missing = []
    for number in dict.fromkeys(numbers(text)):
        wanted, half = value(number)
        low, high = np.searchsorted(ordered, [wanted - half * 1.000001, wanted + half * 1.000001])
        if low == high:
            missing.append(number)
    return missing


@pytest.fixture(scope="module", params=["recorded", "recorded-two-gpus", "recorded-h200-2"])
def recorded(root: Path, request: pytest.FixtureRequest) -> tuple[Study, Tables]:
    """A study that was recorded: with trainings, with variants, with a ladder."""
    study = Study.read(root / f"config/{request.param}.yaml")
    return study, audited(root, recorded_tables(root, request.param))


@dataclass(frozen=True)
class Written:
    """The text of a page, and every number that was written into it as it was before it was rounded."""

    text: str
    numbers: Sequence[float]


@pytest.fixture(scope="module")
def shown(root: Path, recorded: tuple[Study, Tables]) -> Written:
    """The recorded study's page and that of other people's figures."""
    page, found = written_page(root, recorded[0]["study"])
    with watched() as of_others:
        page += render_studies(recorded[0].values, recorded[1], "page.html")
    text = " ".join("".join(Text(page).found).replace("\u00a0", " ").split())
    return Written(OF_THE_PAGE.sub(" ", text), [*found, *of_others])


@pytest.fixture(scope="module")
def known(recorded: tuple[Study, Tables]) -> set[float]:
    """What stands in the cells of its tables, and what others published."""
    return {*cells(recorded[1]), *PUBLISHED}


def test_every_number_stands_in_a_table(recorded: tuple[Study, Tables], shown: Written, known: set[float]) -> None:
    of_definitions = (
        value(number)[0] for template in TEMPLATES for number in numbers("".join(Text(template.read_text()).found))
    )
    assert len(set(numbers(shown.text))) > 500
    of_settings = (value(number)[0] for number in numbers(re.sub(r"[^\d.]", " ", json.dumps(recorded[0].values))))
    assert not_found(shown.text, [*known, *of_definitions, *of_settings]) == []
    assert not_found("takes 1,048,576 bytes and 0.123456 s", known) == ["0.123456"], "what no cell has is found out"
    assert re.findall(r"\b(?:nan|NaN|None|NaT)\b", shown.text) == []


def test_every_number_is_a_cell_to_its_last_digit(
    recorded: tuple[Study, Tables], shown: Written, known: set[float]
) -> None:
    """Before it is rounded: chance alone would find many a number of three digits in thousands of cells."""
    with_limits = {*known, *LIMITS, PERCENT.of(recorded[0]["training"]["target_accuracy"])}
    assert len(shown.numbers) > 1000
    assert sorted(set(shown.numbers) - with_limits) == []
