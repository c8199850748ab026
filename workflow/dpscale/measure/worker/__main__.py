"""One worker of a cell: `python -m dpscale.measure.worker <module> <job file> <rank>` runs the module's `WORKER`."""

import importlib
import json
import os
import sys
from pathlib import Path

from dpscale.measure.parent import PARENT_PID, end_with_parent

if __name__ == "__main__":
    end_with_parent(int(os.environ[PARENT_PID]))  # before torch is loaded, which takes seconds
    module, job_file, rank = sys.argv[1:]
    job = json.loads(Path(job_file).read_text())  # before that too: a launcher that is stopped meanwhile removes it
    importlib.import_module(module).WORKER(job, int(rank)).run()
