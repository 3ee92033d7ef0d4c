"""What a user expects of a run, and remarks on what did not move."""
