"""Studies beside each other: what is compared, the page, the command."""
