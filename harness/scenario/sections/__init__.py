"""Sections of a scenario file that are read by a file of their own, and the rules between them."""
