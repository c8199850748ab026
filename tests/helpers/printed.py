"""How full the pages of a PDF are that Chromium printed: from its own drawing commands."""

import re
import zlib

_PAGE = re.compile(rb"/Type\s*/Page\b(.*?)>>\s*endobj", re.S)
_NUMBER = rb"-?\d*\.?\d+"
_COMMAND = re.compile(rb"\b(q|Q)\b|((?:" + _NUMBER + rb"\s+){6})(cm|Tm)\b")
_A4_HEIGHT, _MARGIN = 842.0, 34.0

Matrix = tuple[float, ...]


def fullness(pdf: bytes) -> list[float]:
    """Of every page, how far down its text reaches between its margins of 12 mm: 1 is all of an A4 page."""
    contents = [re.search(rb"/Contents\s+(\d+) 0 R", page) for page in _PAGE.findall(pdf)]
    return [_reach(_stream(pdf, int(found[1]))) for found in contents if found]


def _stream(pdf: bytes, number: int) -> bytes:
    found = re.search(rb"(?:^|\n)%d 0 obj.*?stream\r?\n(.*?)endstream" % number, pdf, re.S)
    assert found
    return zlib.decompressobj().decompress(found[1])


def _reach(drawn: bytes) -> float:
    lowest = _A4_HEIGHT
    here: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    kept: list[Matrix] = []
    for state, numbers, command in _COMMAND.findall(drawn):
        if state == b"q":
            kept.append(here)
        elif state == b"Q":
            here = kept.pop()
        else:
            matrix = _times(tuple(map(float, numbers.split())), here)
            if command == b"cm":
                here = matrix
            else:
                lowest = min(lowest, matrix[5])
    return (_A4_HEIGHT - _MARGIN - lowest) / (_A4_HEIGHT - 2 * _MARGIN)


def _times(one: Matrix, other: Matrix) -> Matrix:
    """First `one`, then `other`, as PDF has them: (a, b, c, d, x, y)."""
    a, b, c, d, x, y = one
    e, f, g, h, u, v = other
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h, x * e + y * g + u, x * f + y * h + v
