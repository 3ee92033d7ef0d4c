"""From YAML text to plain values: key paths and lines, units, options from signatures (pure)."""
