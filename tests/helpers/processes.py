"""Processes of this machine: which ones a process has started, and which still run."""

from pathlib import Path


def started_by(pid: int) -> set[int]:
    """Processes that `pid` started, and all that those started."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(_status(entry)[1])
        except OSError:
            continue
    found = {pid}
    while started := {child for child, parent in parents.items() if parent in found} - found:
        found |= started
    return found - {pid}


def workers_of(launcher: int) -> dict[int, int]:
    """The workers that the launcher of a cell has started, by rank. It starts others for a moment, such as git."""
    found = {}
    for pid in started_by(launcher):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"dpscale.measure.worker" in command:
            found[int(command[-2])] = pid
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that still run; a zombie waits only for its parent to look."""
    return {pid for pid in pids if _is_running(Path(f"/proc/{pid}"))}


def running_in(folder: Path) -> list[int]:
    """Processes whose working folder is `folder`: Snakemake, cells and their workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and _is_running(entry):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _is_running(process: Path) -> bool:
    try:
        return _status(process)[0] != "Z"
    except OSError:
        return False


def _status(process: Path) -> list[str]:
    """State, parent and so on: what stands behind the name, which may have spaces in it."""
    return (process / "stat").read_text().rsplit(")", 1)[1].split()
