"""From the file of a scenario to values that are all valid."""
