"""Other people's figures: which convention gives what they printed, and what the definitions of docs/method.md give."""
