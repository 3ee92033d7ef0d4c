"""Checks of the network and of other traffic on it."""
