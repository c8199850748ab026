"""Names of the tables, for those who only pass files on and need not load pandas."""

TABLES = (
    "times",
    "speedup",
    "communication",
    "bandwidth",
    "steps",
    "collectives",
    "laws",
    "allreduce_models",
    "forecast",
    "critical_batch",
    "environments",
    "records",
    "rejected",
    "missing",
)
