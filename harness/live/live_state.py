"""What goes on in a run right now, in words, from its events (pure): the shell's `status`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trunkline.harness.config.units import RATE_MBPS, SHARE_PERCENT, TIME_MS, Dimension, render
from trunkline.harness.faults.fault_syntax import write
from trunkline.harness.faults.fault_types import Fault
from trunkline.harness.network.interface import Cut, Directed, LinkCounters
from trunkline.topologies.model import Link

MOST_RATES = 8
"""How many links `rates` names, the busiest ones."""

_VALUES: tuple[tuple[str, Dimension], ...] = (
    ("rate_mbps", RATE_MBPS),
    ("delay_ms", TIME_MS),
    ("jitter_ms", TIME_MS),
    ("loss_percent", SHARE_PERCENT),
)

Line = tuple[str, str]
"""What a line is about, and what it says."""


@dataclass(slots=True)
class _Task:
    group: tuple[str, ...]
    start_ns: int
    unfinished: set[str]


@dataclass(slots=True)
class Situation:
    """Tasks, sites and faults as the events so far tell them."""

    sites: tuple[str, ...]
    rounds: int = 0
    completed: int = 0
    abandoned: int = 0
    tasks: dict[int, _Task] = field(default_factory=dict)
    doing: dict[str, tuple[str, int]] = field(default_factory=dict)
    faults: dict[int, int] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in one event, as the agents log it."""
        site, t_ns = event["site"], event["t_ns"]
        match event["event"]:
            case "compute_started":
                self.doing[site] = ("computing", t_ns)
            case "compute_finished" | "round_finished":
                self.doing[site] = ("between two steps", t_ns)
                self.rounds += event["event"] == "round_finished"
            case "ready":
                self.doing[site] = ("waiting for a group", t_ns)
                self._in_no_task(site)
            case "worker_finished":
                self.doing[site] = ("finished", t_ns)
            case "sync_started":
                self.doing[site] = (f"in task {event['task']}", t_ns)
            case "sync_finished":
                self.doing[site] = ("between two tasks", t_ns)
            case "agent_exited":
                self.doing[event["who"]] = ("ended", t_ns)
            case "fault_started":
                self.faults[event["fault"]] = t_ns
            case "agent_changed":
                self._agent(event["who"], event["do"])
            case _:
                self._task(event)

    def _agent(self, who: str, do: str) -> None:
        self.stopped.pop(who, None)
        if do == "kill":
            self._in_no_task(who)
        if do in ("kill", "pause"):
            self.stopped[who] = {"kill": "dead", "pause": "paused"}[do]

    def _in_no_task(self, site: str) -> None:
        """Whatever it took part in, it does so no more."""
        for task in self.tasks.values():
            task.unfinished.discard(site)

    def _task(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "task_started":
                group = tuple(event["group"])
                self.tasks[event["task"]] = _Task(group, event["t_ns"], set(group))
                for site in group:
                    self.doing[site] = (f"in task {event['task']}", event["t_ns"])
            case "task_finished" | "task_dropped" if event["task"] in self.tasks:
                self.tasks[event["task"]].unfinished.discard(event["site"])
            case "task_completed":
                self.completed += self.tasks.pop(event["task"], None) is not None
            case "task_abandoned":
                self.abandoned += self.tasks.pop(event["task"], None) is not None

    def lines(
        self,
        now_ns: int,
        going: Iterable[tuple[int, Fault]],
        changed: Iterable[tuple[Link, Link, frozenset[Cut]]],
        rates_mbps: Mapping[Directed, float],
        of_s: float,
    ) -> list[Line]:
        """Everything, now: `going` and `changed` are the timeline's, the rates those of `of_s`."""
        abandoned = f", {self.abandoned} abandoned" if self.abandoned else ""
        found = [("done", f"{self.completed} tasks{abandoned}, {self.rounds} rounds")]
        found += self._tasks_lines(now_ns)
        found += self._sites_lines(now_ns)
        for number, fault in going:
            since = (now_ns - self.faults.get(number, now_ns)) / 1e9
            found.append((f"fault {number}", f"{write(fault)}, since {since:.1f} s"))
        found += [(who, how) for who, how in self.stopped.items()]
        found += [
            (f"{link.src} -> {link.dst}", ", ".join(_differences(given, link, cuts)))
            for given, link, cuts in changed
        ]
        return [*found, _rates(rates_mbps, of_s)]

    def _tasks_lines(self, now_ns: int) -> Iterator[Line]:
        for number, task in self.tasks.items():
            if missing := [site for site in task.group if site in task.unfinished]:
                lasts = f"for {(now_ns - task.start_ns) / 1e9:.1f} s"
                waits = f"waits for {' '.join(missing)}"
                yield f"task {number}", f"{' '.join(task.group)}, {lasts}; {waits}"

    def _sites_lines(self, now_ns: int) -> Iterator[Line]:
        together: defaultdict[str, list[str]] = defaultdict(list)
        for site in self.sites:
            what, since_ns = self.doing.get(site, ("not begun", now_ns))
            lasts = f" ({(now_ns - since_ns) / 1e9:.1f} s)" if what.startswith("waiting") else ""
            together[what].append(site + lasts)
        for what, sites in together.items():
            yield "sites", f"{what}: {', '.join(sites)}"


def rates_mbps(
    before: Mapping[Directed, LinkCounters], after: Mapping[Directed, LinkCounters], of_s: float
) -> dict[Directed, float]:
    """What every link carried between two readings of its counters, headers included."""
    if of_s <= 0:
        return {}
    return {
        ends: (counters.bytes - before[ends].bytes) * 8e-6 / of_s
        for ends, counters in after.items()
    }


def _rates(rates: Mapping[Directed, float], of_s: float) -> Line:
    busiest = sorted(rates, key=lambda ends: -rates[ends])[:MOST_RATES]
    carried = [f"{a} -> {b} {rates[a, b]:.1f}" for a, b in busiest if rates[a, b] >= 0.05]
    return "Mbit/s", f"{', '.join(carried) or 'nothing'} (over the last {of_s:.1f} s)"


def _differences(given: Link, link: Link, cuts: frozenset[Cut]) -> Iterator[str]:
    yield from sorted(cuts)
    for name, dimension in _VALUES:
        value, before = getattr(link, name), getattr(given, name)
        if value != before:
            key = name.rpartition("_")[0]
            yield f"{key} {render(value, dimension)} (as built {render(before, dimension)})"
