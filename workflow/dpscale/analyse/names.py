"""Names of the tables, for those who only pass files on and need not load pandas."""

TABLES = ("times", "speedup", "communication", "bandwidth", "environments", "records", "rejected", "missing")
