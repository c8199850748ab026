"""Where it was. Only until all import it from its room."""

from dpscale.analyse.timing.points import NO_RECORD as NO_RECORD
from dpscale.analyse.timing.points import STATES_BY_WEIGHT as STATES_BY_WEIGHT
from dpscale.analyse.timing.points import why_missing as why_missing
