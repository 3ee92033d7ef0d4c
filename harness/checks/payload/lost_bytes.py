"""Where bytes of a disturbed task can be lost: on broken links, or after their report (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise

from trunkline.agents.events.task_events import Received, Sent, TaskAbandoned, TaskCompleted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.losses import HEARD_TIMEOUTS, Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, fail
from trunkline.harness.record.history import Task
from trunkline.harness.record.link_history import Conditions

DRAINED = 0.5
"""A link without losses delivers what its queues have within this share of the timeout, which lasts
several round trips with full queues. What waits in its sender's sockets takes the link's rate."""


def judge_lost_bytes(
    task: Task, losses: Losses, rules: Rules, conditions: Conditions, silent: Collection[str]
) -> Iterator[Finding]:
    """What living neighbours exchanged over a link without a fault arrived, and they report it.

    A site does not count what arrives after it has forgotten the task. Of offers, it may forget
    the bytes that it forwarded. So these bytes are not judged.
    """
    phases = {event.phase for event in task.all(Sent, Received)}
    counted = {"in", "out"} if "early" in phases else {"in", "out", "relay", "aux"}
    outs: defaultdict[Directed, list[Sent]] = defaultdict(list)
    for out in task.all(Sent):
        if out.phase in counted:
            outs[out.site, out.dst].append(out)
    received = Counter[Directed]()
    reported_ns: dict[str, int] = {}
    for into in task.all(Received):
        if into.phase in counted:
            received[into.src, into.site] += into.bytes
        reported_ns[into.site] = min(into.t_ns, reported_ns.get(into.site, into.t_ns))
    for out in task.all(Sent):
        reported_ns[out.site] = min(out.t_ns, reported_ns.get(out.site, out.t_ns))
    told_ns = min((event.t_ns for event in task.all(TaskCompleted, TaskAbandoned)), default=None)
    for ends, found in sorted(outs.items()):
        until_ns = reported_ns.get(ends[1], told_ns)
        sent = sum(out.bytes for out in found)
        if until_ns is None or received[ends] >= sent or {*ends}.intersection(silent):
            continue
        start_ns, end_ns = min(o.start_ns for o in found), max(o.end_ns for o in found)
        least_ns = max(end_ns, start_ns + _carry_ns(ends, sent, rules))
        if until_ns < least_ns + _drain_ns(ends, losses, rules) or (
            ends[1] not in reported_ns and losses.without_controller(ends[1])
        ):
            continue
        if _was_disturbed(ends, start_ns - losses.timeout_ns, until_ns, losses, rules, conditions):
            continue
        text = f"{sent} bytes sent, {received[ends]} received, and the link had no fault"
        yield fail(f"{task} on {ends[0]} -> {ends[1]}: {text}")


def _carry_ns(ends: Directed, size: int, rules: Rules) -> int:
    """How long a link carries so many bytes, by its rate, in nanoseconds."""
    return round(size * 8e3 / rules.topology.overlay.link(*ends).rate_mbps)


def _drain_ns(ends: Directed, losses: Losses, rules: Rules) -> int:
    """How long queues deliver what they have, in nanoseconds.

    Where packets are lost, they may be sent again several times, as those of messages.
    """
    links = [rules.topology.overlay.link(*way) for way in (ends, ends[::-1])]
    is_lossy = any(link.slows_tcp for link in links)
    return round((HEARD_TIMEOUTS if is_lossy else DRAINED) * losses.timeout_ns)


def _was_disturbed(
    ends: Directed, start_ns: int, end_ns: int, losses: Losses, rules: Rules, conditions: Conditions
) -> bool:
    """Whether a connection broke then, one of its ends stopped, or a link had other values."""
    spans = (*losses.stopped(ends[0]), *losses.stopped(ends[1]))
    broken = losses.broken(frozenset([frozenset(ends)]))
    if losses.find((*spans, *broken), start_ns, end_ns + losses.detection_ns):
        return True
    topology = rules.topology
    for hop in (*pairwise(topology.path(*ends)), *pairwise(topology.path(ends[1], ends[0]))):
        spells = conditions.spells[hop]
        for number, spell in enumerate(spells):
            over_ns = spells[number + 1].start_ns if number + 1 < len(spells) else end_ns
            other = spell.is_cut or spell.link != topology.link(*hop)
            if other and spell.start_ns <= end_ns and start_ns <= over_ns:
                return True
    return False
