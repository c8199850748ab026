"""The second contract: what a study's tables hold, one class per table. All else about a column follows from it."""
