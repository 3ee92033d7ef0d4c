"""Predictions: whole runs in the fluid model, as events, tables and figures."""
