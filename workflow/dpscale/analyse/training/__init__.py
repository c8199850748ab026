"""Trainings: every epoch of every arm and seed, what arms come to, and which are worth their cost."""
