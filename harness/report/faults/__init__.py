"""Faults in tables and figures."""
