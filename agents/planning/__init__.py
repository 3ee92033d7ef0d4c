"""How bytes move, as values: plans, routes, trees, chunks, and the fluid model (pure)."""
