"""The updates that servers got: how stale they were, how far apart, how long transfers took."""
