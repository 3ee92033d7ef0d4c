"""Rules, findings, checks and the verdict (pure).

A check compares a run's history with the rules and yields findings. Its worst finding is its
outcome, and the worst check is the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trunkline.harness.record.history import History, Task
from trunkline.topologies.model import Topology

SHOWN = 5
"""A check's text has at most this many findings; the rest are counted."""

Result = Literal["pass", "unknown", "fail"]
"""`fail`: a promise was broken. `unknown`: the run proves nothing either way."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The promises of a scenario.

    Attributes:
        topology: the sites and links.
        task_s: a task's budget in seconds.
        accuracy_percent: the target accuracy, if there is one.
        expected_digest: the exact digest of a task's result, for workloads whose inputs have a
            closed form. Without it, or if it returns None, only fingerprints are compared.
        programs: the sites that run the scenario's own programs; None if agents run.
        detection_s: seconds within which a loss is noticed.
        has_backup: whether there is a backup controller.
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
    """One result of a check; the text of a `pass` says what was checked."""

    outcome: Result
    text: str


Checker = Callable[[History, Rules], Iterable[Finding]]
"""One check. It reads the whole history and yields at least one `pass` finding."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check's name, its outcome, and its findings in words."""

    name: str
    outcome: Result
    detail: str

    @classmethod
    def of(cls, name: str, findings: Iterable[Finding]) -> Check:
        """Summarize findings: the worst outcome, and the texts of the findings that have it."""
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
        """A line for every check that did not pass, failures first."""
        return tuple(
            f"{check.name}: {check.detail}"
            for outcome in ("fail", "unknown")
            for check in self.checks
            if check.outcome == outcome
        )

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Read what `to_json` gave."""
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
    """Make a `pass` finding that says what was checked."""
    return Finding("pass", text)


def fail(text: str) -> Finding:
    """Make a `fail` finding: a promise was broken."""
    return Finding("fail", text)


def doubt(text: str) -> Finding:
    """Make an `unknown` finding: why the run proves nothing."""
    return Finding("unknown", text)


def _worst(outcomes: Iterable[Result]) -> Result:
    severity: tuple[Result, ...] = ("pass", "unknown", "fail")
    return max(outcomes, key=severity.index)
