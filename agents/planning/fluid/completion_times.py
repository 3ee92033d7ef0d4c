"""The completion times of tasks in the fluid model (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_links import FluidLinks, Paths
from trunkline.agents.planning.fluid.fluid_overlay import FluidOverlay
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask
from trunkline.agents.planning.plan import Directed, Plan


def estimate(
    plan: Plan,
    rates_mbps: Mapping[Directed, float],
    chunk_bytes: int,
    model_bytes: int,
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
    auxiliary: Bounds | None = None,
    tensor_bytes: tuple[int, ...] = (),
    paths: Paths | None = None,
    told_s: Mapping[str, float] | None = None,
) -> float:
    """The completion time in seconds of one task that has the overlay to itself.

    Args:
        plan: how the bytes of the task move.
        rates_mbps: the rate of each directed link.
        chunk_bytes: the size of a chunk.
        model_bytes: the size of the model.
        delays_ms: the one-way delay of each directed link, which every hop of every chunk takes.
            Without delays the result is the fluid time of the papers.
        discipline: the order in which a link serves its flows, a name in `DISCIPLINES`.
        auxiliary: the bounds of auxiliary paths; None for a task without such paths.
        tensor_bytes: the sizes of the model's tensors; empty for a model that is one array.
        paths: the links of each overlay link, whose rates `rates_mbps` then has; None if overlay
            links share nothing.
        told_s: after how many seconds a site hears of the task, so that it sends its contribution
            and passes sums on; 0 for sites that are not in it. A result is passed on at once.
    """
    told = {site: time_s for site, time_s in (told_s or {}).items() if time_s > 0}
    task = FluidTask(plan, model_bytes, chunk_bytes, tensor_bytes=tensor_bytes, told_s=told)
    return simulate([task], rates_mbps, delays_ms, discipline, auxiliary, paths)[0]


def simulate(
    tasks: Sequence[FluidTask],
    rates_mbps: Mapping[Directed, float],
    delays_ms: Mapping[Directed, float] | None = None,
    discipline: str = "fcfs",
    auxiliary: Bounds | None = None,
    paths: Paths | None = None,
) -> list[float]:
    """The times in seconds at which the last receiver of each task has its last chunk.

    The tasks share the links. Other arguments are as in `estimate`.
    """
    agenda = Agenda()
    links = FluidLinks(agenda, rates_mbps, delays_ms or {}, discipline, auxiliary, paths)
    overlay = FluidOverlay(links)
    finish_s = [task.start_s for task in tasks]

    def finished(number: int, _: str) -> None:
        finish_s[number] = agenda.now_s

    # The overlay numbers tasks as they start, and `task-fcfs` goes by that number.
    for number in sorted(range(len(tasks)), key=lambda number: tasks[number].start_s):
        agenda.run(tasks[number].start_s)
        told_s = tasks[number].told_s
        task = overlay.start(tasks[number], partial(finished, number), unready=told_s)
        for site, time_s in told_s.items():
            agenda.call_at(agenda.now_s + time_s, partial(overlay.join, task, site))
    agenda.run()
    return finish_s
