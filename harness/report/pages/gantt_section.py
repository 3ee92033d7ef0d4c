"""The Gantt chart of a run: the activity of every site, and the faults (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trunkline.agents.events.round_events import BranchArrived, ComputeStarted
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.harness.checks.programs.lifecycle_checks import list_failures
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report import activity
from trunkline.harness.report.faults.fault_layout import Lane, clip_s, lay_out
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
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

MAX_BARS = 12_000
"""The most bars of a page; with more, neighbouring bars are merged to keep the page small."""

MAX_TITLES = 600
"""The most tasks (counted per site) that have a tooltip with number and times."""

MAX_LANES, MAX_NAMED = 12, 80
"""The most lanes of the strip of faults; with more than MAX_NAMED faults there is no strip."""

LANE = 15.0
"""The height of a lane in units of the view box."""

LANE_LETTER = 5.9
"""The width of a letter of a lane's text; a text of capitals and digits is wider."""

HATCHES = {"kill": "url(#dead)", "pause": "url(#paused)"}

PATTERNS = tag(
    "defs",
    *(
        tag(
            "pattern",
            tag("path", d=path, class_="line-fault"),
            id=name,
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for name, path in (("dead", "M0 0L6 6M6 0L0 6"), ("paused", "M0 6L6 0"))
    ),
)


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
    room = (x.end - x.start) / LANE_LETTER
    shown = lay_out(history.faults, window_s, room)
    many = len(shown) > MAX_NAMED
    named = [lane for lane in shown if lane.number < MAX_LANES and not many]
    strip = LANE * (2 + max((lane.number for lane in named), default=-2))
    row = 26.0 if len(sites) <= 20 else 15.0
    top = strip + 4
    bottom = top + row * len(sites)
    frame = Frame(x, Scale(0, 1, bottom, top))
    bars, gap_s = _place_bars(history, sites, window_s, x, top, row)
    picture = charts.draw_picture(
        bottom + 46,
        f"A row for each of {len(sites)} sites: its activity from 0 to {window_s[1]:.1f} s. "
        "The tables of sites and tasks below say the same in numbers.",
        PATTERNS,
        _draw_warm_up(x, warm_up_s, top, bottom),
        frame.draw_axes(f"{clock} time (s)"),
        _draw_bands(history.faults, x, top, bottom),
        [
            tag("text", site, x=left - 8, y=top + (rank + 0.5) * row + 4, class_="tick end")
            for rank, site in enumerate(sites)
        ],
        [charts.draw_bars(bars[kind], CLASSES[kind]) for kind in activity.KINDS],
        _draw_in_rows(history.faults, sites, x, top, row),
        _draw_numbers(history, sites, x, top, row),
        _draw_failures(history, programs or {}, sites, x, top, row),
        _draw_strip(named, x),
    )
    used = [(CLASSES[kind], kind) for kind in activity.KINDS if bars[kind]]
    words = _write_caption(history, shown, named, gap_s)
    if warm_up_s:
        until = f"{charts.format_value(warm_up_s)} s"
        words.append(f" The violet background until {until} is the warm-up, not in the results.")
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


def _draw_warm_up(x: Scale, warm_up_s: float, top: float, bottom: float) -> Html | None:
    if not warm_up_s:
        return None
    width = x(min(warm_up_s, x.high)) - x.start
    return charts.draw_bars([(x.start, top, width, bottom - top)], "fill-warm-up")


def _draw_bands(faults: Sequence[Disturbance], x: Scale, top: float, bottom: float) -> Html:
    """Draw bands behind the rows at all times with a fault."""
    spans = [
        (x(min(start_s, x.high)), x(min(end_s, x.high)))
        for fault in faults
        if fault.started.targets
        for start_s, end_s in [clip_s(fault, (x.low, x.high))]
    ]
    shown = charts.merge(spans, 0.01, 0.5)
    return charts.draw_bars(((a, top, b - a, bottom - top) for a, b in shown), "fill-band")


def _draw_in_rows(
    faults: Sequence[Disturbance], sites: Sequence[str], x: Scale, top: float, row: float
) -> list[Html]:
    """Hatch dead or stopped agents; draw a line above the rows of a disturbed link's ends."""
    spans: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    ranks = {site: rank for rank, site in enumerate(sites)}
    for fault in faults:
        start_s, end_s = clip_s(fault, (x.low, x.high))
        names = {name for target in fault.started.targets for name in target.split(" -> ")}
        kind = fault.started.verb if fault.started.verb in HATCHES else "link"
        for site in sorted(names & ranks.keys(), key=ranks.__getitem__):
            spans[kind, ranks[site]].append((x(min(start_s, x.high)), x(min(end_s, x.high))))
    lines, found = [], []
    for (kind, rank), of_row in sorted(spans.items()):
        y = top + (rank + 0.08) * row
        for start, end in charts.merge(of_row, 0.5, 0.5):
            if kind == "link":
                lines.append((start, y, end - start, 1.8))
            else:
                size = {"width": end - start, "height": row * 0.84}
                found.append(tag("rect", x=start, y=y, fill=HATCHES[kind], **size))
    return [charts.draw_bars(lines, "fill-fault"), *found]


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


def _draw_strip(shown: Sequence[Lane], x: Scale) -> list[Html]:
    """Draw one bar per fault with its text."""
    if not shown:
        return []
    bars = [
        (x(lane.start_s), lane.number * LANE + 2, max(1.0, x(lane.end_s) - x(lane.start_s)), 12.0)
        for lane in shown
    ]
    texts = [
        tag(
            "text",
            lane.text,
            x=x(lane.start_s) + 3 if lane.text_end_s is None else x(lane.text_end_s) - 3,
            y=lane.number * LANE + 11.5,
            class_="lane" if lane.text_end_s is None else "lane end",
        )
        for lane in shown
    ]
    return [
        tag("text", "faults", x=x.start - 8, y=12, class_="tick end"),
        charts.draw_bars(bars, "fill-lane"),
        *texts,
    ]


def _write_caption(
    history: History, shown: Sequence[Lane], named: Sequence[Lane], gap_s: float
) -> list[str]:
    words = [
        "The upper half of a synchronization shows when contributions moved and were added, the "
        "lower half when results moved. The thin line below a row shows help with tasks of other "
        "sites."
    ]
    if history.all(BranchArrived):
        words.append(
            " The thin line above a row: branches that were computed while the model arrived, and "
            "waits for branches."
        )
    if history.all(ProgramsStarted):
        reported = history.syncs or history.all(ComputeStarted)
        words = ["Synchronizations and computing are as the programs reported them."]
        words = words if reported else ["The programs reported no steps."]
        if any(event.process is not None for event in history.all(ComputeStarted)):
            words.append(" A site computes while one of its processes does.")
    if shown:
        words.append(
            " Bands mark the times of faults. A line above a row: a link of that site was "
            "disturbed. Hatched: its agent was stopped (one direction) or dead (crossed)."
        )
    if len(named) < len(shown):
        words.append(f" {len(shown) - len(named)} of {len(shown)} faults are not named here.")
    if history.end_ns > history.active_end_ns:
        words.append(f" Not shown: agents exited until {history.end_ns / 1e9:.1f} s.")
    if gap_s:
        words.append(f" Bars less than {charts.format_value(gap_s)} s apart are drawn as one.")
    return words
