"""Runs a cell from the outside: starts its workers, watches them, writes its record. Free of torch."""
