"""Whether the same program runs several times at once: processes with the same command, and a launcher's variables.
Free of torch."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# How many processes a launcher has started with these variables: torchrun and accelerate, Open MPI, PMI, srun.
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
# What each of several launches may have of its own.
_OWN_PLACES = ("--json", "--page")


def launches(words: Sequence[str], launcher_pid: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """What tells of other launches of the command with these `words`, of which `launcher_pid` is one."""
    variable = next((name for name in SIZES if environment.get(name, "").isdigit()), None)
    return {
        "processes_of_launcher": int(environment[variable]) if variable else None,
        "variable": variable,
        "same_command": same_command(words, launcher_pid),
    }


def same_command(words: Sequence[str], launcher_pid: int) -> list[int]:
    """Other processes whose command ends with the same words. What started one of them, and was given the whole
    command for that, does not count: a shell, `timeout`, torchrun, srun."""
    wanted = _without_places(words)
    parents = dict(_parents())
    own = {launcher_pid, *_above(launcher_pid, parents)}
    found = [
        pid
        for pid in parents
        if wanted and pid not in own and _without_places(_words_of(pid))[-len(wanted) :] == wanted
    ]
    starters = {above for pid in found for above in _above(pid, parents)}
    return sorted(pid for pid in found if pid not in starters)


def _without_places(words: Sequence[str]) -> list[str]:
    kept, skipped = [], False
    for word in words:
        if not skipped and word not in _OWN_PLACES and not word.startswith(tuple(f"{name}=" for name in _OWN_PLACES)):
            kept.append(word)
        skipped = word in _OWN_PLACES
    return kept


def _words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _parents() -> Iterator[tuple[int, int]]:
    """Every process of this machine, as far as it is seen from here, with its parent."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may have spaces in it: state, parent and so on (man 5 proc).
            yield int(entry.name), int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it has ended
            continue


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid
