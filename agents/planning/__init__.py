"""How bytes move, as values: plans, routes, trees, chunks, the fluid model of their time (pure)."""
