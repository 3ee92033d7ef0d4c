"""The record of a run: its folder, its event log, and the history in that log."""
