"""The text of pages and of their pictures, and whether a page is sound."""

import re
from collections import Counter
from functools import cache
from typing import Any

import lxml.html


@cache
def read(page: str) -> Any:
    """Return the document's root. Many tests look at one page."""
    return lxml.html.fromstring(page)


def tags(page: str) -> Counter[Any]:
    return Counter(element.tag for element in read(page).iter())


def visible(page: str) -> str:
    return " ".join(" ".join(read(page).xpath("//text()[not(ancestor::style)]")).split())


def assert_sound(page: str) -> None:
    ids = Counter(read(page).xpath("//@id"))
    assert [name for name, times in ids.items() if times > 1] == []
    assert re.findall(r"\b(?:nan|NaN|None|NaT|inf|undefined)\b", visible(page)) == []
