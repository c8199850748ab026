"""Inside a cell: what one of its processes does. One module per kind of measurement, each with its `WORKER`."""
