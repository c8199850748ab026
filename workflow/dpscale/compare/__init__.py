"""Studies beside each other: how long each takes over the first, how sure that is, and what else they differ in."""
