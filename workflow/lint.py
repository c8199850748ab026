"""`snakemake --lint` for every study file given, without one lint that does not fit.

python workflow/lint.py <study>...    exits with 1 where there is a lint.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# All rules share one environment, that of Snakemake itself: requirements.txt pins it, and a GPU job must run with the
# torch that its user built for its GPU. An environment per rule would state the same a second time.
NOT_OURS = "Specify a conda environment or container for each rule."
CLEAN = "your workflow is in a good condition"


def lints(study: str) -> Iterator[str]:
    """One line for each lint of the workflow under a study."""
    snakemake = Path(sys.executable).with_name("snakemake")
    done = subprocess.run([snakemake, "--lint", "--configfile", study], capture_output=True, text=True)
    output = done.stdout + done.stderr
    place = ""
    found = CLEAN in output
    for line in output.splitlines():
        if match := re.match(r"Lints for (.*):$", line):
            place = match[1]
        if match := re.match(r" {4}\* (.*):$", line):
            found = True
            if match[1] != NOT_OURS:
                yield f"{study}: {place}: {match[1]}"
    if not found:
        yield f"{study}: snakemake --lint did not run:\n{output}"


if __name__ == "__main__":
    everything = [line for study in sys.argv[1:] for line in lints(study)]
    print("\n".join(everything) or "snakemake --lint: no lints")
    sys.exit(bool(everything))
