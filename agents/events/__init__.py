"""What happens in a run, as typed values: the events that agents and runner log, read and write."""
