"""The page of a study: its sections, tables and facts."""
