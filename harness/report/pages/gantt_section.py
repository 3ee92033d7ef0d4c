"""The Gantt chart of a run: the activity of every site, and the faults (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trunkline.agents.events.round_events import BranchArrived, ComputeStarted
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.harness.checks.programs.lifecycle_checks import list_failures
from trunkline.harness.record.history import History
from trunkline.harness.report import activity
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.fault_strip import PATTERNS, Strip
from trunkline.harness.report.pages.markup import Html, tag
from trunkline.workloads.program_roles import Program, site_of

CLASSES: Mapping[str, str] = dict(
    zip(
        activity.KINDS,
        (
            "fill-life",
            "fill-compute",
            "fill-wait",
            "fill-task",
            "fill-reduce",
            "fill-multicast",
            "fill-ink",
            "fill-blue",
            "fill-fault",
            "fill-alone",
            "fill-done",
        ),
        strict=True,
    )
)

BELOW: Mapping[str, str] = {
    "help with other tasks": "help with tasks of other sites",
    "without a controller": "time without a controller",
    "its rounds are done": "that all rounds of the site are done",
}
"""What thin lines below a row show -> in words."""

MAX_BARS = 12_000
"""The most bars of a page; with more, neighbouring bars are merged to keep the page small."""

MAX_TITLES = 600
"""The most tasks (counted per site) that have a tooltip with number and times."""


def draw_gantt(
    history: History,
    sites: Sequence[str],
    clock: str,
    warm_up_s: float = 0.0,
    programs: Mapping[str, Program] | None = None,
) -> Html:
    """Draw the run until all sites had finished; `clock` is the name of its clock.

    The warm-up's background is violet.
    """
    window_s = (0.0, max(history.active_end_ns / 1e9, 1e-3))
    left = 14 + LETTER * max(6, *map(len, sites))
    x = Scale(*window_s, left, WIDTH - 8)
    strip = Strip.of(history.faults, x)
    row = 26.0 if len(sites) <= 20 else 15.0
    top = strip.height + 4
    bottom = top + row * len(sites)
    frame = Frame(x, Scale(0, 1, bottom, top))
    bars, gap_s = _place_bars(history, sites, window_s, x, top, row)
    picture = charts.draw_picture(
        bottom + 46,
        f"A row for each of {len(sites)} sites: its activity from 0 to {window_s[1]:.1f} s. "
        "The tables of sites and tasks below say the same in numbers.",
        PATTERNS,
        charts.draw_warm_up(x, warm_up_s, top, bottom),
        frame.draw_axes(f"{clock} time (s)"),
        strip.draw_bands(top, bottom),
        [
            tag("text", site, x=left - 8, y=top + (rank + 0.5) * row + 4, class_="tick end")
            for rank, site in enumerate(sites)
        ],
        [charts.draw_bars(bars[kind], CLASSES[kind]) for kind in activity.KINDS],
        strip.draw_in_rows(sites, top, row),
        _draw_numbers(history, sites, x, top, row),
        _draw_failures(history, programs or {}, sites, x, top, row),
        strip.draw(),
    )
    used = [(CLASSES[kind], kind) for kind in activity.KINDS if bars[kind]]
    words = _write_caption(history, strip, gap_s, programs or {}, [kind for _, kind in used])
    if warm_up_s:
        until = f"{charts.format_value(warm_up_s)} s"
        words.append(f" The warm-up ended at {until}.")
    used += [("fill-warm-up", charts.WARM_UP)] if warm_up_s else []
    return charts.make_figure(picture, words, charts.make_legend(used))


def _place_bars(
    history: History,
    sites: Sequence[str],
    window_s: tuple[float, float],
    x: Scale,
    top: float,
    row: float,
) -> tuple[dict[str, list[charts.Bar]], float]:
    """The bars on the page, and the gap in seconds below which bars were merged."""
    ranks = {site: rank for rank, site in enumerate(sites)}
    found = activity.list_bars(history, ranks, window_s)
    gap = 0.0
    while True:
        drawn = {kind: list(_merge_bars(bars, x, top, row, gap)) for kind, bars in found.items()}
        if sum(map(len, drawn.values())) <= MAX_BARS or gap > x.end - x.start:
            return drawn, gap * (window_s[1] - window_s[0]) / (x.end - x.start)
        gap = gap * 2 or 0.25


def _merge_bars(
    bars: Sequence[activity.Bar], x: Scale, top: float, row: float, gap: float
) -> Iterator[charts.Bar]:
    spans: defaultdict[tuple[float, float], list[tuple[float, float]]] = defaultdict(list)
    for start_s, end_s, y, height in bars:
        spans[y, height].append((x(start_s), x(end_s)))
    for (y, height), of_row in sorted(spans.items()):
        for start, end in charts.merge(of_row, gap, 0.3):
            yield start, top + (y + 0.5) * row, end - start, height * row


def _draw_numbers(
    history: History, sites: Sequence[str], x: Scale, top: float, row: float
) -> list[Html]:
    """Draw each task's number on its members' bars if there is room, and add tooltips."""
    ranks = {site: rank for rank, site in enumerate(sites)}
    spans = [
        (phase, ranks[site])
        for site, done in history.phases.items()
        for phase in done
        if phase.task is not None and site in ranks
    ]
    found = []
    for phase, rank in spans if len(spans) <= MAX_TITLES else ():
        start, end = x(phase.start_ns / 1e9), x(phase.end_ns / 1e9)
        y, text = top + rank * row, str(phase.task)
        times = f"{phase.start_ns / 1e9:.3f} to {phase.end_ns / 1e9:.3f} s"
        shape = tag("rect", x=start, y=y + row * 0.18, width=end - start, height=row * 0.58)
        found.append(tag("g", tag("title", f"task {text}, {times}"), shape, class_="touch"))
        if end - start > LETTER * len(text) + 8 and row > 20:
            place = {"x": (start + end) / 2, "y": y + row / 2 + 3}
            found.append(tag("text", text, class_="number-on middle", **place))
    return found


def _draw_failures(
    history: History,
    programs: Mapping[str, Program],
    sites: Sequence[str],
    x: Scale,
    top: float,
    row: float,
) -> list[Html]:
    """Draw a mark where a program ended as it may not, with its exit code or signal."""
    found = []
    for event in list_failures(history, programs):
        site = site_of(event.who)
        if site in sites:
            text = f"signal {event.signal}" if event.signal else f"exit code {event.code}"
            at, y = x(min(event.t_ns / 1e9, x.high)), top + sites.index(site) * row
            right = at < x.end - LETTER * (len(text) + 1)
            place = {"x": at + (4 if right else -4), "y": y + row / 2 + 3}
            mark = tag("path", d=f"M{at:.2f} {y + 2:.2f}v{row - 6:.2f}", class_="line stroke-fault")
            found += [mark, tag("text", text, class_="lane" if right else "lane end", **place)]
    return found


def _write_caption(
    history: History,
    strip: Strip,
    gap_s: float,
    programs: Mapping[str, Program],
    kinds: Sequence[str],
) -> list[str]:
    """The caption's sentences; `kinds` are those of the bars."""
    words = []
    if {"scatter and reduce", "multicast"} & {*kinds}:
        words.append(
            "The upper half of a synchronization shows when contributions moved and were added, "
            "the lower half when results moved."
        )
    if below := [BELOW[kind] for kind in kinds if kind in BELOW]:
        words.append(f" The thin line below a row shows {' or '.join(below)}.")
    if history.all(BranchArrived):
        words.append(
            " The thin line above a row: branches that were computed while the model arrived, and "
            "waits for branches."
        )
    if history.all(ProgramsStarted):
        words = [_describe_steps(history, programs)]
        if any(event.process is not None for event in history.all(ComputeStarted)):
            words.append(" A site computes while one of its processes does.")
    who = "programs" if history.all(ProgramsStarted) else "agents"
    words.append(strip.describe("programs were" if who == "programs" else "agent was"))
    if history.end_ns > history.active_end_ns:
        words.append(f" Not shown: {who} exited until {history.end_ns / 1e9:.1f} s.")
    if gap_s:
        words.append(f" Bars less than {charts.format_value(gap_s)} s apart are drawn as one.")
    return words


def _describe_steps(history: History, programs: Mapping[str, Program]) -> str:
    """Where the activity of programs is known from."""
    has_computing = bool(history.all(ComputeStarted))
    adds = any(program.step_times is not None for program in programs.values())
    if has_computing and adds:
        computing = "Computing is the time that workload.compute adds, and what programs report."
        syncs = " Synchronizations are as the programs reported them." if history.syncs else ""
        return computing + syncs
    reported = ["synchronizations"] if history.syncs else []
    reported += ["computing"] if has_computing else []
    if not reported:
        return "The programs reported no steps."
    verb, what = ("are", "them") if history.syncs else ("is", "it")
    return f"{' and '.join(reported).capitalize()} {verb} as the programs reported {what}."
