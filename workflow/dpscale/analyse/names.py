"""Names of the tables, for those who only pass files on and need not load pandas."""

AUDIT_TABLES = ("audit", "audit_findings", "audit_warnings")
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
    "training",
    "training_summary",
    "training_evidence",
    "environments",
    "records",
    "rejected",
    "missing",
    *AUDIT_TABLES,
)

# Words in tables that the page looks for: the phase of steps.csv that is a device's whole step, the kinds of rows of
# forecast.csv, and the status of a bandwidth that the communication time does not tell.
WHOLE_STEP = "all"
HELD_OUT, EXTRAPOLATED = "held out", "extrapolated"
NOT_RESOLVABLE = "not resolvable"
