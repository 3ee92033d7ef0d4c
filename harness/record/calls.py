"""The calls of `torch.distributed` in programs, from their events (pure)."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.harness.record.history import History

PAIRS = ("send", "recv")
TO_ALL = (
    "all_reduce",
    "all_reduce_coalesced",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced",
    "barrier",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
)
"""No member is done with these calls before all members have begun them."""
FROM_ROOT, TO_ROOT = ("broadcast", "scatter"), ("gather", "reduce")

Key = tuple[str, int, int]
"""A call's site, its process and its number there."""

Group = tuple[str, tuple[int, ...]]
"""A group's name and its ranks."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call at one site; `finished` is None if it never ended."""

    started: CallStarted
    finished: CallFinished | None

    @property
    def key(self) -> Key:
        """What tells it from other calls."""
        return self.started.site, self.started.process, self.started.call

    @property
    def duration_s(self) -> float | None:
        """From its start to its end, in seconds; None if it never ended."""
        return None if self.finished is None else (self.finished.t_ns - self.started.t_ns) / 1e9

    @property
    def outcome(self) -> str:
        """How it ended, in a word."""
        if self.finished is None:
            return "unfinished"
        return "failed" if self.finished.failed else "completed"


def list_calls(history: History) -> tuple[Call, ...]:
    """All calls in the order of their starts."""
    return history.remember(_list_calls)


def _list_calls(history: History) -> tuple[Call, ...]:
    ends = {(each.site, each.process, each.call): each for each in history.all(CallFinished)}
    return tuple(
        Call(each, ends.get((each.site, each.process, each.call)))
        for each in history.all(CallStarted)
    )


@dataclass(frozen=True, slots=True)
class Meeting:
    """When the last member whose data a call needs had begun it, and which process that was."""

    last_ns: int
    last_site: str
    last_process: int


def list_groups(history: History) -> Mapping[Group, Mapping[int, list[Call]]]:
    """The collective calls of each group, by rank."""
    groups: defaultdict[Group, defaultdict[int, list[Call]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for call in list_calls(history):
        if call.started.name not in PAIRS:
            group = call.started.group, call.started.ranks
            groups[group][call.started.rank].append(call)
    for members in groups.values():
        for calls in members.values():
            calls.sort(key=lambda call: (call.started.t_ns, call.started.call))
    return groups


def may_be_new(name: str, members: Mapping[int, list[Call]]) -> bool:
    """Whether a group may have been made several times, with the same name and ranks.

    A program that is started again makes its groups anew. torchft gives its groups no names, and
    makes a new one for each quorum.
    """
    return not name or any(len({c.key[:2] for c in calls}) > 1 for calls in members.values())


def list_same(members: Mapping[int, list[Call]], is_anew: bool) -> Iterator[dict[int, Call]]:
    """The calls of a group's members that are one call, by rank.

    They are the k-th of each rank. If the group may have been made several times (`is_anew`), they
    have one name and overlap in time.
    """
    if not is_anew:
        for number in range(max(map(len, members.values()))):
            yield {rank: calls[number] for rank, calls in members.items() if number < len(calls)}
        return
    left = {rank: deque(calls) for rank, calls in members.items()}
    while heads := {rank: calls[0] for rank, calls in left.items() if calls}:
        rank = min(heads, key=lambda each: heads[each].started.t_ns)
        first = left[rank].popleft()
        following_ns = left[rank][0].started.t_ns if left[rank] else math.inf
        end_ns = following_ns if first.finished is None else first.finished.t_ns
        same = {rank: first}
        for other, call in heads.items():
            is_one = call.started.name == first.started.name and call.started.t_ns <= end_ns
            if other != rank and is_one:
                same[other] = left[other].popleft()
        yield same


def list_needed(call: Call, rank: int) -> tuple[int, ...]:
    """The ranks without whose data this member cannot be done."""
    name, ranks, root = call.started.name, call.started.ranks, call.started.peer
    if name == "barrier" or (name in TO_ALL and call.started.bytes):
        return ranks
    if name in FROM_ROOT and root is not None and call.started.bytes:
        return (root,)
    if name in TO_ROOT and rank == root and call.started.bytes:
        return ranks
    return ()


def find_meetings(history: History) -> Mapping[Key, Meeting]:
    """For each collective call that needs others' data, which of them began last."""
    return history.remember(_find_meetings)


def _find_meetings(history: History) -> Mapping[Key, Meeting]:
    found: dict[Key, Meeting] = {}
    for (name, _), members in list_groups(history).items():
        for same in list_same(members, may_be_new(name, members)):
            for rank, call in same.items():
                others = [same[each] for each in list_needed(call, rank) if each in same]
                if others:
                    last = max(others, key=lambda other: other.started.t_ns).started
                    found[call.key] = Meeting(last.t_ns, last.site, last.process)
    return found
