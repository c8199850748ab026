"""Runs a cell from the outside: starts its workers, waits for their outcome, writes its record. Free of torch."""
