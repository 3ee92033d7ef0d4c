"""What a judgement is made of: rules, findings, checks and the verdict on them (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trunkline.harness.record.history import History, Task
from trunkline.topologies.model import Topology

SHOWN = 5
"""Findings of one check that are told in words; the rest are counted."""

Result = Literal["pass", "unknown", "fail"]
"""`fail`: a promise was broken. `unknown`: the run proves nothing either way."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the scenario promised.

    `task_s` is a task's budget, `detection_s` how long a loss may go unnoticed. `expected_digest`
    gives the digest that a completed task's result must have, where the workload's inputs have a
    closed form; without it, and where it gives None, only fingerprints are compared. `programs` are
    the sites that run the scenario's own; None where agents run.
    """

    topology: Topology
    task_s: float
    accuracy_percent: float | None = None
    expected_digest: Callable[[Task], str | None] | None = None
    programs: tuple[str, ...] | None = None
    detection_s: float = 0.0
    has_backup: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw; `pass` says what it looked at."""

    outcome: Result
    text: str


Checker = Callable[[History, Rules], Iterable[Finding]]
"""One check. It reads the whole history and yields at least one `pass` finding."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check's name, its outcome, and what it saw, in words."""

    name: str
    outcome: Result
    detail: str

    @classmethod
    def of(cls, name: str, findings: Iterable[Finding]) -> Check:
        """The worst outcome, and the findings that had it."""
        every = tuple(findings)
        outcome = _worst(finding.outcome for finding in every)
        texts = [finding.text for finding in every if finding.outcome == outcome]
        if len(texts) > SHOWN:
            texts[SHOWN:] = [f"and {len(texts) - SHOWN} more"]
        return cls(name, outcome, "; ".join(texts))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst outcome of all checks, and the checks."""

    outcome: Result
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Verdict:
        """The verdict on these checks, of which there is at least one."""
        every = tuple(checks)
        return cls(_worst(check.outcome for check in every), every)

    @property
    def problems(self) -> tuple[str, ...]:
        """Every check that did not pass, in words, failures first."""
        return tuple(
            f"{check.name}: {check.detail}"
            for outcome in ("fail", "unknown")
            for check in self.checks
            if check.outcome == outcome
        )

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_json`."""
        rows = data["checks"]
        checks = (Check(row["name"], row["outcome"], row["detail"]) for row in rows)
        return cls(data["verdict"], tuple(checks))

    def to_json(self) -> dict[str, Any]:
        """The content of `verdict.json`."""
        rows = [
            {"name": check.name, "outcome": check.outcome, "detail": check.detail}
            for check in self.checks
        ]
        return {"verdict": self.outcome, "checks": rows}


def note(text: str) -> Finding:
    """What a check looked at."""
    return Finding("pass", text)


def fail(text: str) -> Finding:
    """A broken promise."""
    return Finding("fail", text)


def doubt(text: str) -> Finding:
    """Why the run proves nothing."""
    return Finding("unknown", text)


def _worst(outcomes: Iterable[Result]) -> Result:
    severity: tuple[Result, ...] = ("pass", "unknown", "fail")
    return max(outcomes, key=severity.index)
