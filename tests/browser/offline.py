"""A page loaded from its file as a reader may: offline, with or without scripts, everything folded out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page


def listen(page: Page) -> tuple[list[str], list[str]]:
    """Two lists that fill from now on: addresses that the page asks for, and complaints of its console and scripts."""
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return requests, complaints


@contextmanager
def loaded_offline(browser: Browser, file: Path, width: int, scheme: str, scripts: bool) -> Iterator[Page]:
    """The page, which asked for nothing but itself and complained of nothing."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts, offline=True
    )
    page = context.new_page()
    requests, complaints = listen(page)
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert complaints == []
    yield page
    context.close()


def wider_than(page: Page, width: int, elements: str) -> list[object]:
    """The boxes of `elements` that reach beyond `width`."""
    boxes = [part.bounding_box() for part in page.locator(elements).all()]
    return [box for box in boxes if box and box["x"] + box["width"] > width]
