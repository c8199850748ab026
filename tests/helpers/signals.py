"""What a launcher does to the signals of its process, undone."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_as_they_were() -> Iterator[None]:
    """A cell that is measured in the tests' own process must not decide what ends the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
