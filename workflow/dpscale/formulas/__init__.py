"""Formulas: pure functions of numbers, each with its unit and source."""
