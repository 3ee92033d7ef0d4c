"""Processes, and what they hold: none of it outlives the run that made it."""
