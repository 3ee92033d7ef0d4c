"""The verdict on a run, computed from its event log alone (pure)."""
