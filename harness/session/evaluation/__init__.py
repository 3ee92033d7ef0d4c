"""Measures models at equal times, beside the run: no agent and no link knows of it."""
