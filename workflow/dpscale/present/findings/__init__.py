"""What a study's tables say, in sentences."""
