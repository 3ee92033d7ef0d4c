"""The judgement of a run, from its event log alone (pure)."""
