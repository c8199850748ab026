"""Words and plain data that all floors share: states and causes, chips, links, networks."""
