"""The text of pages and of their pictures, and whether a page is sound HTML."""

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}
# Elements without an end tag that end where another begins, or, the last of them, where their table's body ends.
ENDED_BY = {"td": ["td"], "tr": ["td", "tr"], "/tbody": ["td", "tr"]}


class Reader(HTMLParser):
    """Visible text, ids, and whether every element is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def end_implied(self, by: str) -> None:
        for tag in ENDED_BY.get(by, []):
            if self.open[-1] == tag:
                self.open.pop()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_implied(tag)
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self.end_implied(f"/{tag}")
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


@cache
def read(page: str) -> Reader:
    """Many tests look at one page."""
    return Reader(page)


def visible(page: str) -> str:
    return " ".join(" ".join(read(page).text).split())


def assert_sound(page: str) -> None:
    reader = read(page)
    assert reader.open == []
    assert [name for name, times in Counter(reader.ids).items() if times > 1] == []
    assert re.findall(r"\b(?:nan|NaN|None|NaT|inf|undefined)\b", " ".join(reader.text)) == []
