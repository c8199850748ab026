"""Charts: what is drawn of every topic, and how."""
