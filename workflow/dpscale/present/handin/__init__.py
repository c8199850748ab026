"""The tables of an assignment, to read and to copy: what they hold, and what explains them."""
