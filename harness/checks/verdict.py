"""Rules, findings, checks and the verdict (pure).

A check compares a run's history with the rules and yields findings. Its worst finding is its
outcome, and the worst check is the verdict. A check also counts the objects that it looked at: how
many it judged, and how many it excused by which rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History

SHOWN = 5
"""A check's text has at most this many findings; the rest are counted."""

SHOWN_EXCUSES = 3
"""A verdict has at most this many lines about what its checks excused."""

CASES = 20
"""A check lists at most this many excused objects of each rule; the rest are counted."""

MAY_CHANGE = "network.may_change"
"""The rule by which the scenario lets programs and typed commands change links."""
CHANGED = "something else than the run changed the link"
"""The rule by which a link is excused that the scenario does not let others change."""

EXPECTED = "expected: "
"""The names of the checks of `expect:` begin with it."""

Result = Literal["none", "pass", "unknown", "fail"]
"""`fail`: a promise was broken. `unknown`: the run proves nothing either way. `none`: the run had
no object for this check, so the check did not pass, and says nothing against the run."""

PREDICTION: Final = "prediction"
"""The outcome of what was no run: nothing is judged, so nothing can pass or fail."""

SEVERITY: tuple[Result, ...] = ("none", "pass", "unknown", "fail")
"""From the best to the worst for a run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check, about `objects` objects; those with a `rule` are excused by it."""

    outcome: Result
    text: str = ""
    objects: int = 0
    rule: str = ""


Checker = Callable[[History, Rules], Iterable[Finding]]
"""One check. It reads the whole history and counts every object that it could judge once."""


@dataclass(frozen=True, slots=True)
class Excuse:
    """A rule by which a check excused objects, how many, and which (at most CASES of them)."""

    rule: str
    count: int
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """A check's name, its outcome, its findings in words, and its counts of `objects`."""

    name: str
    outcome: Result
    detail: str
    objects: str
    judged: int
    excuses: tuple[Excuse, ...] = ()

    @classmethod
    def of(cls, name: str, objects: str, findings: Iterable[Finding]) -> Check:
        """Summarize findings: the worst outcome, and the texts of the findings that have it.

        A check that could judge objects and excused them all is `unknown`, unless the scenario
        itself asks for that.
        """
        every = tuple(findings)
        judged = sum(each.objects for each in every if not each.rule)
        excuses = tuple(_group_excuses(every))
        outcome = _worst(each.outcome for each in every)
        texts = [each.text for each in every if each.outcome == outcome and not each.rule]
        texts = [text for text in texts if text]
        if outcome in ("none", "pass"):
            is_asked_for = all(excuse.rule == MAY_CHANGE for excuse in excuses)
            outcome = "pass" if judged else "none" if is_asked_for else "unknown"
            if outcome == "unknown":  # the notes are about nothing
                texts = [_explain_excuses(objects, excuses)]
        if len(texts) > SHOWN:
            texts[SHOWN:] = [f"and {len(texts) - SHOWN} more"]
        return cls(name, outcome, "; ".join(texts), objects, judged, excuses)

    @property
    def excused(self) -> int:
        """The number of objects that were excused."""
        return sum(excuse.count for excuse in self.excuses)

    @property
    def counts(self) -> str:
        """The counts in words: `26 of 28 tasks judged; excused: 2 (a member was killed)`."""
        total = self.judged + self.excused
        if not total:
            return f"no {self.objects}"
        judged = f"{self.judged:,}" if self.judged == total else f"{self.judged:,} of {total:,}"
        rules = "".join(f"; {excuse.count:,} excused: {excuse.rule}" for excuse in self.excuses)
        objects = _make_singular(self.objects) if total == 1 else self.objects
        return f"{judged} {objects} judged{rules}"

    @property
    def problem(self) -> str:
        """What is wrong with it, in a line."""
        return f"{self.name}: {self.detail or self.counts}"

    def to_json(self) -> dict[str, Any]:
        """The check as an object of `verdict.json`."""
        excused = [
            {"rule": each.rule, "count": each.count, "cases": list(each.cases)}
            for each in self.excuses
        ]
        return {
            "name": self.name,
            "outcome": self.outcome,
            "detail": self.detail,
            "objects": self.objects,
            "total": self.judged + self.excused,
            "judged": self.judged,
            "excused": excused,
        }

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> Check:
        """Read what `to_json` gave; on another machine, an earlier version may not have counted."""
        excused = row.get("excused", ())
        excuses = (Excuse(each["rule"], each["count"], tuple(each["cases"])) for each in excused)
        words = (row["name"], row["outcome"], row["detail"], row.get("objects", "objects"))
        return cls(*words, row.get("judged", 0), tuple(excuses))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst outcome of all checks, and the checks: failed ones first, then unknown ones.

    `remarks` are sentences about what a user may not have expected; they change no outcome. That of
    a prediction is PREDICTION, without checks.
    """

    outcome: Result | Literal["prediction"]
    checks: tuple[Check, ...]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, checks: Iterable[Check], remarks: tuple[str, ...] = ()) -> Verdict:
        """The verdict on these checks; `unknown` if none of them judged anything."""
        every = tuple(sorted(checks, key=lambda check: SEVERITY.index(check.outcome), reverse=True))
        worst = _worst(check.outcome for check in every)
        return cls("unknown" if worst == "none" else worst, every, remarks)

    @property
    def took(self) -> str:
        """Where the times of tasks come from, in a word."""
        return "predicted" if self.outcome == PREDICTION else "measured"

    @property
    def bad(self) -> tuple[Check, ...]:
        """The checks that failed or are unknown, failures first, and of these what was expected."""
        found = [check for check in self.checks if check.outcome in ("fail", "unknown")]
        return tuple(
            sorted(found, key=lambda c: (c.outcome != "fail", not c.name.startswith(EXPECTED)))
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each of the bad checks."""
        return tuple(check.problem for check in self.bad)

    @property
    def excuses(self) -> tuple[str, ...]:
        """A line for each check that excused objects, those that excused most of theirs first.

        Of more than SHOWN_EXCUSES checks, the last line counts the rest.
        """
        found = sorted(
            (check for check in self.checks if check.excuses),
            key=lambda check: check.excused / (check.judged + check.excused),
            reverse=True,
        )
        lines = [f"{check.name}: {check.counts}" for check in found]
        if len(lines) > SHOWN_EXCUSES:
            rest = len(lines) - SHOWN_EXCUSES + 1
            lines[-rest:] = [f"{rest} more checks excused some, which the report lists"]
        return tuple(lines)

    @property
    def counts(self) -> str:
        """How many checks passed, and how many objects they judged and excused, in words."""
        if self.outcome == PREDICTION:
            return "nothing is judged"
        passed = sum(check.outcome == "pass" for check in self.checks)
        empty = sum(check.outcome == "none" for check in self.checks)
        judged = sum(check.judged for check in self.checks)
        excused = sum(check.excused for check in self.checks)
        others = f" ({empty} not applicable)" if empty else ""
        of = f"{passed} of {len(self.checks) - empty} checks passed{others}"
        return f"{of}; {judged:,} objects judged, {excused:,} excused"

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Read what `to_json` gave."""
        checks = tuple(map(Check.of_json, data["checks"]))
        return cls(data["verdict"], checks, tuple(data.get("remarks", ())))

    def to_json(self) -> dict[str, Any]:
        """The content of `verdict.json`."""
        return {
            "verdict": self.outcome,
            "remarks": list(self.remarks),
            "checks": [check.to_json() for check in self.checks],
        }


def judged(objects: int = 1) -> Finding:
    """Count objects that were judged, with any finding."""
    return Finding("pass", objects=objects)


def excused(rule: str, text: str) -> Finding:
    """Count one object that was not judged; the text names the object and the cause."""
    return Finding("pass", text, 1, rule)


def note(text: str) -> Finding:
    """Say something about what was judged."""
    return Finding("pass", text)


def fail(text: str) -> Finding:
    """Make a `fail` finding: a promise was broken."""
    return Finding("fail", text)


def unfinished(history: History, text: str) -> Finding:
    """Something had not ended when the log did: a failure, unless the run broke off."""
    return doubt(text) if history.broke_off else fail(text)


def doubt(text: str) -> Finding:
    """Make an `unknown` finding: why the run proves nothing."""
    return Finding("unknown", text)


def format_time(t_ns: int) -> str:
    """A time of the run in words."""
    return f"{t_ns / 1e9:.3f} s"


def _explain_excuses(objects: str, excuses: tuple[Excuse, ...]) -> str:
    """Why a check could judge nothing, and what to do."""
    total = sum(excuse.count for excuse in excuses)
    rules = "; ".join(f"{excuse.count:,} excused: {excuse.rule}" for excuse in excuses)
    none = f"none of {total:,} {objects}" if total > 1 else f"the only {_make_singular(objects)}"
    judged = "was judged" if total > 1 else "was not judged"
    is_changed = {excuse.rule for excuse in excuses} == {CHANGED}
    remedy = "" if is_changed else "; let the run go on until some can be"
    return f"{none} {judged} ({rules}){remedy}"


def _make_singular(objects: str) -> str:
    """`branches` and `links of tasks` are `branch` and `link of tasks`."""
    noun, space, rest = objects.partition(" ")
    plural = "es" if noun.endswith(("ches", "sses")) else "s"
    return noun.removesuffix(plural) + space + rest


def _group_excuses(findings: Iterable[Finding]) -> Iterable[Excuse]:
    by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        if each.rule:
            by_rule[each.rule].append(each)
    for rule, group in by_rule.items():
        cases = tuple(each.text for each in group[:CASES])
        yield Excuse(rule, sum(each.objects for each in group), cases)


def _worst(outcomes: Iterable[Result]) -> Result:
    return max(outcomes, key=SEVERITY.index, default="none")
