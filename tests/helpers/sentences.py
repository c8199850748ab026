"""The sentences of a page: what stands between full stops in its paragraphs, list items, definitions and captions."""

import re
from html import unescape

_BLOCK = re.compile(r"<(p|li|dd|caption|figcaption)\b[^>]*>(.*?)</\1>", re.S)
# What stands in a block but is a block of its own, or a picture.
_INNER = re.compile(r"<(details|svg|pre|h3)\b.*?</\1>", re.S)
_END = re.compile(r"(?<=[.?!])\s+")


def sentences_of(page: str) -> list[str]:
    """Each once, in the order of the page."""
    found: dict[str, None] = {}
    for _, block in _BLOCK.findall(page):
        text = unescape(re.sub(r"<[^>]+>", "", _INNER.sub(" ", block)))
        found |= dict.fromkeys(filter(None, _END.split(" ".join(text.split()))))
    return list(found)


def words_of(sentence: str) -> int:
    """Numbers and names are words, and so is an interval; signs are none."""
    return len([word for word in re.sub(r"\[[^]]*\]", "interval", sentence).split() if re.search(r"\w", word)])
