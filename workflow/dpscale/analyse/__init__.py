"""From records to tables. Pure, and free of torch."""
