"""Names of the tables, for those who only pass files on and need not load pandas."""

TABLES = (
    "times",
    "speedup",
    "communication",
    "bandwidth",
    "steps",
    "collectives",
    "environments",
    "records",
    "rejected",
    "missing",
)
