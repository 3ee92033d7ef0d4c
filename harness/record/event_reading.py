"""Reads events."""

from trunkline.agents.events.event_reading import parse

__all__ = ["parse"]
