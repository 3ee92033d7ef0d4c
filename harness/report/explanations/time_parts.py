"""The parts of a task's time, each with its cause (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Cause = Literal[
    "rate", "propagation", "slowdown", "outage", "stop", "other tasks", "background traffic",
    "loss", "delay", "cold start", "queueing", "unexplained", "repair", "longer plan",
    "begun anew", "contribution", "installation", "before the fault", "end", "abandonment",
]  # fmt: skip

PLANNED: tuple[Cause, ...] = ("rate", "propagation")
"""The causes that the estimate of a task already has in it."""

TOLD_APART: tuple[Cause, ...] = (
    "other tasks", "propagation", "slowdown", "background traffic",
)  # fmt: skip
"""Parts of these causes are one part only if their texts are the same, too."""

MISTAKEN = ", and TCP takes what is late for lost"
"""What a delay that grows by more than TCP's shortest timer does to connections."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a task's time.

    Attributes:
        where: the link `a -> b` or the site.
        fault: the number of the fault behind it; None without one.
        bytes: what was carried meanwhile.
        text: more about it, such as a rate, or why a task was repaired.
        beside: the number of a fault that took this time on the critical path, while this cause
            took as long on another way: without the fault the task would have ended no earlier.
    """

    cause: Cause
    seconds: float
    where: str
    fault: int | None = None
    bytes: float = 0.0
    text: str = ""
    beside: int | None = None


def cut_part(part: Part, seconds: float, cause: Cause, fault: int | None, text: str) -> list[Part]:
    """A part, of which so many seconds have another cause, with this text."""
    share = seconds / part.seconds
    left_s, size = part.seconds - seconds, part.bytes * share
    left = [replace(part, seconds=left_s, bytes=part.bytes - size)] if left_s > 0 else []
    return [*left, Part(cause, seconds, part.where, fault, size, text)]


def merge_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Add parts of the same cause, place and fault, and other task; the longest first."""
    found: dict[tuple[str, str, int | None, str], Part] = {}
    for part in parts:
        text = part.text if part.cause in TOLD_APART else ""
        key = part.cause, part.where, part.fault, text
        if before := found.get(key):
            seconds, size = before.seconds + part.seconds, before.bytes + part.bytes
            longer = max(before, part, key=lambda each: each.seconds)
            part = replace(longer, seconds=seconds, bytes=size)
        found[key] = part
    return sort_parts(found.values())


def sort_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, the longest first."""
    return tuple(sorted(parts, key=lambda part: -part.seconds))


def limit_parts(parts: Iterable[Part], left_s: float) -> Iterator[Part]:
    """The parts as far as there is time left for them, in this order."""
    for part in parts:
        seconds = min(left_s, part.seconds)
        if seconds > 0:
            yield replace(part, seconds=seconds, bytes=part.bytes * seconds / part.seconds)
            left_s -= seconds


def compare_delays(now_ms: float, usual_ms: float) -> str:
    """A longer delay beside that of the scenario, in words."""
    return f"{now_ms:.4g} ms in place of {usual_ms:.4g} ms"
