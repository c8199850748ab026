"""A diagnosis, as a page and in a terminal."""
