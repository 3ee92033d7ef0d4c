"""Checks of runs of programs, which log only their own reports (pure)."""
