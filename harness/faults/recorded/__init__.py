"""Faults that were recorded: links and sites over time, in files of other programs."""
