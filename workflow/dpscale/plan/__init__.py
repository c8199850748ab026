"""What to run: studies, their cells, and what is not run and why. Pure, and free of torch."""
