"""What a run leaves behind: its folder, its event log, and what can be read out of it."""
