"""Everything that runs on the GPUs. Imports neither pandas nor altair nor jinja2."""

# Raised whenever clocked code changes in a way that can change a number: every cell is then measured again.
MEASUREMENT_VERSION = 1
