"""Other people's figures: which convention gives what they printed, and what METHOD's definitions give in its place."""
