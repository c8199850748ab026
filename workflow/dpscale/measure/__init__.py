"""Everything that runs on the GPUs. Imports neither pandas nor altair nor jinja2."""
