"""One worker of a cell: `python -m dpscale.measure.worker <module> <job file> <rank>` runs the module's `WORKER`."""

import os
import sys

from dpscale.measure.parent import PARENT_PID, end_with_parent, run_worker

if __name__ == "__main__":
    end_with_parent(int(os.environ[PARENT_PID]))  # before torch is loaded, which takes seconds
    run_worker(*sys.argv[1:])
