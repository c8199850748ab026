"""A cell from the outside: start its workers, watch them, write its record. Free of torch."""
