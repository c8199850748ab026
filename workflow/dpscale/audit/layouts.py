"""Ways to lay out a grid: which rows are heads, which texts are keys (GPUs, nodes, batch), and which columns are one
quantity; and numbers as people write them, with their digits, and the unit behind.

A grid is tried as it stands and on its side; the solver takes the layout whose figures fit best.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import pairwise

from dpscale.audit.grids import WORDS, Grid
from dpscale.vocabulary.states import MARK, NOT_RESOLVABLE

# Spaces that separate groups of digits, narrow ones too.
_SPACE = r"[ \u00a0\u2007\u2009\u202f'’_]"
_DIGITS = rf"[+-]?(?:\d(?:[\d.,]|{_SPACE}(?=\d{{3}}(?!\d)))*|\.\d+)(?:e[+-]?\d{{1,2}})?"
_APPROXIMATELY = r"^(?:~|≈|∼|\\sim|ca\.?|about|approx\.?|x|×|\$)\s*(?=[\d.+-])"
# What may stand behind a number and its unit: an interval, a deviation, other figures, a share, a footnote.
_BEHIND = r"(?:\s|/\s*(?:[\d.,]+\s*%|-)|\[[^\]]*\]|[(（][^)）]*[)）]|(?:±|\+/-|\+-).*|[*†‡§¹²³⁴-⁹.^]|[a-d]\b)*$"
_SUM, _PICTURES = (
    r"^[^=≈]*\d[^=≈]*[/*×÷][^=≈]*[=≈] ?(?=[\d.])",
    r"[\s\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]+$",
)
# What is counted is no unit.
_UNIT = rf"(?!{WORDS['no_units']})(?:(?:[a-zµμ×%][a-zµμ.]*|[分秒小时钟분초시간]+|(?=/))(?:\s*(?:/|per)\s*[a-z.]+)*)"
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


def cells(texts: Sequence[str], has_decimal_commas: bool = False) -> list[PrintedCell | None]:
    """Return the numbers of a column; None where a text holds none. Other columns may show that commas are decimal."""
    split = [_split(text) for text in texts]
    has_decimal_commas = has_decimal_commas or _comma_is_decimal([of_text[0] for of_text in split if of_text])
    return [
        PrintedCell(_decimal(of_text[0], has_decimal_commas), of_text[1], MARK in text) if of_text else None
        for text, of_text in zip(texts, split, strict=True)
    ]


def _comma_is_decimal(digits: Iterable[str]) -> bool:
    """Return whether a number shows that commas are decimal ones, and none that points are."""
    commas = points = False
    for text in digits:
        commas |= bool(re.fullmatch(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", text) or re.search(r"\.\d{3},", text))
        points |= bool(re.search(r",\d{3}(\.|,)", text) or re.fullmatch(r"[+-]?\d+\.\d+", text))
    return commas and not points


@lru_cache(2**17)
def _split(text: str) -> tuple[str, str] | None:
    """Return the digits of a text and its unit; None where it is no number. Hours and minutes become
    seconds, and `62.65*2` is the product."""
    spaced = " ".join(text.replace("−", "-").replace("\u2013", "-").split()).strip("*` ")
    # Of a sum, what it gives; and pictures behind a number say nothing.
    spaced = re.sub(rf"{_SUM}|{_PICTURES}", "", spaced)
    if len(spaced) > 60 or is_missing(spaced):
        return None
    thousands = r"(?<=\d)\s?([kKMB])(?=$|[\s*†)]|/s|[a-z]+/)"
    plain = re.sub(thousands, lambda letter: f"e{WORDS['thousands'][letter[1]]} ", spaced, count=1).lower().strip()
    if seconds := _of_a_clock(plain):
        return seconds, "s"
    if product := re.fullmatch(r"(\d+\.\d+) ?[*x×] ?(\d{1,5})", plain):
        return str(Decimal(product[1]) * int(product[2])), ""
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
    marks = re.findall(r"[.,]", mantissa)
    is_in_groups = len(marks) > 1 and len({*marks}) == 1
    if not has_decimal_commas and re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", mantissa):
        is_in_groups = True
    # The last of two marks is the decimal one.
    decimals = 0 if is_in_groups or not marks else len(mantissa) - mantissa.rfind(marks[-1]) - 1
    return Decimal(f"{re.sub(r'[.,]', '', mantissa)}e{int(exponent or 0) - decimals}")


_ALONE = r"(?:\d{1,3}(?:[, ]\d{3}){1,4}|\d{1,12})k?"
_HAN = "[\u4e00-\u9fff]"
_BRACKETS = r"[(\[]([^()\[\]]*)[)\]]"


@dataclass
class ColumnSeries:
    """Figures of one head, with the keys that their heads give: a column, or columns that differ in keys alone.
    `texts` are its cells as they stand, by row."""

    head: str
    unit: str
    figures: list[tuple[int, Mapping[str, int], PrintedCell]] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)

    @property
    def has_keys(self) -> bool:
        return any(keys for _, keys, _ in self.figures)

    @property
    def is_whole(self) -> bool:
        return all(float(cell).is_integer() for *_, cell in self.figures)


@dataclass
class Layout:
    """A grid as series of figures. `row_keys` is what the texts of each row say, `labels` what these leave, by head and
    row, `heads_of_keys` are of texts with keys, `marked` are the rows with this project's mark, and `batch`
    whose the batches are."""

    series: list[ColumnSeries]
    row_keys: Sequence[dict[str, int]]
    labels: Mapping[str, dict[int, str]]
    heads_of_keys: Sequence[str]
    caption: str
    marked: set[int]
    batch: str
    is_turned: bool

    @property
    def keys_of_heads(self) -> list[Mapping[str, int]]:
        """The keys of every figure that its head says."""
        return [keys for series in self.series for _, keys, _ in series.figures]

    @cached_property
    def is_weak(self) -> bool:
        """Whether the heads, or the line before them, say that the work grows with the GPUs."""
        said = " ".join([self.caption, *(series.head for series in self.series)])
        return bool(re.search(WORDS["weak"], said.lower()))


def keys_of(text: str) -> tuple[dict[str, int], str]:
    """Return the keys that a text says, and the text without them."""
    keys: dict[str, int] = {}
    # Chinese writes no spaces.
    spaced = re.sub(rf"(?<={_HAN})(?=\w)(?!{_HAN})|(?<=[^\W{_HAN[1:-1]}])(?={_HAN})", " ", text.replace("_", " "))
    left = re.sub(WORDS["base"], " ", spaced, flags=re.IGNORECASE)
    for name, pattern in WORDS["places"].items():
        match = re.search(pattern.replace("{device}", WORDS["device"]), left, re.IGNORECASE)
        if match:
            digits = next(filter(None, match.groups())).replace(",", "")[:12].lower()
            keys[name] = int(digits) if digits.isdigit() else WORDS["numerals"].get(digits, 1)
            # The model of GPUs may tell them apart, `1xA100` from `1xH100`.
            model = re.search(WORDS["models"], match[0], re.IGNORECASE) if name == "gpus" else None
            left = f"{left[: match.start()]} {model[0] if model else ''} {left[match.end() :]}"
    return {name: value for name, value in keys.items() if 0 < value < 10**8}, " ".join(left.split())


def whose_batch(text: str) -> str:
    """Return whether a text says that a batch is of one GPU, or of all; nothing where it does not say."""
    return next((whose for whose, pattern in WORDS["batches"].items() if re.search(pattern, text.lower())), "")


def _keys_and_name(text: str) -> tuple[dict[str, int], str]:
    """Return the keys that a text says, and what these leave: the name of a group."""
    keys, left = keys_of(text)
    name = re.sub(r"\(\W*\)", "", left if keys else text).strip(" ,;:/-@")
    is_bare = name.count("(") != name.count(")") or re.fullmatch(r"\([^()]*\)", name)
    return keys, name.strip("() ") if is_bare else name


# A name and a figure behind it, up to a comma, a bar or a semicolon.
_NAMED = r"([^,;|]*?)\s*(?:[:=]|\btook\b)\s*([~≈]?\d(?:[^,;|]|,\d)*)"


def grid_of_lines(lines: Iterable[str]) -> Grid | None:
    """Return the figures that lines list, as in `2 GPUs: 301.9 s` or `gpus: 2, sec/epoch: 10.1`: a row for every line
    that says a number of GPUs, and a column for every name of figures that several have. None where there are none."""
    rows: list[dict[str, str]] = []
    for line in lines:
        plain = re.sub(r"\([^()]*[:,][^()]*\)", "", line)
        figures = {
            "" if keys_of(name)[0] else name.strip(): figure.strip()
            for name, figure in re.findall(_NAMED, plain)
            if _split(figure.strip())
        }
        says = keys_of(line)[0].keys() & {"gpus", "nodes", "per_node"}
        if says or len(figures) > 1:
            rows.append({"keys": line.partition(":")[0] if says else ""})
        if rows:
            rows[-1] = {**figures, **rows[-1]}
    names = Counter(name for row in rows for name in row)
    heads = [name for name, count in names.items() if count > 1]
    kept = [row for row in rows if sum(name in row for name in heads) > 1]
    return Grid([heads, *([row.get(name, "") for name in heads] for row in kept)]) if kept else None


def layouts(grid: Grid) -> Iterator[Layout]:
    """Yield the ways to read a grid."""
    for is_turned in (False, True):
        rows = [*zip(*grid.rows, strict=True)] if is_turned else _with_rows_apart(grid.rows)
        rows = _with_columns_apart([_with_joined_pairs(rows[0]), *rows[1:]])
        heads = next((at for at, row in enumerate(rows) if _is_body(row)), len(rows))
        # A text alone, below heads, names the rows below it.
        while heads > 1 and rows[heads - 1][0] and len({*filter(None, rows[heads - 1])}) == 1:
            heads -= 1
        ways = [(heads, "")]
        if heads + 1 < len(rows) and _is_row_of_keys(rows[heads]):
            ways += [(heads + 1, name) for name in _names_of_keys(rows[: heads + 2])]
        for until, name in ways:
            layout = _laid_out(rows, until, name, grid.caption, is_turned)
            if layout.series:
                yield layout


def _is_body(row: Sequence[str]) -> bool:
    """Whether a row holds figures: numbers behind its first cell, or alone there. `4x` may be a head."""
    return any(cells([text for text in row[1:] or row if not re.fullmatch(r"\d+ ?[x×]", text)]))


def _is_row_of_keys(row: Sequence[str]) -> bool:
    """Whether a row holds whole numbers alone: numbers of GPUs, or batches."""
    numbers = [text for text in row[1:] if text]
    if len(numbers) < 2 or re.match(r"\d", row[0]) or not all(re.fullmatch(_ALONE, text) for text in numbers):
        return False
    return min(map(_whole, numbers)) > 0


def _whole(text: str) -> int:
    return int(re.sub(r"\D", "", text)) * (1024 if text.endswith("k") else 1)


def _names_of_keys(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return what the row of keys before the last row may hold: batches alone, where its first cell says so, with
    GPUs or texts below it."""
    *_, last, body = rows
    batch, first = r"(?i)batch|\bbs\b", last[0]
    if re.search(batch, first) and not re.match(r"\d", body[0]):
        return ["batch"]
    is_of_gpus = re.search(WORDS["row_of_keys"].replace("{device}", WORDS["device"]), first, re.IGNORECASE)
    return ["gpus", "batch"] if is_of_gpus or re.search(batch, first) else []


def _laid_out(rows: Sequence[Sequence[str]], heads: int, name: str, caption: str, is_turned: bool) -> Layout:
    body = rows[heads:]
    sections, kept = _sections(body)
    row_keys, labels, marked = [], defaultdict[str, dict[int, str]](dict), set[int]()
    for at, section in enumerate(sections):
        keys, text = _keys_and_name(section)
        row_keys.append(keys)
        if text:
            labels[""][at] = text
    columns = [*zip(*body, strict=True)]
    has_decimal_commas = _comma_is_decimal([of_text[0] for row in body for text in row if (of_text := _split(text))])
    texts = _heads(rows[:heads], len(columns), bool(name))
    series, heads_of_keys, units = dict[tuple[str, str], ColumnSeries](), list[str](), defaultdict[str, str](str)
    for at, (column, head) in enumerate(zip(columns, texts, strict=True)):
        texts_here = [column[row] for row in kept]
        numbers = [
            cell if cell and (not cell.unit or kind_of_unit(cell.unit)) else None
            for cell in cells(texts_here, has_decimal_commas)
        ]
        held = sum(not is_missing(text) for text in texts_here)
        if held and 2 * sum(map(bool, numbers)) >= held:
            keys, left = keys_of(head)
            if not keys and at and texts.count(head) > 1:
                # Equal heads are of what stands before each.
                keys = {**keys_of(texts[at - 1])[0]}
            if name and at and re.fullmatch(_ALONE, rows[heads - 1][at]):
                keys[name] = _whole(rows[heads - 1][at])
            left = left.strip(" -,") or ("" if keys else head)
            unit = unit_of_head(left) or _unit_of_all(numbers)
            if keys:
                # Of columns that differ in keys alone, the first says the unit.
                left = re.sub(
                    _BRACKETS, lambda inner: "" if kind_of_unit(unit_of(inner[1])) else inner[0], left
                ).strip()
                unit = unit or units[left]
                units[left] = units[left] or unit
            of_head = series.setdefault((left, unit) if keys else (left, f"{unit} {at}"), ColumnSeries(left, unit))
            of_head.texts |= {row: column[row] for row in kept}
            of_head.figures += [(row, keys, number) for row, number in zip(kept, numbers, strict=True) if number]
        elif held and re.search(WORDS["remarks"], head.lower()):
            marked |= {row for row in kept if MARK in column[row]}
        elif held:
            names_of_rows, has_keys = _read_texts(column, kept, row_keys)
            if names_of_rows or not has_keys:
                labels[head or f"column {at + 1}"] = names_of_rows
            heads_of_keys += [head] * has_keys
    batch = next(filter(None, map(whose_batch, (*texts, caption))), "")
    return Layout([*series.values()], row_keys, labels, heads_of_keys, caption, marked, batch, is_turned)


def _unit_of_all(numbers: Sequence[PrintedCell | None]) -> str:
    """Return the unit behind the numbers of a column, where they have but one."""
    units = {number.unit for number in numbers if number and number.unit}
    return units.pop() if len(units) == 1 else ""


def _heads(head_rows: Sequence[Sequence[str]], width: int, has_row_of_keys: bool) -> list[str]:
    """Return the head of every column: the texts above it, where an upper one reaches to the right as far as it is
    empty. A text above the keys of the rows says what all figures are."""
    lines: list[list[str]] = []
    for number, row in enumerate(head_rows):
        reach, line = "", list[str]()
        for cell in row:
            reach = cell or reach
            line.append(cell if number == len(head_rows) - 1 else reach)
        lines.append(line)
    if has_row_of_keys:
        lines[-1] = ["" if re.fullmatch(_ALONE, cell) else cell for cell in lines[-1]]
        corner = " ".join(line[0] for line in lines[:-1])
        lines = [["", *(corner for _ in range(width - 1))], *(["", *line[1:]] for line in lines[:-1]), lines[-1]]
    joined = list[str]()
    for at in range(width):
        texts = [line[at] for line in lines if line[at]]
        # The unit of a head itself goes before that of one above it.
        if texts and unit_of_head(texts[-1]):
            texts[:-1] = [re.sub(_BRACKETS, "", text).strip() for text in texts[:-1]]
        joined.append(" ".join(dict.fromkeys(texts)).replace("_", " "))
    return joined


def _with_joined_pairs(row: Sequence[str]) -> Sequence[str]:
    """Return a row of heads where all are a word and the number beside it, above two columns: both above each."""
    start = len(row) % 2
    pairs = [*zip(row[start::2], row[start + 1 :: 2], strict=True)]
    if all(re.fullmatch(r"[^\d]+", word) and re.fullmatch(r"\d+\s*(/.*|per .*)?", text) for word, text in pairs):
        return [*row[:start], *(f"{word} {text}" for word, text in pairs for _ in (0, 1))]
    return row


def _with_rows_apart(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return rows with those of ratios that name no GPUs, below one of fewer GPUs and one of more, in columns of their
    own: they compare the two."""
    with_keys = [at for at, row in enumerate(rows) if keys_of(row[0])[0]]
    if with_keys != [1, 2] or not all(map(_is_body, rows[1:3])):
        return [*rows]
    below = [row for row in rows[3:] if _is_of_ratios(row)]
    kept = [row for row in rows if row not in below]
    filling = [""] * (len(kept) - 3)
    apart = [
        [f"{head} {name}", "", text, *filling]
        for name, *texts in below
        for head, text in zip(rows[0][1:], texts, strict=True)
    ]
    return [*zip(*zip(*kept, strict=True), *apart, strict=True)]


def _is_of_ratios(row: Sequence[str]) -> bool:
    """Whether a row is called that, or all that stands in it has the sign of ratios."""
    texts = [text for text in row[1:] if not is_missing(text)]
    is_called_so = re.search(WORDS["rows_of_ratios"], row[0].lower())
    return bool(is_called_so) or all(re.search(r"\d\s*[x×%]", text) for text in texts)


# Figures in brackets behind others, by their units.
_IN_BRACKETS = {"%": r"\d+(?:\.\d+)? ?%", "rate": r"\d[\d,.]* ?[a-z]+ ?/ ?s\w*"}


def _with_columns_apart(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return rows with a column such as `nodes * GPUs`, of cells such as `2*8`, as two columns; and with figures in
    brackets behind others, as in `1,345.8 (10.0x, 95%)`, in columns of their own, behind all others. Without their sign
    they are ratios where the first is 1, or all of a column, those of the base."""
    columns, of_ratios, has_base = list[Sequence[str]](), list[tuple[bool, Sequence[str]]](), False
    for head, *texts in zip(*rows, strict=True):
        names = re.split(r" [x×*] |[×*]", head.rpartition("\\")[2])
        products = [match for text in texts if (match := re.fullmatch(r"(\d+) ?[x×*] ?(\d+)", text))]
        if len(names) == 2 and len(products) == len(texts):
            columns += [[name, *(match[at] for match in products)] for at, name in enumerate(names, 1)]
        else:
            columns.append([head, *texts])
        # Brackets of a head may say what is in those of its figures.
        inner = [words for words in re.findall(_BRACKETS, head) if not kind_of_unit(unit_of(words))]
        name = " ".join(inner) or re.sub(_BRACKETS, "", head).strip()
        for unit, figure in _IN_BRACKETS.items():
            beside = [re.search(rf"\d[^()]*\((?:[^()]*[,;/] ?)?({figure})(?![\w.])", text) for text in texts]
            if sum(map(bool, beside)) > 1:
                of_ratios.append((True, [f"{name} ({unit})", *(match[1] if match else "" for match in beside)]))
        ratios = [re.search(r"\d\W*\((\d+(?:\.\d+)?) ?([x×]?)[,;)]", text) for text in texts]
        found = [match for match in ratios if match]
        if found:
            has_base |= {float(match[1]) for match in found} == {1.0}
            is_sure = bool(found[0][2]) or float(found[0][1]) == 1
            of_ratios.append((is_sure, [f"{head} speedup", *(match[1] + "x" if match else "" for match in ratios)]))
    return [*zip(*columns, *(column for is_sure, column in of_ratios if is_sure or has_base), strict=True)]


def _sections(body: Sequence[Sequence[str]]) -> tuple[list[str], list[int]]:
    """Return the section that each row is in, and the rows that are figures: a row of one text names those below."""
    section, above, sections, kept = "", None, [], []
    for at, row in enumerate(body):
        texts = [text for text in dict.fromkeys(row) if not is_missing(text)]
        # What differs from the row above in its keys alone was not run.
        name = keys_of(texts[0])[1] if texts else None
        if len(row) > 2 and len(texts) == 1 and not _is_body(row) and name != above:
            section = texts[0]
        elif any(row):
            kept.append(at)
        above = name
        sections.append(section)
    return sections, kept


def _read_texts(
    column: Sequence[str], kept: Sequence[int], row_keys: Sequence[dict[str, int]]
) -> tuple[dict[int, str], bool]:
    """Read a column of texts: keys such as `2 GPUs`. Returns what they leave, which names a group of rows, and whether
    there were keys."""
    keys, name, names, has_keys = dict[str, int](), "", dict[int, str](), False
    # Where there is a GPU 0, numbers say which GPU it is, and not how many.
    if any(re.search(rf"(?i)\b{WORDS['device']} ?#?0$", column[row]) for row in kept):
        return {row: column[row] for row in kept}, False
    texts = [column[row] for row in kept]
    # An empty cell stands for the text above, but not where that text is written again below it.
    filled = [at for at, text in enumerate(texts) if text]
    is_as_above = all(texts[at] != texts[below] for at, below in pairwise(filled) if below > at + 1)
    for row in kept:
        if column[row] or not is_as_above:
            keys, name = _keys_and_name(column[row])
            has_keys |= bool(keys)
        row_keys[row].update(keys)
        if name and not is_missing(name):
            names[row] = name
    return names, has_keys


def kind_of_unit(unit: str) -> str:
    """Return what a unit is of; nothing where it is none that is known, such as `gforce` of the machine `7gforce`. What
    is counted per second has many names."""
    first, _, per = unit.partition("/")
    if per in ("s", "min", "h") and not any(unit in units for units in WORDS["units"].values()):
        return "rate"
    first = first.partition(" ")[0]
    return next((kind for kind, units in WORDS["units"].items() if unit in units or first in units), "")


def unit_of_head(head: str) -> str:
    """Return the unit of a head: in brackets, behind `in` or a comma, or as its last word."""
    if match := re.search(rf"(?i)\b{WORDS['counted']}\s*(?:/|per| )\s*s(?:ecs?|econds?)?\b", head):
        return f"{match.group(1).lower()}s/s"
    bracketed = [part for inner in re.findall(_BRACKETS, head) for part in re.split(r",|;|\bin\b", inner)]
    # A number in a head has the unit behind it, and what is a function, as in `S(p)`, is none.
    plain = re.sub(rf"\w+\([a-z]\)|{_BRACKETS}|\d[\d.,]*\s*\S*", " ", head).strip()
    # `Epoch times` are no multiples.
    candidates = [unit_of(part) for part in (*bracketed[::-1], *re.findall(r"\S+$", plain)) if part != "times"]
    return next((unit for unit in candidates if kind_of_unit(unit)), "")
