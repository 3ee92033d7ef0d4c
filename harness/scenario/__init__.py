"""From a scenario's file to values in which everything is valid."""
