"""Processes: how they are forked, owned, timed and talked to, so that none outlives its run."""
