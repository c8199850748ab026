"""Everything that runs on the GPUs. Imports neither pandas nor altair nor jinja2."""

# By kind of record. Raised whenever measuring code changes in a way that can change a number: every cell of that kind
# is then measured again.
MEASUREMENT_VERSIONS = {"timing": 1, "communication": 1, "collectives": 1, "training": 1}
