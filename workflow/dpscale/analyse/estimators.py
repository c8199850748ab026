"""Where it was. Only until all import it from its room."""

from dpscale.analyse.communication.estimators import DISTORTED_BEYOND

DISTORTED = DISTORTED_BEYOND
