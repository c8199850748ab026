"""From the text of a cell to a number as people write them: with its digits, and the unit behind it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from dpscale.vocabulary import own_yaml
from dpscale.vocabulary.states import MARK, NOT_RESOLVABLE

WORDS = own_yaml(__file__, "words.yaml")

# Units of time, in seconds.
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "ms": 1e-3, "us": 1e-6}
_THOUSANDS = {"k": 3, "K": 3, "M": 6, "B": 9}
# Of what rates count, as in `K/sec`.
MULTIPLES = {"k": 1e3, "m": 1e6}
# Spaces that separate groups of digits, narrow ones too.
_SPACE = r"[ \u00a0\u2007\u2009\u202f'’_]"
_DIGITS = rf"[+-]?(?:\d(?:[\d.,]|{_SPACE}(?=\d{{3}}(?!\d)))*|\.\d+)(?:e[+-]?\d{{1,2}})?"
_APPROXIMATELY = r"^(?:~|≈|∼|\\sim|ca\.?|about|approx\.?|x|×|\$)\s*(?=[\d.+-])"
# What may stand behind a number and its unit: an interval, a deviation, other figures, a footnote.
_BEHIND = r"(?:\s|\[[^\]]*\]|\([^)]*\)|(?:±|\+/-|\+-).*|[*†‡§¹²³⁴-⁹.^]|[a-d]\b)*$"
# What is counted is no unit.
_UNIT = rf"(?!{WORDS['no_units']})(?:(?:[a-zµμ×%][a-zµμ.]*|(?=/))(?:\s*(?:/|per)\s*[a-z.]+)*)"
# Words of this project's own tables where it has no number.
_STATES = (NOT_RESOLVABLE, "not measured", "not run", "not planned", "not available", "one run", "capped", "failed")
_MISSING = rf"(?:|[-–—/.…?x]+|n/?a|n\.a\.?|nan|none|null|tbd|base(?:line)?|ref(?:erence)?|{'|'.join(_STATES)})"
_OUT_OF_MEMORY = r"\W*(?:cuda\s*)?(?:oom|out[ -]of[ -]memory)\b.*"
_BOUND = r"(?:≥|≤|[<>]=?|at (?:least|most)\b|up to\b)\s*\d.*"


@dataclass(frozen=True)
class PrintedCell:
    """A number as it was printed, and the unit behind it. `is_marked` says whether it has this project's mark."""

    digits: Decimal
    unit: str = ""
    is_marked: bool = False

    def __float__(self) -> float:
        return float(self.digits)


def unit_of(text: str) -> str:
    """Return a unit in one spelling: `s`, `ms`, `%`, `images/s`."""
    plain = re.sub(r"\s*(?:/|\bper\b)\s*", "/", text.strip().lower().strip(". "))
    spellings = WORDS["spellings"]
    return "/".join(spellings.get(part.strip("."), part.strip(".")) for part in plain.split("/")) if plain else ""


@lru_cache(2**17)
def is_missing(text: str) -> bool:
    """Whether a cell says that there is no number, that memory was too small, or no more than a bound."""
    words = re.sub(rf"[{MARK}*]", "", text.strip().lower()).strip()
    return bool(re.fullmatch(rf"{_MISSING}|{_OUT_OF_MEMORY}|{_BOUND}", words))


def cells(texts: Sequence[str]) -> list[PrintedCell | None]:
    """Return the numbers of a column; None where a text holds none."""
    split = [_split(text) for text in texts]
    has_decimal_commas = _comma_is_decimal([of_text[0] for of_text in split if of_text])
    return [
        PrintedCell(_decimal(of_text[0], has_decimal_commas), of_text[1], MARK in text) if of_text else None
        for text, of_text in zip(texts, split, strict=True)
    ]


def _comma_is_decimal(digits: Iterable[str]) -> bool:
    """Return whether a number of a column shows that its commas are decimal ones, and none that its points are."""
    commas = points = False
    for text in digits:
        commas |= bool(re.fullmatch(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", text) or re.search(r"\.\d{3},", text))
        points |= bool(re.search(r",\d{3}(\.|,)", text) or re.fullmatch(r"[+-]?\d+\.\d+", text))
    return commas and not points


@lru_cache(2**17)
def _split(text: str) -> tuple[str, str] | None:
    """Return the digits of a text and its unit; None where it is no number. Hours and minutes become seconds."""
    spaced = " ".join(text.replace("−", "-").replace("\u2013", "-").split()).strip("*` ")
    if len(spaced) > 60 or is_missing(spaced):
        return None
    thousands = r"(?<=\d)\s?([kKMB])(?=$|[\s*†)]|/s|[a-z]+/)"
    plain = re.sub(thousands, lambda letter: f"e{_THOUSANDS[letter[1]]} ", spaced, count=1).lower().strip()
    if seconds := _of_a_clock(plain):
        return seconds, "s"
    match = re.fullmatch(rf"({_DIGITS})\s*({_UNIT})?{_BEHIND}", re.sub(_APPROXIMATELY, "", plain))
    if not match or re.search(r"[.,]{2}|[.,]\d*[.,]\d{1,2}[.,]", match.group(1)):
        return None
    return match.group(1).rstrip(","), unit_of(match.group(2) or "")


def _of_a_clock(text: str) -> str:
    """Return the seconds of `2:22:01`, `1:12` or `2m 10s` with their digits; nothing where it is none of these."""
    match = re.fullmatch(r"(?:(\d{1,4}):)?(\d{1,4}):(\d\d(?:\.\d+)?)", text) or re.fullmatch(
        r"(?:(\d+)\s*h(?:ours?|rs?)?)?[ ,]*(?:(\d+)\s*m(?:in(?:ute)?s?)?)?[ ,]*"
        r"(?:(\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?\.?",
        text,
    )
    if not match or sum(part is not None for part in match.groups()) < 2:
        return ""
    hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    return str(3600 * hours + 60 * minutes + seconds)


def _decimal(text: str, has_decimal_commas: bool) -> Decimal:
    mantissa, _, exponent = re.sub(_SPACE, "", text).partition("e")
    if "," in mantissa and "." in mantissa:
        mark = "," if mantissa.rfind(",") > mantissa.rfind(".") else "."
        mantissa = mantissa.replace("." if mark == "," else ",", "").replace(mark, ".")
    elif re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", mantissa) and not has_decimal_commas:
        mantissa = mantissa.replace(",", "")
    elif mantissa.count(",") > 1 or mantissa.count(".") > 1:
        mantissa = re.sub(r"[.,]", "", mantissa)
    return Decimal(f"{mantissa.replace(',', '.')}e{exponent or 0}")
