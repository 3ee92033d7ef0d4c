"""The activity of every site over time, as the bars of a Gantt chart (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.agents.events.task_events import Received, Sent
from trunkline.harness.record.branches import list_computed, list_waits
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import Interval, is_alone
from trunkline.harness.record.transfers import union
from trunkline.workloads.program_roles import site_of

Bar = tuple[float, float, float, float]
"""(start_s, end_s, y, height); rows are 1 high, and y grows downwards."""

KINDS = (
    "the program runs",
    "compute",
    "wait for a group",
    "in a task",
    "scatter and reduce",
    "multicast",
    "help with other tasks",
    "compute a branch",
    "wait for a branch",
    "without a controller",
    "its rounds are done",
)
"""The kinds of bars in drawing order: later ones lie on top."""

TOP, HEIGHT = -0.32, 0.58
"""The upper edge of the bars of what a site does, from the middle of its row, and their height."""

_NAMES = {Doing.COMPUTING: "compute", Doing.WAITING: "wait for a group", Doing.IN_TASK: "in a task"}


def list_bars(
    history: History, rows: Mapping[str, int], window_s: tuple[float, float]
) -> dict[str, list[Bar]]:
    """The bars of each of KINDS, clipped to the window.

    `rows` maps a site to its row. The upper half of a synchronization shows when contributions
    moved and were added, the lower half when results moved; both at once means that chunks were
    pipelined. The line above a row shows when branches were computed while the model arrived, and
    when the site waited for one.
    """
    found: dict[str, list[Bar]] = {kind: [] for kind in KINDS}

    def add(name: str, site: str, spans: Iterable[Interval], y: float, height: float) -> None:
        for start_ns, end_ns in spans:
            start_s, end_s = max(start_ns / 1e9, window_s[0]), min(end_ns / 1e9, window_s[1])
            if site in rows and start_s < end_s:
                found[name].append((start_s, end_s, rows[site] + y, height))

    for site, lives in find_lives(history).items():
        add("the program runs", site, lives, TOP, HEIGHT)
    for site, done in history.phases.items():
        for phase in done:
            add(_NAMES[phase.doing], site, [(phase.start_ns, phase.end_ns)], TOP, HEIGHT)
    helped: defaultdict[str, list[Interval]] = defaultdict(list)
    for task in history.tasks:
        for (site, flow), span in find_task_spans(task).items():
            if site not in task.started.group:
                helped[site].append(span)
            elif flow == "in":
                add("scatter and reduce", site, [span], -0.32, 0.29)
            elif flow == "out":
                add("multicast", site, [span], -0.03, 0.29)
    for name, spans_of in _find_branch_spans(history).items():
        for site, intervals in spans_of.items():
            add(name, site, union(intervals), -0.43, 0.09)
    for site in rows:
        alone = history.lives.spans(site, is_alone)
        add("without a controller", site, alone, 0.31, 0.09)
    stopped_ns = history.stop_ns
    for left in history.all(WorkerFinished):
        add("its rounds are done", left.site, [(left.t_ns, stopped_ns)], 0.31, 0.09)
    for site, intervals in helped.items():
        add("help with other tasks", site, union(intervals), 0.31, 0.09)
    return found


def _find_branch_spans(history: History) -> dict[str, dict[str, list[Interval]]]:
    """When each site computed branches as they arrived, and when it waited for one."""
    computed: defaultdict[str, list[Interval]] = defaultdict(list)
    stalled: defaultdict[str, list[Interval]] = defaultdict(list)
    for done in list_computed(history):
        if done.task is not None:
            computed[done.site].append((done.start_ns, done.end_ns))
    for site, wait in list_waits(history):
        stalled[site].append(wait)
    return {"compute a branch": computed, "wait for a branch": stalled}


def find_lives(history: History) -> dict[str, list[Interval]]:
    """When programs of each site ran; empty in a run of agents."""
    if not history.all(ProgramsStarted):
        return {}
    found: defaultdict[str, list[Interval]] = defaultdict(list)
    for name in history.programs.moments:
        found[site_of(name)] += history.programs.runs(name)
    return {site: [*union(spans)] for site, spans in found.items()}


def find_task_spans(task: Task) -> dict[tuple[str, str], Interval]:
    """(site, phase) -> the time from the first byte that the site sent or received to the last."""
    spans: dict[tuple[str, str], Interval] = {}
    moved: tuple[Sent | Received, ...] = task.all(Sent, Received)
    for event in moved:
        key = (event.site, event.phase)
        start_ns, end_ns = spans.get(key, (event.start_ns, event.end_ns))
        spans[key] = min(start_ns, event.start_ns), max(end_ns, event.end_ns)
    return spans
