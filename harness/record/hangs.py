"""Collective calls that some members never began, in which the others waited in vain (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trunkline.agents.events.call_events import TimingStopped
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.calls import (
    Call,
    Group,
    list_calls,
    list_groups,
    list_needed,
    list_same,
    may_be_new,
)
from trunkline.harness.record.history import History
from trunkline.workloads.program_roles import find_owner, site_of

SHOWN = 3
"""The most calls that are named, and the most programs of each."""

Member = tuple[str, int | None]
"""A program and the id of its process, None if that is not known. Of a member of which only the
rank is known, the program is `rank 3`."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A call that some members of a group began, and others, whose data they needed, never.

    Attributes:
        group: the group.
        calls: those of the members that waited, in the order of their starts.
        waiting: these members, in the same order.
        missing: the members that never began it, by rank.
        end_ns: when the last one gave up, or was ended.
        is_long: whether it took longer than each call of the group that was completed.
    """

    group: Group
    calls: tuple[Call, ...]
    waiting: tuple[Member, ...]
    missing: tuple[Member, ...]
    end_ns: int
    is_long: bool

    @property
    def start_ns(self) -> int:
        """When the first member began it."""
        return self.calls[0].started.t_ns

    def name(self, members: Sequence[Member]) -> list[str]:
        """The names of these members, with the id of a process where one does not tell them."""
        often = Counter(program for program, _ in (*self.waiting, *self.missing))
        return [
            program if often[program] == 1 or process is None else f"{program} (process {process})"
            for program, process in members
        ]

    @property
    def missing_names(self) -> str:
        """The names of the members that never began it."""
        return _join(self.name(self.missing))

    def describe(self, end_ns: int) -> str:
        """A sentence; the log ends at `end_ns`."""
        first = self.calls[0].started
        until = "on" if self.end_ns >= end_ns else f"to {self.end_ns / 1e9:.1f} s"
        return (
            f"{self.missing_names} never began {first.name} number {first.call}, in which "
            f"{_join(self.name(self.waiting))} waited from {first.t_ns / 1e9:.1f} s {until}."
        )

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        first = self.calls[0].started
        return {
            "call": first.name,
            "number": first.call,
            "missing": self.name(self.missing),
            "waiting": self.name(self.waiting),
            "start_s": first.t_ns / 1e9,
            "end_s": self.end_ns / 1e9,
        }


def find_hangs(history: History, programs: Iterable[str]) -> list[Hang]:
    """The calls of each group that members never began; none if the timing of a process stopped."""
    if history.all(TimingStopped):
        return []
    if all(call.outcome == "completed" for call in list_calls(history)):
        return []
    finder = _Finder(history, tuple(programs))
    groups = list_groups(history).items()
    return [hang for group, members in groups for hang in finder.find(group, members)]


def list_long_hangs(history: History, programs: Iterable[str]) -> list[Hang]:
    """The calls that hung for longer than others took: for the same members the longest one."""
    found: dict[tuple[Group, tuple[Member, ...]], Hang] = {}
    for hang in find_hangs(history, programs):
        before = found.get((hang.group, hang.missing))
        is_longer = before is None or _length_ns(hang) > _length_ns(before)
        if hang.is_long and is_longer:
            found[hang.group, hang.missing] = hang
    return sorted(found.values(), key=lambda hang: hang.start_ns)


def describe_hangs(history: History, programs: Iterable[str]) -> Iterator[str]:
    """A sentence on each call that hung; none if none did."""
    hangs = list_long_hangs(history, programs)
    for hang in hangs[:SHOWN]:
        yield hang.describe(history.end_ns)
    if len(hangs) > SHOWN:
        yield f"{count_of(len(hangs) - SHOWN, 'other call')} hung as well."


@dataclass(frozen=True)
class _Finder:
    history: History
    programs: Sequence[str]

    def find(self, group: Group, members: Mapping[int, list[Call]]) -> Iterator[Hang]:
        """The calls of one group that some of its members never began."""
        done = [call for calls in members.values() for call in calls if call.outcome == "completed"]
        longest_s = max((call.duration_s or 0.0 for call in done), default=0.0)
        needed = {rank for call in done for rank in list_needed(call, call.started.rank)}
        untimed = needed - members.keys()
        for same in list_same(members, may_be_new(group[0], members)):
            waits = [
                (call, missing)
                for rank, call in same.items()
                if call.outcome != "completed"
                and (missing := {*list_needed(call, rank)} - same.keys() - untimed)
            ]
            if not waits:
                continue
            waits.sort(key=lambda wait: wait[0].started.t_ns)
            calls = tuple(call for call, _ in waits)
            end_ns = max(self._find_end(call) for call in calls)
            yield Hang(
                group,
                calls,
                tuple(self._find_member(call) for call in calls),
                tuple(self._find_missing(rank, members, end_ns) for rank in sorted(waits[0][1])),
                end_ns,
                (end_ns - calls[0].started.t_ns) / 1e9 > longest_s,
            )

    def _find_end(self, call: Call) -> int:
        """When a call ended; else when its program did."""
        if call.finished is not None:
            return call.finished.t_ns
        program, _ = self._find_member(call)
        runs = self.history.programs.runs(program)
        began_ns = call.started.t_ns
        return next((end for start, end in runs if start <= began_ns <= end), self.history.end_ns)

    def _find_member(self, call: Call) -> Member:
        site, process = call.started.site, call.started.process
        own = [name for name in self.programs if site_of(name) == site]
        return find_owner(own or [site], process), process

    def _find_missing(self, rank: int, members: Mapping[int, list[Call]], end_ns: int) -> Member:
        """Who has a rank: the process that called last as such; else the rank's program.

        Programs of a role have the ranks of their order, unless a member of the group has another.
        """
        if calls := [call for call in members.get(rank, ()) if call.started.t_ns <= end_ns]:
            return self._find_member(calls[-1])
        known = {each: self._find_member(calls[0])[0] for each, calls in members.items()}
        role = next(iter(known.values())).partition(".")[2]
        ordered = [name for name in self.programs if name.partition(".")[2] == role]
        right = all(each < len(ordered) and ordered[each] == who for each, who in known.items())
        return (ordered[rank] if right and rank < len(ordered) else f"rank {rank}"), None


def _length_ns(hang: Hang) -> int:
    return hang.end_ns - hang.start_ns


def _join(names: Iterable[str]) -> str:
    """A few names in words; others are counted."""
    every = list(dict.fromkeys(names))
    if len(every) > SHOWN + 1:
        every[SHOWN:] = [f"{len(every) - SHOWN} others"]
    return join_words(every)
