"""Faults: as values, as text, over time, and carried out on a network."""
