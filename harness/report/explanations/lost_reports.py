"""The bytes that killed members sent and received, by the reports of their peers (pure).

A site reports its bytes when it leaves a task. One that is killed before reports nothing, but those
that it got bytes from, or sent bytes to, do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trunkline.agents.events.task_events import Received, Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import is_dead


@dataclass(frozen=True, slots=True)
class Overlay:
    """The links between sites: their least delays in ms, and their rates in Mbit/s."""

    delays_ms: Mapping[Directed, float]
    rates_mbps: Mapping[Directed, float]

    def find_arrival_ns(self, sent: Sent) -> int:
        """When the last byte arrived at the earliest: a socket takes bytes before the link does."""
        ends = sent.site, sent.dst
        carried_ns = round(sent.bytes * 8e3 / self.rates_mbps[ends])
        return max(sent.end_ns, sent.start_ns + carried_ns) + self.delay_ns(ends)

    def delay_ns(self, ends: Directed) -> int:
        """The least delay of a link, in ns."""
        return round(self.delays_ms[ends] * 1e6)


def restore(history: History, overlay: Overlay) -> History:
    """The history with tasks that have the reports which their killed members lost."""
    killed_ns = {
        site: [start_ns for start_ns, _ in history.lives.spans(site, is_dead)]
        for site in history.lives.moments
    }
    if not any(killed_ns.values()):
        return history
    return replace(
        history, tasks=tuple(_restore_task(task, killed_ns, overlay) for task in history.tasks)
    )


def _restore_task(task: Task, killed_ns: Mapping[str, list[int]], overlay: Overlay) -> Task:
    sent, received = task.all(Sent), task.all(Received)
    names = {event.dst for event in sent} | {event.src for event in received}
    lost_ns: dict[str, int] = {}
    for site in sorted(names - {event.site for event in (*sent, *received)}):
        if later_ns := [t_ns for t_ns in killed_ns.get(site, ()) if t_ns > task.started.t_ns]:
            lost_ns[site] = min(later_ns)
    made: list[Sent | Received] = [
        *_make_received(sent, lost_ns, overlay),
        *_make_sent(received, lost_ns, overlay),
    ]
    return task.with_reports(made) if made else task


def _make_received(
    sent: tuple[Sent, ...], lost_ns: Mapping[str, int], overlay: Overlay
) -> Iterator[Received]:
    for each in sent:
        dst, start_ns = each.dst, each.start_ns + overlay.delay_ns((each.site, each.dst))
        if dst in lost_ns and start_ns < lost_ns[dst]:
            end_ns = min(overlay.find_arrival_ns(each), lost_ns[dst])
            what = each.phase, each.bytes, each.chunks
            yield Received(end_ns, dst, each.task, each.site, *what, start_ns, end_ns)


def _make_sent(
    received: tuple[Received, ...], lost_ns: Mapping[str, int], overlay: Overlay
) -> Iterator[Sent]:
    for each in received:
        delay_ns = overlay.delay_ns((each.src, each.site))
        if each.src in lost_ns:
            end_ns = max(each.start_ns, min(each.end_ns, lost_ns[each.src] + delay_ns)) - delay_ns
            what = each.phase, each.bytes, each.chunks
            yield Sent(
                end_ns, each.src, each.task, each.site, *what, each.start_ns - delay_ns, end_ns
            )
