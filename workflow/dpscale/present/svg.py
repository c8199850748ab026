"""From the SVG of vl-convert to one that can stand in a page: named, small, and with ids of its own."""

import re
from xml.etree import ElementTree

_NAMESPACE = "http://www.w3.org/2000/svg"
# Inside role="img" nothing is read out, and the font is the page's.
_NEEDLESS = {
    "class", "role", "pointer-events", "font-family", "font-size", "font-weight", "width", "height", "version",
}  # fmt: skip
_DEFAULTS = {("opacity", "1"), ("stroke-width", "1"), ("transform", "translate(0,0)")}
_LONG_NUMBER = re.compile(r"(\d+\.\d)\d+")

ElementTree.register_namespace("", _NAMESPACE)


def for_page(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as an image with an accessible name and description; every id in it starts with `name`."""
    root = ElementTree.fromstring(svg)
    _remove_unseen(root)
    for element in root.iter():
        _tidy(element, name, keep_size=element.tag == _tag("rect"))
    _unwrap(root)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    root.set("aria-describedby", f"{name}-description")
    root.insert(0, _text_element("desc", f"{name}-description", description))
    root.insert(0, _text_element("title", f"{name}-title", title))
    return ElementTree.tostring(root, encoding="unicode")


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
            element.set(key, _LONG_NUMBER.sub(r"\1", value).replace("url(#", f"url(#{name}-"))


def _unwrap(parent: ElementTree.Element) -> None:
    """Put the children of groups that say nothing in the groups' place."""
    children = []
    for child in parent:
        _unwrap(child)
        children += list(child) if child.tag == _tag("g") and not child.attrib else [child]
    parent[:] = children


def _text_element(kind: str, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(_tag(kind), {"id": name})
    element.text = text
    return element


def _tag(kind: str) -> str:
    return f"{{{_NAMESPACE}}}{kind}"
