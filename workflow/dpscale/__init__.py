"""What more GPUs really buy in data-parallel training, and where the time goes.

import dpscale

study = dpscale.load("recorded")
study.speedup, study.answer, study.figure("efficiency")
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpscale.loaded import LoadedStudy

__version__ = "0.2.0"


def load(study: str | Path) -> "LoadedStudy":
    """Return the results of a study by its name, its file or its folder of results."""
    from dpscale.loaded import load as loaded

    return loaded(study)
