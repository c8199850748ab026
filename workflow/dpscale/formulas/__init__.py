"""Blocks: the units in which differences and ratios are formed. Free of NumPy, as records name them too."""

from typing import NamedTuple


class OnServer(NamedTuple):
    """A block, by its name, and the server that it was measured on, by its number."""

    block: str
    server: int


# Of a record that was not collected with others.
NO_BLOCK = OnServer("", 0)
