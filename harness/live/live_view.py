"""Draws a live run for a terminal: sites, tasks, links by load, faults, both clocks.

Pure but for the clock that it is given: the state of a run in, something that `rich` can draw out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trunkline.harness.config.units import TIME_S, render_roughly, short
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import WINDOW_S, Progress, RunState
from trunkline.harness.live.status_lines import show_rate
from trunkline.harness.report.faults.fault_layout import shorten
from trunkline.harness.scenario.settings import Scenario

NARROW = 90
"""A terminal of fewer columns shows everything in one column."""

LEAST_BAR = 4
"""The least width of the bar that shows how far the run is, in columns."""

BAR = 12
"""The width of a link's bar, in columns."""

STYLES = {
    "computing": "cyan",
    "waiting": "dim",
    "in task": "yellow",
    "finished": "green",
    "dead": "bold red",
    "paused": "bold red",
}
"""The first words of a site's activity -> its style."""

Clock = Callable[[], float]


@dataclass(slots=True)
class View:
    """The picture of a run, which is at the other end of a log or a pipe.

    The session reports its `latest` progress. A user may have `held` the run's clock: its speed
    then means nothing, and times count from the first task, as at the prompt.
    """

    scenario: Scenario
    clock: Clock
    held: bool = False
    state: RunState = field(init=False)
    began_s: float = field(init=False)
    parts: int = field(init=False)
    latest: Progress = field(default_factory=lambda: Progress(message="starting"))

    def __post_init__(self) -> None:
        self.state = RunState.of(self.scenario)
        self.parts = self.scenario.parties
        self.began_s = self.clock()

    @property
    def share(self) -> float | None:
        """How much of the run is done, 0 to 1; None if it is unknown."""
        return progress.fraction(self.latest, self.scenario.whole_stop, self.parts)

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites, in the topology's order."""
        return self.scenario.topology.site_names

    def describe_clocks(self) -> list[str]:
        """The run's time, the real time, and when the run should end: in ever fewer words."""
        real_s = self.clock() - self.began_s
        run_s = self.state.now_ns / 1e9
        now, ours = f"{run_s:.1f} s {self.scenario.clock}", f", {render_roughly(real_s)} real"
        if self.held:
            now = f"{self._describe_task_time()} {self.scenario.clock}"
            return [f"{now}, {run_s:.1f} s in all{ours}", now + ours, now]
        speed = left = ""
        if run_s > 0 and real_s > 0 and self.scenario.clock == "virtual":
            speed = f" (x {run_s / real_s:.2g})"
        if 0.01 < (share := self.share or 0.0) < 1 and not self.latest.message:
            left = f", about {render_roughly(real_s * (1 / share - 1))} left"
        least = left.removeprefix(", ") or now
        return [now + ours + speed + left, now + ours + left, now + left, least]

    def describe(self) -> str:
        """The picture in one line of words."""
        words = [self._describe_progress()]
        if self.held and not self.latest.message:
            since = f"since the {self.scenario.begin} began"
            words = [f"{self._describe_task_time()} {since}", f"in all {words[0]}"]
        if self.state.tasks:
            words.append(f"tasks in progress {len(self.state.tasks)}")
        if loads := self.state.loads_mbps():
            (src, dst), mbps = loads[0]
            words.append(f"busiest {src} -> {dst} {show_rate(mbps)} Mbit/s")
        words += [f"fault: {shorten(fault.text)}" for fault in self.state.faults.values()]
        return "; ".join(words)

    def _describe_task_time(self) -> str:
        return f"{(self.state.now_ns - (self.state.start_ns or 0)) / 1e9:.1f} s"

    def _describe_progress(self) -> str:
        return progress.describe(self.latest, self.scenario.whole_stop, self.parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The whole picture, no higher than the terminal."""
        height = max(options.height or console.height, 8)
        yield from self._draw_head(options.max_width)
        if options.max_width < NARROW:
            yield from self._draw_column(height - 3)
            return
        yield Text()
        room = height - 5
        grid = Table.grid(expand=True, padding=(0, 2))
        grid.add_column(ratio=2)
        grid.add_column(ratio=3)
        faults = min(len(self.state.faults), room // 4) + 1 if self.state.faults else 0
        tasks = max(1, min(len(self.state.tasks), (room - faults) // 3))
        links = max(1, room - faults - tasks - 3)
        right = [self._draw_tasks(tasks), self._draw_links(links)]
        grid.add_row(
            self._draw_sites(room - 1),
            Group(*right, *([self._draw_faults(faults - 1)] if faults else ())),
        )
        yield grid

    def _draw_column(self, height: int) -> Iterator[RenderableType]:
        """Draw one column: faults and tasks get space first, sites next, links last."""
        room = height - 3 - bool(self.state.faults)
        faults = min(len(self.state.faults), max(1, room // 5))
        tasks = min(max(1, len(self.state.tasks)), max(1, room // 5))
        rest = room - faults - tasks
        sites = max(1, min(len(self.sites), max(rest - 3, min(2, rest - 1))))
        yield self._draw_sites(sites)
        yield self._draw_tasks(tasks)
        yield self._draw_links(max(1, rest - sites))
        if self.state.faults:
            yield self._draw_faults(faults)

    def _draw_head(self, width: int) -> Iterator[RenderableType]:
        scenario = self.scenario
        what = f"{scenario.scheme.policy.kind}, {scenario.scheme.plan.kind}"
        kind = scenario.workload.kind if scenario.runs_programs else what
        yield Text.assemble((scenario.name, "bold"), f"  {kind}, {len(self.sites)} sites")
        percent = progress.show_percent(self.share)
        texts = [f"{percent}  {words}" for words in self.describe_clocks()]
        words = next((text for text in texts if len(text) + LEAST_BAR + 2 <= width), texts[-1])
        bar_width = min(30, max(LEAST_BAR, width - len(words) - 2))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=1.0, completed=self.share or 0.0, width=bar_width),
            _make_text(words),
        )
        yield bar
        yield _make_text(self._describe_progress(), "dim")

    def _draw_sites(self, rows: int) -> Table:
        """Draw a line per site; without enough space, one per activity with all of its sites."""
        table = _make_table("sites")
        sites = self.sites
        if len(sites) <= rows:
            for site in sites:
                table.add_row(Text(site), self._draw_activity(site))
            return table
        together: dict[str, list[str]] = {}
        for site in sites:
            together.setdefault(self._draw_activity(site).plain, []).append(site)
        for what, names in sorted(together.items(), key=lambda found: -len(found[1]))[:rows]:
            table.add_row(
                Text(f"{len(names)} of {len(sites)}"), Text(what), _make_text(" ".join(names))
            )
        return table

    def _draw_activity(self, site: str) -> Text:
        activity, _ = self.state.activity_of(site)
        style = next((style for start, style in STYLES.items() if activity.startswith(start)), "")
        return Text(activity, style=style)

    def _draw_tasks(self, rows: int) -> Table:
        tasks = self.state.tasks
        table = _make_table("tasks" if len(tasks) <= rows else f"{rows} of {len(tasks)} tasks")
        for number, task in list(tasks.items())[:rows]:
            waits = [site for site in task.group if site in task.unfinished]
            what = f"waits for {' '.join(waits)}" if waits else "is about to end"
            words = f"{_render_time(self.state.now_ns - task.start_ns)}, {what}"
            table.add_row(Text(str(number)), _make_text(words))
        if not tasks:
            table.add_row(Text("none", style="dim"))
        return table

    def _draw_links(self, rows: int) -> Table:
        loads = self.state.loads_mbps()
        what = "payload" if self.latest.ended is None else "all bytes"
        table = _make_table(f"links, {what} of the last {WINDOW_S:g} s")
        for (src, dst), mbps in loads[:rows]:
            rate = self.state.rates_mbps.get((src, dst), 0.0)
            share = min(1.0, mbps / rate) if rate else 0.0
            bar = "█" * round(share * BAR)
            words = f"{show_rate(mbps)} Mbit/s, {f'{share:.0%}' if rate else 'cut now'}"
            table.add_row(
                _make_text(f"{src} → {dst}"),
                Text(f"{bar:·<{BAR}}", style="blue"),
                _make_text(words),
            )
        if not loads:
            table.add_row(Text("nothing yet", style="dim"))
        return table

    def _draw_faults(self, rows: int) -> Table:
        faults = list(self.state.faults.values())
        table = _make_table(f"{rows} of {len(faults)} faults" if len(faults) > rows else "faults")
        for fault in faults[:rows]:
            lasts = _render_time(self.state.now_ns - fault.t_ns)
            table.add_row(_make_text(shorten(fault.text), "red"), Text(f"for {lasts}"))
        return table


def _make_table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        min_width=len(title),
        padding=(0, 2, 0, 0),
    )


def _make_text(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _render_time(time_ns: int) -> str:
    return short(round(time_ns / 1e9, 1), TIME_S)
