"""Why a message of the controller, or to it, came late (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.fault_search import CHANGES, CUTS
from trunkline.harness.report.explanations.links.link_loads import BUSY
from trunkline.harness.report.explanations.links.tcp_limits import REMEMBERED_S, SHORTEST_TIMER_S
from trunkline.harness.report.explanations.time_parts import (
    MISTAKEN,
    Part,
    compare_delays,
    limit_parts,
)

if TYPE_CHECKING:
    from trunkline.harness.report.explanations.task_time import Run

LEAST_S = 0.001
"""A message that is later by less is not late."""


def divide_contribution(run: Run, task: Task, step: PathStep) -> Iterator[Part]:
    """The controller's word to the site, and then what the site took."""
    controller, centre = run.centre_of(task)
    way = centre, step.site
    late = find_late_word(run, *way, step.start_ns)
    delay_s = run.topology.path_delay_ms(*way) / 1e3
    found = [
        *run.list_stops(step, (controller, step.site)),
        Part("propagation", delay_s, " -> ".join(way), text=" by the controller's message"),
        *([late] if late else []),
    ]
    left_s = step.duration_s
    for part in limit_parts(found, left_s):
        yield part
        left_s -= part.seconds
    if late is not None and late.seconds > SHORTEST_TIMER_S:  # TCP takes it for lost
        yield replace(late, seconds=left_s, text=late.text + MISTAKEN)
    elif (lost := _find_lost_word(run, way, step.start_ns, left_s)) is not None:
        yield lost
    elif left_s >= LEAST_S and (cut := _find_cut_word(run, way, step)) is not None:
        yield replace(cut, seconds=left_s)
    else:
        for part in limit_parts(_list_held_words(run, task, way, step), left_s):
            yield part
            left_s -= part.seconds
        yield Part("contribution", left_s, step.site)


def _list_held_words(run: Run, task: Task, way: Directed, step: PathStep) -> Iterator[Part]:
    """The bytes before the controller's message on a busy link of the way, by their causes."""
    span = step.start_ns, step.end_ns
    for hop in run.list_hops(way):
        if run.loads.use(hop, span) >= BUSY / 2:
            yield from run.list_slowdowns(hop, span)
            rate_mbps = run.topology.link(*hop).rate_mbps
            others = run.loads.count_tasks(hop, span)
            others.pop(task.number, None)
            for number, size in others.items():
                seconds = run.loads.carry_s(size, rate_mbps)
                yield Part("other tasks", seconds, " -> ".join(hop), None, size, str(number))


def _find_lost_word(run: Run, way: Directed, t_ns: int, left_s: float) -> Part | None:
    """A message that was probably lost then: TCP sends it again after a round trip or more."""
    lossy = [hop for hop in run.list_hops(way) if run.conditions.at(hop, t_ns).lost_percent]
    trip_s = sum(run.topology.path_delay_ms(*ends) for ends in (way, way[::-1])) / 1e3
    if not lossy or left_s < trip_s:
        return None
    percent = run.conditions.at(lossy[0], t_ns).lost_percent
    fault = run.faults.find({name := " -> ".join(lossy[0])}, CHANGES, t_ns, t_ns)
    return Part("loss", left_s, name, fault, text=f"loses {percent:g} %, and lost a message")


def _find_cut_word(run: Run, way: Directed, step: PathStep) -> Part | None:
    """The cut by which TCP was silent when the message was sent, or that stopped it on its way.

    Before TCP sends again, as long again as the cut may pass. A cut of the way back loses
    acknowledgements.
    """
    found = []
    for hop in (*run.list_hops(way), *run.list_hops(way[::-1])):
        since_ns = step.start_ns - round(REMEMBERED_S * 1e9)
        spells = run.conditions.within(hop, since_ns, step.end_ns)
        cuts = [(start, end) for spell, start, end in spells if spell.is_cut]
        found += [(end, hop, start) for start, end in cuts if 2 * end - start > step.start_ns]
    if not found:
        return None
    end_ns, hop, start_ns = max(found)
    fault = run.faults.find({name := " -> ".join(hop)}, CUTS, start_ns, start_ns)
    until = f" until {end_ns / 1e9:.3f} s, so the controller's message came later"
    return Part("outage", 0.0, name, fault, text=until)


def find_late_word(run: Run, src: str, dst: str, t_ns: int) -> Part | None:
    """By how much a message between sites was late then, because of a raised delay."""
    found = []
    for hop in run.list_hops((src, dst)):
        usual_ms, name = run.topology.link(*hop).delay_ms, " -> ".join(hop)
        spell = run.conditions.spell(hop, t_ns)
        if (late_ms := spell.link.delay_ms - usual_ms) > 0:
            fault = run.faults.find({name}, CHANGES, spell.start_ns, spell.start_ns)
            text = compare_delays(spell.link.delay_ms, usual_ms)
            found.append(Part("delay", late_ms / 1e3, name, fault, text=text))
    return max(found, key=lambda part: part.seconds, default=None)


def find_silence(run: Run, task: Task, site: str, span: Interval) -> Part | None:
    """Why a task's controller did not hear of a site: a cut on the way, or its stop."""
    controller, centre = run.centre_of(task)
    step = PathStep("contribution", *span, site)
    cuts = run.list_cuts(step, run.list_hops((site, centre)))
    found = [*cuts, *run.list_stops(step, (controller,))]
    return max(found, key=lambda part: part.seconds, default=None)
