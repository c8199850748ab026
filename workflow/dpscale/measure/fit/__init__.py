"""The largest batch that fits in a GPU's memory, and the smallest one that is as fast: `worker` makes a try, `search`
chooses what to try."""
