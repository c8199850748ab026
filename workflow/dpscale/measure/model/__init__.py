"""What is trained: networks, strategies, optimisers, and the recipes of arms."""
