"""The contract between measuring and analysing: what was measured, and what is still to be. Free of torch."""
