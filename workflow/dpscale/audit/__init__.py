"""Published figures: which convention gives what was printed, and what the definitions of docs/method.md give."""
