"""What a study and a record may hold: the schemas, and the settings, each stated once."""
