"""The picture of the tasks that lost most time: a bar for each, in the colours of causes (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from trunkline.harness.config.units import join_words
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import EXPECTED, Explanation
from trunkline.harness.report.explanations.told.fault_names import name_subject
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, NARROW_LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Html, tag

MOST, LEAST_S = 15, 0.001
"""The most tasks with a bar, and the least time that a task with a bar lost, or a part took."""

ROW, HEIGHT, TOP = 30.0, 18.0, 8.0
"""The height of a row, of a bar, and of the room above all, in units of the view box."""

OWN, FAULT, TRAFFIC, TCP, OTHER, WAIT = (
    "own bytes and propagation",
    "faults, with their numbers",
    "other tasks and background traffic",
    "cold connections, losses, queues",
    "other causes",
    "wait of the complete group, before the task",
)
CLASSES: Mapping[str, str] = {
    WAIT: "fill-wait",
    OWN: "fill-task",
    FAULT: "fill-fault",
    TRAFFIC: "fill-orange",
    TCP: "fill-purple",
    OTHER: "fill-done",
}
"""What bars show -> its style, in order."""

KINDS: Mapping[str, str] = {
    **dict.fromkeys(EXPECTED, OWN),
    **dict.fromkeys(("other tasks", "background traffic"), TRAFFIC),
    **dict.fromkeys(("cold start", "loss", "queueing"), TCP),
}
"""What shows a cause that no fault is behind; all others are OTHER."""

Times = dict[tuple[str, int], float]
"""What is shown and the number of the fault, NONE without one -> seconds."""

NONE = -1


def draw_lost_time(found: Iterable[Explanation], history: History) -> Html | None:
    """A bar for each of the tasks that lost most time, in order of start; None without any.

    A bar begins with what the task lost before it, left of 0. A mark has its expected time.
    """
    most = sorted((each for each in found if each.lost_s >= LEAST_S), key=lambda e: -e.lost_s)
    shown = sorted(most[:MOST], key=lambda each: each.task.started.t_ns)
    if not shown:
        return None
    bars = [(divide_before(each), divide(each)) for each in shown]
    first = -max(sum(before.values()) for before, _ in bars)
    expected_s = (each.expected_s for each in shown if each.expected_s > 0)
    last = max([*(sum(took.values()) for _, took in bars), *expected_s])
    names = [f"task {each.task.number}" for each in shown]
    bottom = TOP + ROW * len(shown)
    x = Scale(first, last, NARROW_LETTER * max(map(len, names)), WIDTH - 8)
    places: defaultdict[str, list[charts.Bar]] = defaultdict(list)
    texts, marks = [], []
    for row, (each, (before, took), name) in enumerate(zip(shown, bars, names, strict=True)):
        y = TOP + row * ROW + (ROW - HEIGHT) / 2
        texts.append(tag("text", name, x=x.start - 8, y=y + HEIGHT - 5, class_="tick end"))
        at_s = -sum(before.values())
        for (kind, fault), seconds in [*before.items(), *took.items()]:
            start, at_s = x(at_s), at_s + seconds
            if seconds < LEAST_S:
                continue
            place = (start, y, x(at_s) - start, HEIGHT)
            places[kind].append(place)
            texts.append(_describe(kind, fault, seconds, history, place))
        if each.expected_s > 0:
            marks.append(f"M{x(each.expected_s):.2f} {y - 3:.2f}v{HEIGHT + 6:.2f}")
    picture = charts.draw_picture(
        bottom + 46,
        f"Where the time of {join_words(names)} went. Texts below explain the worst; "
        "`trunkline explain` has all.",
        Frame(x, Scale(0, 1, bottom, TOP)).draw_axes("time since the task began (s)"),
        [charts.draw_bars(places[kind], style) for kind, style in CLASSES.items()],
        tag("path", d="".join(marks), class_="line stroke-ink") if marks else None,
        texts,
        fits=True,
    )
    legend = [(style, kind) for kind, style in CLASSES.items() if places[kind]]
    legend += [("stroke-ink", "expected time")] * bool(marks)
    words = f"{'The tasks that lost most time' if len(most) > MOST else 'Tasks that lost time'}"
    words += ", in order of start. The parts of a bar are in the order of the legend."
    return charts.make_figure(picture, words, charts.make_legend(legend, lines={"stroke-ink"}))


def divide_before(found: Explanation) -> Times:
    """What a task lost before it began, in seconds."""
    faults = {(FAULT, fault): seconds for fault, seconds in sorted(found.before_s.items())}
    lost_s = 0.0 if found.wait is None else found.wait.lost_s
    return {(WAIT, NONE): lost_s - sum(faults.values()), **faults}


def divide(found: Explanation) -> Times:
    """Where the time of a task went, in seconds, in the order of its bar."""
    took: defaultdict[tuple[str, int], float] = defaultdict(float)
    if found.is_abandoned:
        took |= {(FAULT, fault): seconds for fault, seconds in found.taken_s.items()}
        took[OTHER, NONE] = max(0.0, found.duration_s - sum(took.values()))
        return took
    for part in found.parts:
        own = (KINDS.get(part.cause, OTHER), NONE)
        took[own if part.fault is None else (FAULT, part.fault)] += part.seconds
    order = [*CLASSES]
    return dict(sorted(took.items(), key=lambda each: (order.index(each[0][0]), each[0][1])))


def _describe(kind: str, fault: int, seconds: float, history: History, place: charts.Bar) -> Html:
    """What stands at a part of a bar: the number of its fault, and a tooltip."""
    x, y, width, height = place
    what = name_subject(fault, history) if fault != NONE else kind
    title = tag("title", f"{seconds:.3f} s: {what}")
    shape = tag("rect", x=x, y=y, width=width, height=height, class_="touch")
    number = None
    if fault != NONE and width > LETTER * len(str(fault)) + 6:
        middle = {"x": x + width / 2, "y": y + height - 5}
        number = tag("text", str(fault), class_="number-on middle", **middle)
    return tag("g", title, number, shape)
