"""The first message on every connection (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Hello:
    """What a caller says first: the caller's name, its run and the time.

    The time is the kernel's monotonic clock; `agents.wire.identity` describes the `proof`.
    """

    run: str
    site: str
    called_ns: int
    proof: str
    type: Literal["hello"] = "hello"
