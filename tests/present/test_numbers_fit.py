"""Numbers that stand side by side on the recorded studies' pages fit each other, by the digits that are printed.

It takes long to make these pages: so what else is looked for on each is here too, short sentences and a small file.

A reader divides and subtracts. What is printed stands for all numbers that are rounded to it: two of them fit where
some number lies in both (`formulas.rounded`). Every kind of pair is counted, so that none is silently left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from dpscale.formulas.rounded import Rounded
from dpscale.vocabulary.states import MARK
from recorded import RECORDED, recorded_page

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"<(p|li|dd|caption|figcaption)\b[^>]*>(.*?)</\1>", re.S)
# What stands in a block but is a block of its own, or a picture.
INNER = re.compile(r"<(details|svg|pre|h3)\b.*?</\1>", re.S)
END = re.compile(r"(?<=[.?!])\s+")
NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")
Line = Mapping[str, str]
# What is printed, and what follows from the numbers beside it.
Pair = tuple[str, Rounded, Rounded]


class Page(HTMLParser):
    """Rows of a page's tables by the table's id, each with its headings and the strategy above it; and the descriptions
    of its charts."""

    def __init__(self, page: str):
        super().__init__()
        self.tables: dict[str, list[Line]] = {}
        self.descriptions: list[str] = []
        self.text = ""
        self.html = page
        self.headings: list[str] = []
        self.group = ""
        self.into: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        if tag == "table":
            self.rows: list[Line] = self.tables.setdefault(of.get("id") or "", [])
            self.headings, self.group, self.into = [], "", None
        elif tag in ("tr", "tbody"):
            self.end_row()
            self.into = []
        elif tag in ("td", "th") and self.into is not None:
            self.into.append("")
            self.is_group = of.get("scope") == "rowgroup"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("thead", "tbody", "table"):
            self.end_row()

    def end_row(self) -> None:
        if self.into and not self.headings:
            self.headings = self.into
        elif self.into and self.is_group:
            self.group = self.into[0]
        elif self.into:
            self.rows.append({"Strategy": self.group, **dict(zip(self.headings, self.into, strict=False))})
        self.into = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.into:
            self.into[-1] += data
        if self.lasttag == "desc":
            self.descriptions.append(data)


def number(text: str) -> Rounded | None:
    """The first number of a text as it is printed; none where there is none."""
    found = NUMBER.match(text.strip())
    return Rounded.of(Decimal(found[0].replace(",", "").replace("−", "-"))) if found else None


def cell(row: Line, heading: str) -> Rounded | None:
    """The number under a heading that begins so."""
    return next((number(text) for name, text in row.items() if name.startswith(heading)), None)


def numbers(row: Line, *headings: str) -> list[Rounded] | None:
    """Those of several columns, if all are there."""
    found = [value for heading in headings if (value := cell(row, heading)) is not None]
    return found if len(found) == len(headings) else None


def exactly(value: float) -> Rounded:
    return Rounded(value, value, value)


Formula = Callable[..., Rounded]
# Of one row of a table: what is printed under a heading, the headings beside it, and what follows from these.
IN_A_ROW: Mapping[str, tuple[str, Sequence[str], Formula]] = {
    "answer: efficiency": ("Efficiency", ("GPUs", "Speedup"), lambda gpus, speedup: 100 * speedup / gpus.value),
    "speedup: efficiency": ("Efficiency", ("GPUs", "Speedup"), lambda gpus, speedup: 100 * speedup / gpus.value),
    "times: GPU-seconds": ("GPU-seconds", ("GPUs", "Epoch"), lambda gpus, epoch: epoch * gpus.value),
    "communication: its time": ("Communication", ("Epoch", "Compute"), lambda epoch, compute: epoch - compute),
    "communication: its share": ("Share", ("Communication", "Epoch"), lambda time, epoch: 100 * time / epoch),
    "bandwidth": (
        "Bandwidth, GB/s",
        ("Allreduce", "Steps", "Communication"),
        lambda sent, steps, time: sent * (steps.value / 1000) / time,
    ),
    "bandwidth: utilisation": ("Utilisation", ("Bandwidth, GB/s", "Bus"), lambda rate, bus: 100 * rate / bus),
    "causes: share": ("Share", ("Cost", "Whole"), lambda cost, whole: 100 * cost / whole),
    "steps: parts": (
        "Sum of the parts",
        ("Compute", "Communication, exposed", "Copies", "Idle"),
        lambda *parts: sum(parts[1:], start=parts[0]),
    ),
    "variant_limits: share": ("Reached of it", ("Throughput", "Limit"), lambda rate, of: 100 * rate / of),
    "one_gpu: times as fast": ("Times", ("Epoch on more", "Epoch on 1"), lambda more, one: more / one),
}


def in_a_row(page: Page, kind: str) -> Iterator[Pair]:
    heading, beside, formula = IN_A_ROW[kind]
    for row in page.tables.get(f"table-{kind.partition(':')[0]}", []):
        if (printed := cell(row, heading)) and (found := numbers(row, *beside)):
            yield str(row), printed, formula(*found)


def is_marked(row: Line, heading: str) -> bool:
    """Whether the figure is formed in other runs than the times beside it, as its mark says."""
    return next((MARK in text for name, text in row.items() if name.startswith(heading)), False)


def answers(page: Page) -> Iterator[Pair]:
    """Speedup and price of more devices, beside the epoch of one."""
    one, *others = page.tables["table-answer"]
    alone = cell(one, "Epoch")
    for row in others:
        assert is_marked(row, "Speedup") == is_marked(row, "GPU-seconds")
        if (
            alone
            and not is_marked(row, "Speedup")
            and (found := numbers(row, "GPUs", "Epoch", "Speedup", "GPU-seconds"))
        ):
            gpus, epoch, speedup, price = found
            yield str(row), speedup, alone / epoch
            yield str(row), price, epoch * gpus.value / alone


def by_devices(page: Page) -> Iterator[tuple[str, list[Rounded], Line, Line]]:
    """Of rows of Tables 1 and 2 the devices that columns are of, with the times on one and on these."""
    for first, second in zip(page.tables["table-1"], page.tables["table-2"], strict=True):
        for devices in dict.fromkeys(name.partition(":")[0] for name in second if re.match(r"\d+ \w+:", name)):
            if times := numbers(first, "1 GPU: time", f"{devices}: time"):
                yield devices, times, first, second


def table_1(page: Page) -> Iterator[Pair]:
    """Speedup: T(1,b) / T(N,b)."""
    for devices, (one, more), row, _ in by_devices(page):
        heading = f"{devices}: speedup"
        if (speedup := cell(row, heading)) and not is_marked(row, heading):
            yield f"{row} {devices}", speedup, one / more


def table_2(page: Page) -> Iterator[Pair]:
    """Computation: T(1,b) / N. Communication: T(N,b) less that."""
    for devices, (one, more), _, row in by_devices(page):
        headings = f"{devices}: computation", f"{devices}: communication"
        assert len({is_marked(row, heading) for heading in headings}) == 1
        if (parts := numbers(row, *headings)) and not is_marked(row, headings[0]):
            yield f"{row} {devices}", parts[0], one / int(devices.split()[0])
            yield f"{row} {devices}", parts[1], more - parts[0]


def throughputs(page: Page) -> Iterator[Pair]:
    """Throughputs of two rows differ as their epochs do."""
    rows = [found for row in page.tables["table-times"] if (found := numbers(row, "Epoch time", "Throughput"))]
    for (one_s, one), (other_s, other) in pairwise(rows):
        yield f"{one_s} {other_s}", other / one, one_s / other_s


def ladders(page: Page) -> Iterator[Pair]:
    """Differences of rungs, and their shares of the whole step."""
    rows = page.tables.get("table-ladder", [])
    for before, row in pairwise(rows):
        steps = [cell(one, "Step") for one in (before, row)]
        if (difference := cell(row, "Difference")) and steps[0] and steps[1]:
            yield str(row), difference, steps[1] - steps[0]
    whole: Rounded | None = None
    for row in reversed(rows):
        whole = cell(row, "Step") if row["Rung"] == "training" else whole
        part, share = cell(row, "Difference") or cell(row, "Step"), cell(row, "Share")
        assert whole and part and share
        yield str(row), share, 100 * part / whole


def variants(page: Page) -> Iterator[Pair]:
    """Times as fast as base on as many devices, and speedups over one device with the same variant."""
    names = ("Variant", "Strategy", "Scope", "GPUs", "Batch per GPU, images")
    rows = {tuple(row[name] for name in names): row for row in page.tables.get("table-variants", [])}
    for (variant, *where, gpus, batch), row in rows.items():
        base = rows.get(("base", *where, gpus, batch))
        alone = rows.get((variant, "single", where[1], "1", batch))
        for other, heading in ((base, "Faster"), (alone, "Speedup")):
            epochs = [cell(one, "Epoch time") for one in (other or {}, row)]
            if (printed := cell(row, heading)) and epochs[0] and epochs[1] and not is_marked(row, heading):
                yield str(row), printed, epochs[0] / epochs[1]


def bars(page: Page) -> Iterator[Pair]:
    """`graph: 2.35 s, 5.32 [3.79, 7.47] times`: as fast as the bar of base."""
    for description in page.descriptions:
        alone, *stages = description.rstrip(".").split("; ")
        if found := re.fullmatch(r"base: (\S+) s", alone):
            for stage in stages:
                if printed := re.fullmatch(r".*: (\S+) s, (\S+)(?: \[.*\])? times", stage):
                    one, own, beside = (number(text) for text in (found[1], *printed.groups()))
                    assert one and own and beside
                    yield stage, beside, one / own


def advice(page: Page) -> Iterator[Pair]:
    """`1.27 s per epoch, not 5.46 s, about 77 % less time`."""
    said = r"([\d.]+)\ss per epoch, not ([\d.]+)\ss, (?:about )?(\d+)\s%[^.]* less time"
    for found in re.finditer(said, page.text):
        better, used, saved = (number(text) for text in found.groups())
        assert better and used and saved
        yield found[0], saved, 100 * (exactly(1) - better / used)


KINDS: Mapping[str, Callable[[Page], Iterator[Pair]]] = {
    "answer": answers,
    "Table 1": table_1,
    "Table 2": table_2,
    "throughputs": throughputs,
    "ladders": ladders,
    "variants": variants,
    "advice": advice,
    "bars of variants": bars,
    **{kind: partial(in_a_row, kind=kind) for kind in IN_A_ROW},
}
# So many pairs of every kind their pages have at least.
COUNTS = {
    "answer": 10, "Table 1": 13, "Table 2": 26, "throughputs": 131, "ladders": 91, "variants": 60, "advice": 5,
    "bars of variants": 20, "answer: efficiency": 16, "speedup: efficiency": 118,
    "times: GPU-seconds": 138,
    "communication: its time": 59, "communication: its share": 59, "bandwidth": 33, "bandwidth: utilisation": 33,
    "causes: share": 52, "steps: parts": 36, "variant_limits: share": 75,
    "one_gpu: times as fast": 45,
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(root: Path) -> Mapping[str, Page]:
    return {results: Page(recorded_page(root, results, config)) for results, config in RECORDED.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_stand_side_by_side_fit(pages: Mapping[str, Page], kind: str) -> None:
    pairs = [(study, *pair) for study, page in pages.items() for pair in KINDS[kind](page)]
    apart = [
        f"{printed.value:g} is not {follows.value:g} [{follows.low:g}, {follows.high:g}]: {study}, {where}"
        for study, where, printed, follows in pairs
        if not printed.meets(follows)
    ]
    assert apart == []
    assert len(pairs) >= COUNTS[kind]


def test_a_number_that_does_not_fit_is_found() -> None:
    epoch, speedup = number("1.53 [1.50, 1.56]"), number("2.00×")
    assert epoch and speedup
    assert speedup.meets(number("3.06") / epoch) and not speedup.meets(number("3.10") / epoch)  # type: ignore[operator]


@pytest.mark.parametrize("results", RECORDED)
def test_sentences_are_short_and_the_page_is_small(pages: Mapping[str, Page], results: str) -> None:
    page = pages[results].html
    lengths = {sentence: words_of(sentence) for sentence in sentences_of(page)}
    assert len(lengths) > 100
    assert {sentence: length for sentence, length in lengths.items() if length > 40} == {}
    assert median(lengths.values()) <= 25
    assert not [sentence for sentence in lengths if "[no interval" in sentence or "capped" in sentence]
    assert len(page.encode()) < 400_000


@pytest.mark.parametrize("results", RECORDED)
def test_only_studies_of_images_speak_of_images(pages: Mapping[str, Page], results: str) -> None:
    """A user's file has samples."""
    assert bool(re.search(r"(?i)\bimages?\b", pages[results].text)) == (RECORDED[results] == results)


def sentences_of(page: str) -> list[str]:
    """Each once, in the order of the page."""
    found: dict[str, None] = {}
    for _, block in BLOCK.findall(page):
        text = unescape(re.sub(r"<[^>]+>", "", INNER.sub(" ", block)))
        found |= dict.fromkeys(filter(None, END.split(" ".join(text.split()))))
    return list(found)


def words_of(sentence: str) -> int:
    """Numbers and names are words, and so is an interval; signs are none."""
    return len([word for word in re.sub(r"\[[^]]*\]", "interval", sentence).split() if re.search(r"\w", word)])


def test_what_counts_as_a_sentence() -> None:
    page = "<li>One is <b>1.5</b> s [1, 2]. Is it? <details><p>No.</p></details></li><td>None.</td><p>Two &amp; a</p>"
    assert sentences_of(page) == ["One is 1.5 s [1, 2].", "Is it?", "Two & a"]
    assert [words_of(sentence) for sentence in sentences_of(page)] == [5, 2, 2]
