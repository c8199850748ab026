"""The inside of a cell's processes: one module per kind of measurement, each with its `WORKER`."""
