"""Charts that are drawn once for all processes of a run of the tests: pages share most of their charts, and to draw one
takes longer than all else of it."""

import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import vl_convert

# Names the folder of drawn charts to the processes that tests start.
FOLDER = "DPSCALE_CHARTS_ONCE"
_draw = vl_convert.vegalite_to_svg


def draw_once(specification: dict[str, Any]) -> str:
    """As vl-convert draws it, or as it was drawn before."""
    words = json.dumps(specification, sort_keys=True)
    path = Path(os.environ[FOLDER], f"{sha256(words.encode()).hexdigest()}.svg")
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as drawn:
            drawn.write(_draw(specification))
        Path(drawn.name).replace(path)
    return path.read_text()


def install() -> None:
    """From now on this process draws so, where a folder is named."""
    if FOLDER in os.environ:
        vl_convert.vegalite_to_svg = draw_once  # type: ignore[assignment]
