"""Why a task was held up before a fault, and the bytes that its repair sent again (pure)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from trunkline.agents.events.task_events import Received, Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.payload.byte_checks import count_received
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.critical_path import (
    PathStep,
    find_path_to,
    list_block_feeds,
)
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import (
    PLANNED,
    Part,
    cut_part,
    limit_parts,
    merge_parts,
)

Steps = tuple[PathStep, ...]

OF_TCP = ("cold start", "queueing", "unexplained")
"""The rest of the time of a transfer: it cannot be before its first bytes."""

OF_OTHERS = ("other tasks", "background traffic")
"""What held up those for whose bytes a sender waited, beside faults."""

SHORTEST_WAIT_S = 0.05
"""A sender that waited for others for less began at once."""


def find_held_up(run: Run, task: Task, span: Interval) -> PathStep | None:
    """The transfer at whose sender most of the task's bytes waited at the end of a span of time.

    The span begins with the task. By the task's first plan, a sender has of a block what the links
    before it have carried. None if nothing waited.
    """
    planned = Counter[Directed]()
    flows: defaultdict[Directed, list[tuple[int, Collection[Directed]]]] = defaultdict(list)
    for block in task.plan.blocks:
        size = task.cut.size_of(block.chunks)
        for (ends, _), before in list_block_feeds(block):
            planned[ends] += size
            flows[ends].append((size, {link for link, _ in before}))
    hops = {ends: [*pairwise(run.topology.path(*ends))] for ends in planned}
    arrived = count_received(task)  # what was handed to a cut link never did
    carried = {
        ends: min(
            arrived[ends],
            *(run.loads.count(hop, span, lambda number: number == task.number) for hop in way),
        )
        for ends, way in hops.items()
    }

    waiting = {
        ends: sum(
            size * min((carried[link] / planned[link] for link in before), default=1.0)
            for size, before in flows[ends]
        )
        - carried[ends]
        for ends in sorted(planned)
    }

    def measure_waiting_s(ends: Directed) -> tuple[float, float]:
        """The time of the waiting bytes at the rate of that time, and at the scenario's."""
        now, usual = (
            min(find(hop) for hop in hops[ends])
            for find in (find_rate_mbps, lambda hop: run.topology.link(*hop).rate_mbps)
        )
        usual_s = run.loads.carry_s(waiting[ends], usual)
        if usual_s <= 0:
            return usual_s, usual_s
        return run.loads.carry_s(waiting[ends], now) if now else math.inf, usual_s

    def find_rate_mbps(hop: Directed) -> float:
        spell = run.conditions.spell(hop, span[1] - 1)
        return 0.0 if spell.is_cut else spell.link.rate_mbps

    held = max(waiting, key=measure_waiting_s, default=None)
    if held is None or waiting[held] <= 0:
        return None
    last_ns = [e.end_ns for e in task.all(Sent) if (e.site, e.dst) == held and e.end_ns <= span[1]]
    left = [(max(last_ns, default=span[0]), span[1])]
    most = min(run.conditions.capacity_bytes(hop, left) for hop in hops[held])
    begun = round(min(waiting[held], task.started.chunk_bytes, most))
    size = round(carried[held]) + begun
    return PathStep("transfer", *span, held[1], held[0], size, begun)


def divide_before(
    run: Run, task: Task, span: Interval, fault: int | None
) -> tuple[Steps, tuple[Part, ...]]:
    """The steps that held a task up until a fault, and their parts; none if nothing did.

    TCP took nothing before the sender's first bytes. If it sent none for a while, that was a wait
    for others: what faults and other bytes took of it is theirs, and the rest is the task's own.
    """
    if span[0] >= span[1] or (held := find_held_up(run, task, span)) is None:
        return (), ()
    ends = held.src, held.site
    begins_ns = [e.start_ns for e in task.all(Sent) if (e.site, e.dst) == ends]
    first_ns = max(span[0], min([*begins_ns, span[1]])) if begins_ns else span[0]
    parts = tuple(run.divide(task, held))
    of_tcp = [part for part in parts if part.cause in OF_TCP and part.fault is None]
    of_tcp += [part for part in parts if part.cause in OF_TCP and part.fault is not None]
    others = [part for part in parts if part.cause not in OF_TCP]
    left_s = max(0.0, (span[1] - first_ns) / 1e9 - sum(part.seconds for part in others))
    waited_s = sum(part.seconds for part in of_tcp) - left_s
    if waited_s < SHORTEST_WAIT_S:
        return (held,), parts
    way = list(_list_arrivals(run, task, first_ns)), run.delays_ms, run.was_busy
    steps = find_path_to(task, ends, (span[0], first_ns), *way)
    before = [part for step in steps for part in run.divide(task, step)]
    before = [part for part in before if part.fault is not None or part.cause in OF_OTHERS]
    before.sort(key=lambda part: part.fault is None)
    charged = list(limit_parts(before, waited_s))
    own_s = waited_s - sum(part.seconds for part in charged)
    own = Part("before the fault", own_s, held.src, text=f"fault {fault}")
    begin_ns = steps[-1].end_ns if steps else held.start_ns
    return (
        (*steps, replace(held, start_ns=begin_ns)),
        merge_parts([*limit_parts(of_tcp, left_s), *others, *charged, own]),
    )


def _list_arrivals(run: Run, task: Task, until_ns: int) -> Iterator[Received]:
    """The bytes of a task that arrived until a time, without those that a repair sent again."""
    ends_ns: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for piece in run.pieces:
        if piece.task == task.number and piece.start_ns < until_ns:
            flow = piece.src, piece.dst, piece.phase
            delay_ns = round(run.delays_ms.get(flow[:2], 0.0) * 1e6)
            ends_ns[flow] = max(ends_ns[flow], min(piece.end_ns, until_ns) + delay_ns)
    for event in task.all(Received):
        if event.start_ns < until_ns:
            end_ns = ends_ns.get((event.src, event.site, event.phase), event.end_ns)
            yield replace(event, end_ns=max(event.start_ns, min(event.end_ns, end_ns)))


def divide_repaired(
    run: Run, task: Task, steps: Steps, expected_s: float
) -> tuple[Steps, tuple[Part, ...]]:
    """The path and the parts of a repaired task, whose path begins with the repair.

    What held the task up before the fault behind the repair is a step of its own. Of what its bytes
    took in all, the repair took what is beyond the expected time.
    """
    repair = steps[0]
    _, fault = run.find_repair(task, repair.end_ns)
    span = repair.start_ns, run.faults.find_begin_ns(fault, (repair.start_ns, repair.end_ns))
    before, begun = divide_before(run, task, span, fault)
    if before:
        steps = (replace(repair, start_ns=span[1]), *steps[1:])
    after = merge_parts(part for step in steps for part in run.divide(task, step))
    charged = _charge_longer_plan(begun, after, fault, expected_s)
    steps = (*before, *steps)
    return steps, merge_parts(charged)


def _charge_longer_plan(
    begun: Collection[Part], after: Collection[Part], fault: int | None, expected_s: float
) -> list[Part]:
    """Charge what a repaired task took beyond what was expected to the repair.

    That is what its own bytes took longer after it, and then what they had taken before the fault,
    in all no more than the time after the fault.
    """
    found = [*begun, *after]
    longest = next((part for part in after if part.cause == "rate"), None)
    planned_s = sum(part.seconds for part in after if part.cause in PLANNED)
    if longest is None or not planned_s:
        return found
    if (excess_s := min(planned_s - expected_s, longest.seconds)) > 0:
        found.remove(longest)
        found += cut_part(longest, excess_s, "longer plan", fault, "after the repair")
        planned_s -= excess_s
    before = [part for part in begun if part.cause in PLANNED]
    whole = [part for part in after if part.cause == "before the fault"]
    planned_s += sum(part.seconds for part in (*before, *whole))
    room_s = sum(part.seconds for part in after if part not in whole)
    room_s -= sum(part.seconds for part in found if part.fault == fault)
    for part in (*before, *whole):
        if (again_s := min(planned_s - expected_s, part.seconds, room_s)) > 0:
            found.remove(part)
            found += cut_part(part, again_s, "begun anew", fault, f"fault {fault}")
            planned_s -= again_s
            room_s -= again_s
    return found
