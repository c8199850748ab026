"""Inside other people's training scripts: hooks that watch, and interventions in blocks of steps.

Needs the standard library and torch alone, from Python 3.9 and torch 2.4 on: it is loaded by its path, in whatever
environment the script has, as a package named `dpscale_attach`. Modules import each other relatively, and nothing of
dpscale. `site/sitecustomize.py` is where it begins; `dpscale diagnose -- COMMAND` puts that folder on PYTHONPATH.
"""
