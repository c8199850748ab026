"""Where it was. Only until all import it from its room."""

from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE as DRIFT_TOLERANCE
