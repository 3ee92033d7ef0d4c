"""Checks of what agents decide and do: rounds, connections, policies, plans, repairs."""
