"""Networks, their facts, and the recipes that arms train them by."""
