"""Ways to falsify the log of a run. A verdict must notice every one that changes its meaning.

Each function takes the log's lines as dictionaries, in order, and returns the falsified log. It
raises `NotHereError` if the log has nothing of its kind to falsify.
"""

from falsified import (
    of_agents,
    of_background,
    of_branches,
    of_bytes,
    of_calls,
    of_models,
    of_programs,
    of_servers,
    of_tasks,
    of_the_frame,
    of_times,
)
from falsified.falsifying import FALSIFICATIONS, Log, NotHereError, Original, apply

__all__ = [
    "FALSIFICATIONS",
    "Log",
    "NotHereError",
    "Original",
    "apply",
    "of_agents",
    "of_background",
    "of_branches",
    "of_bytes",
    "of_calls",
    "of_models",
    "of_programs",
    "of_servers",
    "of_tasks",
    "of_the_frame",
    "of_times",
]
