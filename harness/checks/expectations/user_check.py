"""A program of the user that judges a run: its result, as the run's folder keeps it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UserCheck:
    """How a check of `expect:` ended.

    Attributes:
        entry: its number in `expect:`, from 0.
        code: its exit code; None if it did not exit by itself.
        problem: why it did not: `could not be started`, `took longer than 600 s`.
        line: the last line of its output.
    """

    entry: int
    code: int | None
    problem: str = ""
    line: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as an object of `checks.json`."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> UserCheck:
        """Read what `to_json` gave."""
        return cls(data["entry"], data["code"], data["problem"], data["line"])
