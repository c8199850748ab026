"""Studies held against the first of them: which differ, by how much, and how sure that is."""
