"""From a YAML text to plain values: positions, units, options from signatures (pure)."""
