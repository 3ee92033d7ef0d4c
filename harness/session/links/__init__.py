"""Counts of links, and changes of links that the run does not make, in the log."""
