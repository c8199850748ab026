"""Where it was. Only until all import it from its room."""

from dpscale.analyse.timing.environments import joined as joined
