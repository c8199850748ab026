"""Observations of machines, devices and steps while they are measured. None of it is inside the clock."""
