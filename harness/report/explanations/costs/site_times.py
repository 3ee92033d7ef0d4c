"""Where the time of sites went, and the needs of tasks (pure)."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import pandas as pd

from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow, leave_rates, list_flows
from trunkline.harness.checks.payload.byte_checks import count_in_trees
from trunkline.harness.config.units import count_of
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History, Task
from trunkline.harness.report.explanations.costs.hop_needs import count_on_hops, need_s
from trunkline.harness.report.explanations.waits import find_waits
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

NEARLY = 0.95
"""A link limits a plan, too, if it needs this share of the time of the busiest one."""

SLOWER, FASTER = 1.2, 0.95
"""A site computes longer, or less long, than others if it takes this many times as long."""

SAME = 0.999
"""It needs as long as the busiest one, up to rounding, if it needs this share."""

MOSTLY = 0.5
"""A site is named if others waited for it for this share of their waits, or longer."""

MUCH_LONGER, WAITED = 1.5, 0.1
"""A site is much slower if it computed for so many times the median of the others. It is named if
sites waited for this share of their time."""

ROUNDED = 6
"""Sums of times that are equal to so many digits after the point are equal."""

TIMES = ("compute_s", "wait_s", "sync_s")
"""The columns of the table of workers that have the time of a site."""


@dataclass(frozen=True, slots=True)
class SiteTimes:
    """The mean time of so many `sites`, in seconds: in tasks, computing, and waiting for a group.

    They are the sites that did rounds, so many on average: a server does none of this.
    """

    compute_s: float
    wait_s: float
    sync_s: float
    sites: int
    slowest: Slowest | None = None
    rounds: float = 0.0

    @classmethod
    def of(cls, workers: pd.DataFrame) -> SiteTimes | None:
        """The means of a table of workers; None if sites did nothing."""
        at_work = workers[workers["site"].isin(list_at_work(workers))]
        if at_work.empty:
            return None
        compute_s, wait_s, sync_s = (float(at_work[name].mean()) for name in TIMES)
        rounds = float(at_work["rounds"].mean())
        return cls(compute_s, wait_s, sync_s, len(at_work), Slowest.of(at_work), rounds)

    @property
    def shares(self) -> dict[str, float]:
        """The shares of this time, which add up to 1."""
        whole_s = self.compute_s + self.wait_s + self.sync_s
        parts_s = {"computing": self.compute_s, "waiting": self.wait_s, "in_tasks": self.sync_s}
        return {what: seconds / whole_s for what, seconds in parts_s.items()}

    def describe(self, straggler: Straggler | None = None, without: SiteTimes | None = None) -> str:
        """Sentences that say whether the network or computing took more time, and why.

        They name the site for which others waited, and the times `without` faults, if those were
        measured.
        """
        share = {what: f"{100 * each:.0f} %" for what, each in self.shares.items()}
        first, second = "the network", "computing"
        if is_computing := self.sync_s < self.compute_s:
            first, second = second, first
        if without is not None and is_computing != (without.sync_s < without.compute_s):
            first = f"because of faults, {first}"
        lost = "" if without is None else without.describe_without()
        who = f"each of {self.sites} sites" if self.sites > 1 else "the only site that did rounds"
        waits_for = "" if straggler is None else straggler.describe()
        computes = "" if straggler is None else straggler.describe_computing()
        if straggler is None and self.slowest is not None and self.shares["waiting"] >= WAITED:
            waits_for = self.slowest.describe()
        return (
            f"{first[0].upper()}{first[1:]} took more time than {second}: on average, {who} was in "
            f"tasks for {self.sync_s:.3f} s ({share['in_tasks']}), computed for "
            f"{self.compute_s:.3f} s ({share['computing']}), and waited for a group for "
            f"{self.wait_s:.3f} s ({share['waiting']}{waits_for}).{computes}{lost}"
        )

    def describe_without(self) -> str:
        """A sentence on these times, of the run without faults, to follow those with them."""
        return (
            f" Without faults, a site was in tasks for {self.sync_s:.3f} s, computed for "
            f"{self.compute_s:.3f} s, and waited for {self.wait_s:.3f} s (measured)."
        )


@dataclass(frozen=True, slots=True)
class Slowest:
    """The site that computed much longer than others and hardly waited: others may wait for it."""

    site: str
    compute_s: float
    wait_s: float

    @classmethod
    def of(cls, workers: pd.DataFrame) -> Slowest | None:
        """The slowest site of a table of those that did rounds; None if it does not stand out."""
        row = workers.sort_values("compute_s").iloc[-1]
        others = workers[workers["site"] != row["site"]]
        is_slow = row["compute_s"] > MUCH_LONGER * others["compute_s"].median()
        if others.empty or not is_slow or row["wait_s"] > MOSTLY * others["wait_s"].mean():
            return None
        return cls(str(row["site"]), float(row["compute_s"]), float(row["wait_s"]))

    def describe(self) -> str:
        """The site, as the end of what is said on waits."""
        return f", but {self.site} only {self.wait_s:.3f} s: it computed for {self.compute_s:.3f} s"


@dataclass(frozen=True, slots=True)
class Straggler:
    """The site for which the others waited most of their time.

    Attributes:
        tasks: the tasks of which two members or more were ready before, and `last` in how many of
            them it was the last.
        often, often_last: the site that was the last most often, and in how many of these tasks.
        round_s: how long it computes in a round on average, and `usual_s` the median other site;
            NaN if that is not known.
    """

    site: str
    last: int
    tasks: int
    often: str
    often_last: int
    round_s: float = math.nan
    usual_s: float = math.nan

    @classmethod
    def of(cls, history: History, waited_s: float = 0.0) -> Straggler | None:
        """The straggler of a run; None if they waited for no one for half of the time.

        In all, sites waited for a group for `waited_s`, also for other reasons.
        """
        waits = [w for w in find_waits(history).values() if len(w.waited_s) > 1 and w.push is None]
        by_site_s: defaultdict[str, float] = defaultdict(float)
        for wait in waits:
            by_site_s[wait.last] += sum(wait.waited_s.values())
        site = max(sorted(by_site_s), key=lambda site: by_site_s[site], default=None)
        whole_s = waited_s or sum(by_site_s.values())
        if site is None or not 0 < whole_s <= by_site_s[site] / MOSTLY:
            return None
        last = Counter(wait.last for wait in waits)
        often = min(last, key=lambda each: (-last[each], each != site, each))
        return cls(site, last[site], len(waits), often, last[often])

    def describe(self) -> str:
        """The site, as the end of what is said on waits."""
        last = f"the last to be ready in {self.last} of {count_of(self.tasks, 'task')}"
        often = f"; {self.often} was the last in {self.often_last}" * (self.often != self.site)
        return f", mostly for {self.site}, {last}{often}"

    def describe_computing(self) -> str:
        """A sentence on whether it computes longer than others; empty if that is not known."""
        if math.isnan(self.round_s) or math.isnan(self.usual_s):
            return ""
        if self.round_s < SLOWER * self.usual_s:
            return f" {self.site} does not compute longer than the others."
        return (
            f" In a round, {self.site} computes for {self.round_s:.3f} s on average, "
            f"the median other site for {self.usual_s:.3f} s."
        )


def list_at_work(workers: pd.DataFrame) -> list[str]:
    """The sites that computed, waited for a group or were in tasks."""
    return [*workers[workers[[*TIMES]].sum(axis="columns") > 0]["site"]]


def compare_computing_s(workers: pd.DataFrame, site: str) -> tuple[float, float]:
    """How long a site, and the median other one, computes in a round; NaN if one did none."""
    at_work = workers[workers["site"].isin(list_at_work(workers)) & (workers["rounds"] > 0)]
    per_round = (at_work["compute_s"] / at_work["rounds"]).set_axis(at_work["site"])
    own_s = float(per_round.get(site, math.nan))
    return own_s, float(per_round.drop(site, errors="ignore").median())


LEAST_EVEN, MOST_EVEN = 3, 1.5
"""So many links, or more, are alike if none limits more plans than so many times their median."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A link that needs most time in plans.

    Attributes:
        rate_mbps: its rate in the scenario.
        plans: in how many plans it needs most time, or nearly, and `mean_s`: how long it needs in
            them on average.
        alike: the other links that need about as much time in most of these plans.
        is_most: whether no other link needs more time in any of them.
        has_background: whether background traffic leaves it less than its rate.
    """

    link: Directed
    rate_mbps: float
    plans: int
    mean_s: float
    alike: frozenset[Directed]
    is_most: bool = True
    has_background: bool = False

    @classmethod
    def of(cls, link: Directed, limiting: Iterable[_Busiest], rate_mbps: float) -> Limit:
        """The limit by a link, from the busiest links of all plans."""
        own = [busiest for busiest in limiting if link in busiest.links]
        others = Counter(hop for busiest in own for hop in busiest.links if hop != link)
        alike = frozenset(hop for hop, count in others.items() if 2 * count > len(own))
        mean_s = sum(busiest.links[link] for busiest in own) / len(own)
        is_most = all(busiest.links[link] >= SAME * busiest.seconds for busiest in own)
        has_background = any(link in busiest.background for busiest in own)
        return cls(link, rate_mbps, len(own), mean_s, alike, is_most, has_background)

    def describe(self, in_full: bool) -> str:
        """The link needs so much time; `in_full` also says that this is for its bytes."""
        others = f" and {count_of(len(self.alike), 'other link')}" if self.alike else ""
        need, own = ("need", "their") if self.alike else ("needs", "its")
        most = f"{need} most time for {own} bytes" if in_full else f"{need} most"
        nearly = "" if self.is_most else ", or nearly"
        less = ", less background traffic" * self.has_background
        where = f"{' -> '.join(self.link)} ({self.rate_mbps:.4g} Mbit/s{less})"
        return f"{where}{others} {most}{nearly}, {self.mean_s:.3f} s on average"


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of the plans of tasks.

    Attributes:
        duration_s, bytes_s, propagation_s: how long a completed task took, and what its bytes
            with their headers at the links' rates and propagation need by its plan, on average.
        plans: how many tasks have ended.
        limit: the link that decides most seconds of all plans; None if they put no bytes on links.
        second: the next one, if it needs most time in as many plans or more.
        even: how many links need most time in about as many plans each, alone and for as long, and
            none in half of the plans or more; 0 if some stand out.
        warm_up: whether some of the tasks are of the warm-up.
    """

    duration_s: float
    bytes_s: float
    propagation_s: float
    plans: int
    limit: Limit | None = None
    second: Limit | None = None
    even: int = 0
    warm_up: bool = False

    @classmethod
    def of(cls, data: RunData) -> Needs | None:
        """The needs of the tasks of a run that have ended; None if none was completed."""
        table = data.tables["tasks"]
        done = table[table["outcome"] == "completed"]
        means = done[["duration_s", "estimate_s", "latency_s"]].dropna().mean()
        if means.isna().any():
            return None
        ended = [task for task in data.history.tasks if task.end_ns is not None]
        took_s, bytes_s, propagation_s = (float(mean) for mean in means)
        share = payload_share(data.scenario.network.mtu)
        found = cls(took_s, bytes_s / share, propagation_s, len(ended))
        limiting = [*_list_limiting(data.scenario, ended, share)]
        first, second = _find_limits(data.scenario, limiting)
        even, cold = _count_even(limiting), bool(done["warm_up"].any())
        return replace(found, limit=first, second=second, even=even, warm_up=cold)

    def describe(self) -> str:
        """Sentences on what a task needs, and on the link that limits most."""
        decide = ", so delays decide more than rates" if self.propagation_s > self.bytes_s else ""
        of_all = " of all tasks, the warm-up included" if self.warm_up else ""
        text = (
            f"A completed task took {self.duration_s:.3f} s on average{of_all}; at the links' "
            f"rates its bytes, with headers, need {self.bytes_s:.3f} s, and propagation takes "
            f"{self.propagation_s:.3f} s{decide}."
        )
        if self.limit is None:
            return text
        if self.even:
            return (
                f"{text} No link limits tasks more than others: in each of the {self.plans} plans, "
                f"one of {self.even} links needs most time for its bytes, {self.limit.mean_s:.3f} "
                "s on average."
            )
        first, *others = self._limits
        which = f"In {first.plans} of {self.plans} plans"
        if first.plans == self.plans:
            which = "In all plans"
        text = f"{text} {which}, {first.describe(in_full=True)}"
        return (
            "; ".join([text, *(f"in {o.plans}, {o.describe(in_full=False)}" for o in others)]) + "."
        )

    @property
    def _limits(self) -> list[Limit]:
        return [limit for limit in (self.limit, self.second) if limit is not None]


@dataclass(frozen=True, slots=True)
class _Busiest:
    """The links that need most time in a plan, or nearly so, and how long each of them does.

    `background` are those with background traffic.
    """

    links: Mapping[Directed, float]
    background: frozenset[Directed] = frozenset()

    @property
    def seconds(self) -> float:
        """How long the first one needs; 0 without any."""
        return max(self.links.values(), default=0.0)


def _find_limits(
    scenario: Scenario, limiting: Sequence[_Busiest]
) -> tuple[Limit, Limit | None] | tuple[None, None]:
    """The link that decides most seconds of all plans, and the next one if it is in as many.

    Links that are alike in a plan share its seconds. The next one is none of those that are alike.
    """
    decided_s: defaultdict[Directed, float] = defaultdict(float)
    for busiest in limiting:
        for hop, seconds in busiest.links.items():
            decided_s[hop] += seconds / len(busiest.links)
    ranked = sorted(decided_s, key=lambda hop: (-round(decided_s[hop], ROUNDED), hop))
    limits = (Limit.of(hop, limiting, scenario.topology.link(*hop).rate_mbps) for hop in ranked)
    first = next(limits, None)
    if first is None:
        return None, None
    second = next((each for each in limits if each.link not in first.alike), None)
    return first, second if second and second.plans >= first.plans else None


def _count_even(limiting: Sequence[_Busiest]) -> int:
    """How many links need most time in about as many plans, alone; 0 if some stand out."""
    plans = Counter(hop for busiest in limiting for hop in busiest.links)
    seconds = [busiest.seconds for busiest in limiting if busiest.links]
    if len(plans) < LEAST_EVEN or any(len(busiest.links) > 1 for busiest in limiting):
        return 0
    is_even = max(plans.values()) <= MOST_EVEN * median(plans.values())
    is_even = is_even and 2 * max(plans.values()) < len(limiting)
    return len(plans) if is_even and min(seconds) >= NEARLY * max(seconds) else 0


def _list_limiting(scenario: Scenario, tasks: Iterable[Task], share: float) -> Iterator[_Busiest]:
    """The links that need most time, or nearly so, in the plan of each task.

    Headers leave payload a share of the rates.
    """
    topology, flows = scenario.topology, list_flows(scenario.background)
    rates_mbps = topology.rates_mbps()
    known: dict[Hashable, _Busiest] = {}

    @functools.cache
    def leave_mbps(active: tuple[Flow, ...]) -> dict[Directed, float]:
        return leave_rates(rates_mbps, topology, active)

    def find(task: Task, active: tuple[Flow, ...]) -> _Busiest:
        left_mbps = leave_mbps(active)
        planned = count_on_hops(topology, count_in_trees(task))
        times = {hop: need_s(size, share * left_mbps[hop]) for hop, size in planned.items()}
        most = max(times.values(), default=0.0)
        links = {hop: t for hop, t in times.items() if most and t >= NEARLY * most}
        less = frozenset(hop for hop in links if left_mbps[hop] < rates_mbps[hop])
        return _Busiest(links, less)

    for task in tasks:
        started = task.started
        active = tuple(flow for flow in flows if flow.is_active(started.t_ns / 1e9))
        sizes = started.bytes, started.chunk_bytes, started.tensor_bytes
        key = json.dumps(started.forest), sizes, active
        if key not in known:
            known[key] = find(task, active)
        yield known[key]
