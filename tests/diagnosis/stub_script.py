"""A script that trains nothing, and writes what hooks in it would: `stub_script.py FILE CODE ENDED SLEEP_S`, and more.

FILE holds the processes that it writes down; ENDED is `time` where hooks have ended it, or `script`, or the phase in
which it ends by itself. It leaves a process behind that has a session of its own, as torchrun's workers have.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

processes, code, ended, sleep_s = json.loads(Path(sys.argv[1]).read_text()), *sys.argv[2:5]
folder = Path(os.environ["DPSCALE_ATTACH"])
print("training", json.loads((folder / "job.json").read_text())["mode"], os.environ["WANDB_MODE"], flush=True)
subprocess.Popen(["sleep", "600"], start_new_session=True)
for number, process in enumerate(processes):
    (folder / f"progress-here-{number}.json").write_text(json.dumps({"phase": "timing"}))
    (folder / f"process-here-{number}.json").write_text(json.dumps(process))
    phase = {"time": "ended", "script": "timing"}.get(ended, ended)
    (folder / f"progress-here-{number}.json").write_text(json.dumps({"phase": phase}))
time.sleep(float(sleep_s))
sys.exit(int(code))
