"""From the SVG of vl-convert to one that can stand in a page: named, small, and with ids of its own."""

import re
from itertools import groupby
from xml.etree import ElementTree

_NAMESPACE = "http://www.w3.org/2000/svg"
# Inside role="img" nothing is read out, and the font is the page's.
_NEEDLESS = {
    "class", "role", "pointer-events", "font-family", "font-size", "font-weight", "width", "height", "version",
    "stroke-miterlimit",
}  # fmt: skip
_DEFAULTS = {
    ("opacity", "1"), ("stroke-width", "1"), ("transform", "translate(0,0)"), ("text-anchor", "start"),
    ("stroke-dasharray", "1,0"),
}  # fmt: skip
_LONG_NUMBER = re.compile(r"-?\d+\.\d+")
_MOVED = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)$")
_STEP = re.compile(r"([MLAZhv])([^MLAZhv]*)")
_NUMBER = re.compile(r"-?[\d.]+")

ElementTree.register_namespace("", _NAMESPACE)


def for_page(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as an image with an accessible name and description; every id in it starts with `name`."""
    root = ElementTree.fromstring(svg)
    _remove_unseen(root)
    for element in root.iter():
        _tidy(element, name, keep_size=element.tag == _tag("rect"))
        _place(element)
    _unwrap(root)
    _join(root)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    root.set("aria-describedby", f"{name}-description")
    root.insert(0, _text_element("desc", f"{name}-description", description))
    root.insert(0, _text_element("title", f"{name}-title", title))
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


def _remove_unseen(parent: ElementTree.Element) -> None:
    """Take out backgrounds without colour, foregrounds without path, and groups that this leaves empty."""
    for child in list(parent):
        _remove_unseen(child)
        is_frame = child.get("class") in ("background", "foreground")
        is_empty = child.tag in (_tag("g"), _tag("text")) and not len(child) and not child.text
        if is_frame or is_empty:
            parent.remove(child)


def _tidy(element: ElementTree.Element, name: str, keep_size: bool) -> None:
    needless = _NEEDLESS - {"width", "height"} if keep_size else _NEEDLESS
    for key, value in list(element.attrib.items()):
        if key in needless or key.startswith("aria-") or (key, value) in _DEFAULTS:
            del element.attrib[key]
        elif key == "id":
            element.set(key, f"{name}-{value}")
        else:
            rounded = _LONG_NUMBER.sub(lambda number: _short(float(number[0])), value)
            element.set(key, rounded.replace("url(#", f"url(#{name}-"))
    if element.get("stroke") is None and element.tag == _tag("path"):
        element.attrib.pop("stroke-width", None)


def _place(element: ElementTree.Element) -> None:
    """Say where a mark lies by its own coordinates: lines and paths as paths, text by x and y."""
    moved = _MOVED.match(element.get("transform", "translate(0,0)"))
    if not moved:
        return
    if element.tag == _tag("text"):
        place = {"x": moved[1], "y": moved[2]}
    elif element.tag == _tag("line"):
        place = {"d": f"M{moved[1]},{moved[2]}l{element.attrib.pop('x2')},{element.attrib.pop('y2')}"}
        element.tag = _tag("path")
    elif element.tag == _tag("path") and (outline := _relative(element.get("d", ""))):
        x, y = (_short(float(offset) + start) for offset, start in zip(moved.groups(), outline[0], strict=True))
        place = {"d": f"M{x},{y}{outline[1]}"}
    else:
        return
    element.attrib.pop("transform", None)
    element.attrib.update(place)


def _relative(path: str) -> tuple[tuple[float, float], str] | None:
    """Where a path of one stroke begins, and its way from there. None for paths of other commands or more strokes."""
    if re.search(r"[^MLAZhv\d.,\s-]", path) or path.count("M") != 1:
        return None
    start, way, position = (0.0, 0.0), "", (0.0, 0.0)
    for command, text in _STEP.findall(path):
        numbers = _NUMBER.findall(text)
        if command == "Z":
            way += "z"
            continue
        if command in "hv":
            way += command + numbers[0]
            step = float(numbers[0])
            position = (position[0] + step, position[1]) if command == "h" else (position[0], position[1] + step)
            continue
        x, y = float(numbers[-2]), float(numbers[-1])
        if command == "M":
            start = (x, y)
        else:
            way += command.lower() + ",".join([*numbers[:-2], _short(x - position[0]), _short(y - position[1])])
        position = (x, y)
    return start, way


def _short(number: float) -> str:
    """A tenth of a pixel is as much as can be seen."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _unwrap(parent: ElementTree.Element) -> None:
    """Put the children of groups that say nothing in the groups' place."""
    children = []
    for child in parent:
        _unwrap(child)
        children += list(child) if child.tag == _tag("g") and not child.attrib else [child]
    parent[:] = children


def _join(parent: ElementTree.Element) -> None:
    """One path for paths of one look in a row, and a group for texts of one look in a row."""
    for child in parent:
        _join(child)
    children = []
    for (tag, look), run in groupby(parent, key=lambda child: (child.tag, _look(child))):
        alike = list(run)
        if len(alike) > 1 and tag == _tag("path") and not {"opacity", "fill-opacity", "transform"} & dict(look).keys():
            alike[0].set("d", "".join(path.get("d", "") for path in alike))
            alike = alike[:1]
        elif len(alike) > 1 and tag == _tag("text"):
            group = ElementTree.Element(_tag("g"), dict(look))
            for text in alike:
                text.attrib = {key: value for key, value in text.attrib.items() if key in ("x", "y")}
            group[:] = alike
            alike = [group]
        children += alike
    parent[:] = children


def _look(element: ElementTree.Element) -> tuple[tuple[str, str], ...]:
    """The attributes but for those that say where."""
    return tuple(sorted((key, value) for key, value in element.attrib.items() if key not in ("d", "x", "y")))


def _text_element(kind: str, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(_tag(kind), {"id": name})
    element.text = text
    return element


def _tag(kind: str) -> str:
    return f"{{{_NAMESPACE}}}{kind}"
