"""Words that stand in tables, and that other tables and the page look for."""

# Words in tables that the page looks for: the status of a bandwidth that the communication time does not tell; what is
# said of a profiler that made the step longer, or that shows more exposed communication than there is room for.
NOT_RESOLVABLE = "not resolvable"
DISTORTED, ARTEFACT = "distorts", "artefact"
# Whether what is prepared before the clock pays; whether one device is as fast as several; whether a trade of time
# against accuracy is beaten by another.
PAYS, NEVER = "yes", "never"
HOLDS, DOES_NOT = "holds", "does not"
BEST, BEATEN = "best", "beaten"
# In place of a status: what a study has not asked for.
NOT_PLANNED = "not planned"
# Whether more devices are worth it: undecided where the interval holds the limit, not confirmed where there is none.
WORTH_IT, NOT_WORTH_IT, UNDECIDED, NOT_CONFIRMED = "worth it", "not", "undecided", "not confirmed"
