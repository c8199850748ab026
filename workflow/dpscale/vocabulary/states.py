"""Words that stand in tables, and that other tables and the page look for."""

from collections.abc import Mapping

# The status of a bandwidth that does not follow from the communication time; and of a profiler that made the step
# longer, or that shows more exposed communication than there is room for.
NOT_RESOLVABLE = "not resolvable"
DISTORTED, ARTEFACT = "distorts", "artefact"
# Whether preparing data before the clock pays; whether one device is as fast as several.
PAYS, NEVER = "yes", "never"
HOLDS, DOES_NOT = "holds", "does not"
# In place of a status, for cells that the study does not ask for.
NOT_PLANNED = "not planned"
# Whether more devices are worth it. The interval decides the first two. Otherwise all machines (or runs) lie on one
# side of the limit, or they lie on both; or there is one alone.
WORTH_IT, NOT_WORTH_IT = "worth it", "not"
PROBABLY, PROBABLY_NOT, UNDECIDED, NOT_CONFIRMED = "probably", "probably not", "undecided", "not confirmed"
# A figure of several blocks is the mean of machines or of runs.
MACHINE, RUN = "machine", "run"
# Before a figure that is a lower limit.
AT_LEAST = "≥"
# Behind a figure that is formed in other runs than the times printed beside it rest on, and in place of a status.
MARK, OTHER_RUNS = "†", "other runs"
# For a figure of two machines whose interval has the spread of other configurations in it.
BORROWED = "borrowed"

# The word in a table and its meaning, by status or kind of a figure.
STATES: Mapping[str, tuple[str, str]] = {
    "oom": ("OOM", "the memory of one {device} is too small for this batch"),
    "capped": ("larger than the dataset", "a step would take more {samples} than an epoch has"),
    "not resolvable": (
        "not resolvable",
        f"the communication time may be zero, or has no interval; {AT_LEAST} 13.2 means at least 13.2",
    ),
    "no baseline": ("no baseline", "one {device} was not timed at this batch, so there is nothing to compare with"),
    "not available": ("not available", "the strategy does not run on this machine"),
    "not run": ("not run", "this machine has fewer {devices} than that"),
    "missing": ("missing", "not measured yet"),
    "failed": ("failed", "the measurement ended with an error"),
    "unfinished": ("unfinished", "the measurement began, and its log has neither a result nor an error"),
    "not planned": ("not planned", "the study does not ask for it"),
    "one run": ("one run", "measured once, so there is no interval: not confirmed"),
    "two runs": ("2 runs", "both were on one machine: values in parentheses are those of the two, and no interval"),
    "two machines": ("2 machines", "values in parentheses are those of the two, and no interval"),
    BORROWED: (
        "borrowed",
        "the interval of a speedup of two machines, and what follows from it, has the spread of other configurations "
        "in it",
    ),
    "one machine": ("one machine", "all runs are of one machine: the interval does not hold how machines differ"),
    OTHER_RUNS: (
        f"{MARK} other runs",
        "the times of one {device} and of more are not all of the same runs, perhaps of other machines; this is formed "
        "in each run, so it is not the quotient of these times",
    ),
    "drift": ("drift", "the time of one {device} changed by more than 2 % during a run"),
    "no bus bandwidth": ("no bus bandwidth", "the links were not timed alone, so there is nothing to compare with"),
    "diverged": ("diverged", "the loss was no finite number any more"),
}
