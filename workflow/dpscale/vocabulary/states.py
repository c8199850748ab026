"""Words that stand in tables, and that other tables and the page look for."""

from collections.abc import Mapping

from dpscale.vocabulary import own_yaml

# The status of a bandwidth that does not follow from the communication time; and of a profiler that made the step
# longer.
NOT_RESOLVABLE = "not resolvable"
DISTORTED = "distorts"
# In place of a status, for cells that the study does not ask for.
NOT_PLANNED = "not planned"
# Whether more devices are worth it. The interval decides the first two. Otherwise all machines (or runs) lie on one
# side of the limit, or they lie on both; or there is one alone.
WORTH_IT, NOT_WORTH_IT, PROBABLY, PROBABLY_NOT, UNDECIDED, NOT_CONFIRMED = VERDICTS = (
    "worth it", "not", "probably", "probably not", "undecided", "not confirmed",
)  # fmt: skip
# A figure of several blocks is the mean of machines or of runs.
MACHINE, RUN = UNITS = "machine", "run"
# Before a figure that is a lower limit.
AT_LEAST = "≥"
# Behind a figure that is formed in other runs than the times printed beside it rest on, and in place of a status.
MARK, OTHER_RUNS = "†", "other runs"
# For a figure of two machines whose interval has the spread of other configurations in it.
BORROWED = "borrowed"

# The word in a table and its meaning, by status or kind of a figure.
STATES: Mapping[str, tuple[str, str]] = own_yaml(__file__, "states.yaml")
