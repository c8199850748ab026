"""How numbers and words are written: one way for each."""
