"""A run while it goes on: its state, the pictures of it, and commands for it."""
