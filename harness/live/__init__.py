"""A running run: its state, the display of that state, and the user's commands."""
