"""Communication: inferred from times, estimated independently, measured alone, and as parts of a step."""
