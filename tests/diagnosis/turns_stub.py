"""A script that trains nothing, and speaks as hooks in it would: `turns_stub.py STEP_S [BLOCKS CODE] [LOCK]`.

A step takes STEP_S, as it says. After so many BLOCKS it ends with CODE. It fails at once where another one holds LOCK,
as one does that finds no memory.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

step_s, blocks, code, *lock = sys.argv[1:]
if lock:
    memory = Path(lock[0]).open("w")  # noqa: SIM115 (held to the end)
    try:
        fcntl.flock(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("out of memory")
folder = Path(os.environ["DPSCALE_ATTACH"])
with (folder / "said").open("w") as said, (folder / "words").open() as words:
    steps = 0
    for _ in range(int(blocks)):
        print(
            json.dumps({"pid": os.getpid(), "steps": steps, "seconds": steps * float(step_s), "samples": 4.0}),
            file=said,
            flush=True,
        )
        if not float(words.readline() or 0):
            sys.exit()
        steps = 10
sys.exit(int(code))
