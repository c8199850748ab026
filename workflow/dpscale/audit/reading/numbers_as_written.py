"""Numbers as people write them: decimal commas, groups of three digits, units and signs behind them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from dpscale.vocabulary.states import NOT_RESOLVABLE

# Spaces that separate groups of digits, narrow ones too.
_SPACES = r"[ \u00a0\u2007\u2009\u202f'’]"
_MISSING = ("", "-", "–", "—", "n/a", "na", "nan", "none", "null", "/", "…", "...", "?", "x", "tbd")
_OUT_OF_MEMORY = r"(cuda\s*)?(oom|out[ -]of[ -]memory)( error)?"
_BOUND = r"(≥|≤|[<>]=?|at (least|most)\b)\s*\d"
# Words of this project's own tables where it has no number.
_STATES = (NOT_RESOLVABLE, "not measured", "not run", "not planned", "not available", "one run", "capped", "failed")
# What may stand behind a number: its interval, its deviation, a footnote; or a footnote and one of the others.
_BEHIND = r"(\s*[a-d*†‡]|\s*[¹²³⁴⁵⁶⁷⁸⁹])?(\s*(\[[^\]]*\]|\([^)]*\)|±.*))?$"
_UNITS = r"s|ms|min|h|sec|[kmgt]i?b(?:it)?/s|[kmgt]bps|images/s|img/s"
_SUFFIX = rf"\s*(?:x|×|%|{_UNITS})?"


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no number, that memory was too small, or no more than a bound."""
    plain = cell.strip().lower()
    is_bound, is_oom = re.match(_BOUND, plain), re.fullmatch(_OUT_OF_MEMORY, plain)
    return plain in _MISSING or bool(is_bound or is_oom) or re.sub(r"\W+", " ", plain).strip() in _STATES


@dataclass(frozen=True)
class Style:
    """Style of the numbers of a table: the meaning of its marks. None where no number shows it."""

    decimal_comma: bool | None

    def number(self, cell: str) -> Decimal:
        """The number in a cell, with its digits. Raises ValueError with what is wrong with it."""
        plain = _without_suffix(cell)
        grouped = re.fullmatch(rf"[+-]?\d{{1,3}}(?:{_SPACES}\d{{3}})+(?:[.,]\d+)?", plain)
        text = re.sub(_SPACES, "", plain) if grouped else plain
        if "," in text and "." in text:
            mark = "," if text.rfind(",") > text.rfind(".") else "."
            text = text.replace("." if mark == "," else ",", "").replace(mark, ".")
        elif "," in text:
            text = self._comma(text, cell)
        elif text.count(".") > 1 and re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+", text):
            text = text.replace(".", "")
        if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?", text):
            raise ValueError(f"{cell} is not a number. Write one, such as 12.30")
        return Decimal(text)

    def _comma(self, text: str, cell: str) -> str:
        if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text):
            return text.replace(",", ".")
        if text.count(",") > 1 or self.decimal_comma is False:
            return text.replace(",", "")
        if self.decimal_comma:
            return text.replace(",", ".")
        raise ValueError(f"{cell} may be {text.replace(',', '.')} or {text.replace(',', '')}: write it without a comma")


def unit_behind(cell: str) -> str:
    """The unit behind a number, in small letters; nothing where there is none."""
    match = re.fullmatch(rf".*\d\s*({_UNITS})", cell.strip().lower())
    return match.group(1) if match else ""


def style_of(cells: Iterable[str]) -> Style:
    """How the numbers of a table are written. Where commas are both, each number has to show what its own is."""
    plain = [_without_suffix(cell) for cell in cells if not is_missing(cell)]
    commas = any(re.fullmatch(r"[+-]?\d+,(\d{1,2}|\d{4,})", text) or re.search(r"\.\d{3},\d", text) for text in plain)
    points = any(re.fullmatch(r"[+-]?\d+\.\d+", text) or re.search(r",\d{3}\.\d", text) for text in plain)
    return Style(None if commas == points else commas)


def _without_suffix(cell: str) -> str:
    text = re.sub(_BEHIND, "", cell.strip().replace("−", "-").lower()).strip()
    match = re.fullmatch(rf"(.*?\d){_SUFFIX}", text)
    return (match.group(1) if match else text).strip()
