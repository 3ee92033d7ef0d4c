"""How a server's model gets to the workers of racks while they compute: OWL, baselines (pure)."""
