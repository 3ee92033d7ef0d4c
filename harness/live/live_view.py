"""What a terminal shows of a run that goes on: sites, tasks, links by load, faults, both clocks.

Pure but for the clock that it is given: events in, something that `rich` can draw out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trunkline.harness.config.units import TIME_S, short
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import Situation
from trunkline.harness.live.progress import Progress, about
from trunkline.harness.network.interface import Directed
from trunkline.harness.report.fault_layout import shorten
from trunkline.harness.scenario.loading import Scenario

WINDOW_S = 5.0
"""Links are shown with what they carried in so much of the run's time."""

NARROW = 90
"""Columns below which everything stands in one column."""

LEAST_BAR = 4
"""Columns of the bar that shows how far the run is, where there is little room."""

BAR = 12
"""Columns of a link's bar."""

STYLES = {"computing": "cyan", "waiting": "dim", "in task": "yellow", "finished": "green"}
"""How what a site does looks, by how its words begin; the words say it as well."""

Clock = Callable[[], float]


@dataclass(slots=True)
class View:
    """What is known of a run so far, and how a terminal shows it (pure but for `clock`).

    The run's clock may be `held` by somebody: how fast it goes then says nothing.
    """

    scenario: Scenario
    clock: Clock
    held: bool = False
    situation: Situation = field(init=False)
    began_s: float = field(init=False)
    now_ns: int = 0
    latest: Progress = field(default_factory=lambda: Progress(message="starting"))
    faults: dict[int, tuple[str, int]] = field(default_factory=dict)
    rates_mbps: dict[Directed, float] = field(init=False)
    _sent: deque[tuple[int, int, Directed, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.situation = Situation(self.scenario.topology.site_names)
        self.rates_mbps = self.scenario.topology.rates_mbps()
        self.began_s = self.clock()

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in one event, as the agents log it."""
        self.now_ns = max(self.now_ns, event["t_ns"])
        self.situation.update(event)
        match event["event"]:
            case "sent":
                ends = (event["site"], event["dst"])
                self._sent.append((event["start_ns"], event["end_ns"], ends, event["bytes"]))
            case "link_changed":
                rate = 0.0 if event["cuts"] else event["rate_mbps"]
                self.rates_mbps[event["src"], event["dst"]] = rate
            case "fault_started":
                self.faults[event["fault"]] = (shorten(event["text"]), event["t_ns"])
            case "fault_ended":
                self.faults.pop(event["fault"], None)

    def loads(self) -> list[tuple[Directed, float]]:
        """The links that carried payload lately, the busiest first, in Mbit/s."""
        from_ns = max(0, self.now_ns - round(WINDOW_S * 1e9))
        while self._sent and self._sent[0][1] < from_ns:
            self._sent.popleft()
        moved: dict[Directed, float] = {}
        for start_ns, end_ns, ends, size in self._sent:
            share = (end_ns - max(start_ns, from_ns)) / max(end_ns - start_ns, 1)
            moved[ends] = moved.get(ends, 0.0) + size * max(0.0, share)
        of_ns = max(self.now_ns - from_ns, 1)
        found = [(ends, size * 8e3 / of_ns) for ends, size in moved.items()]
        return sorted(found, key=lambda load: (-load[1], load[0]))

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1."""
        return progress.fraction(self.latest, self.scenario.stop, len(self.situation.sites))

    def clocks(self) -> list[str]:
        """The run's time beside ours, and when it should be over: in all words, and in fewer."""
        real_s = self.clock() - self.began_s
        run_s = self.now_ns / 1e9
        now, ours = f"{run_s:.1f} s {self.scenario.clock}", f", {about(real_s)} real"
        if self.held:
            return [now + ours, now]
        speed = left = ""
        if run_s > 0 and real_s > 0 and self.scenario.clock == "virtual":
            speed = f" (x {run_s / real_s:.2g})"
        if 0.01 < self.share < 1 and not self.latest.message:
            left = f", about {about(real_s * (1 / self.share - 1))} left"
        least = left.removeprefix(", ") or now
        return [now + ours + speed + left, now + ours + left, now + left, least]

    def line(self) -> str:
        """Everything that matters, in one line."""
        words = [self._described()]
        if self.situation.tasks:
            words.append(f"tasks going on {len(self.situation.tasks)}")
        loads = self.loads()
        if loads:
            (src, dst), mbps = loads[0]
            words.append(f"busiest {src} -> {dst} {mbps:.1f} Mbit/s")
        words += [f"fault: {text}" for text, _ in self.faults.values()]
        return "; ".join(words)

    def _described(self) -> str:
        return progress.describe(self.latest, self.scenario.stop, len(self.situation.sites))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The whole picture, no higher than the terminal."""
        height = max(options.height or console.height, 8)
        yield from self._head(options.max_width)
        if options.max_width < NARROW:
            yield from self._below_each_other(height - 3)
            return
        yield Text()
        room = height - 5
        grid = Table.grid(expand=True, padding=(0, 2))
        grid.add_column(ratio=2)
        grid.add_column(ratio=3)
        faults = min(len(self.faults), room // 4) + 1 if self.faults else 0
        tasks = max(1, min(len(self.situation.tasks), (room - faults) // 3))
        links = max(1, room - faults - tasks - 3)
        right = [self._tasks(tasks), self._links(links)]
        grid.add_row(
            self._sites(room - 1),
            Group(*right, *([self._faults(faults - 1)] if faults else ())),
        )
        yield grid

    def _below_each_other(self, height: int) -> Iterator[RenderableType]:
        """Everything in one column: faults and tasks first get room, then sites, links the rest."""
        room = height - 3 - bool(self.faults)
        faults = min(len(self.faults), max(1, room // 5))
        tasks = min(max(1, len(self.situation.tasks)), max(1, room // 5))
        rest = room - faults - tasks
        sites = max(1, min(len(self.situation.sites), max(rest - 3, min(2, rest - 1))))
        yield self._sites(sites)
        yield self._tasks(tasks)
        yield self._links(max(1, rest - sites))
        if self.faults:
            yield self._faults(faults)

    def _head(self, width: int) -> Iterator[RenderableType]:
        scenario = self.scenario
        what = f"{scenario.scheme.policy.kind}, {scenario.scheme.plan.kind}"
        kind = scenario.workload.kind if scenario.runs_programs else what
        yield Text.assemble((scenario.name, "bold"), f"  {kind}, {len(self.situation.sites)} sites")
        texts = [f"{self.share:4.0%}  {words}" for words in self.clocks()]
        words = next((text for text in texts if len(text) + LEAST_BAR + 2 <= width), texts[-1])
        bar_width = min(30, max(LEAST_BAR, width - len(words) - 2))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=1.0, completed=self.share, width=bar_width),
            _one_line(words),
        )
        yield bar
        yield _one_line(self._described(), "dim")

    def _sites(self, rows: int) -> Table:
        """A line per site, or where there is no room one for all that do the same."""
        table = _titled("sites")
        sites = self.situation.sites
        if len(sites) <= rows:
            for site in sites:
                table.add_row(Text(site), self._does(site))
            return table
        together: dict[str, list[str]] = {}
        for site in sites:
            together.setdefault(self._does(site).plain, []).append(site)
        for what, names in sorted(together.items(), key=lambda found: -len(found[1]))[:rows]:
            table.add_row(
                Text(f"{len(names)} of {len(sites)}"), Text(what), _one_line(" ".join(names))
            )
        return table

    def _does(self, site: str) -> Text:
        if site in self.situation.stopped:
            return Text(self.situation.stopped[site], style="bold red")
        what = self.situation.doing.get(site, ("not begun", 0))[0]
        style = next((style for start, style in STYLES.items() if what.startswith(start)), "")
        return Text(what, style=style)

    def _tasks(self, rows: int) -> Table:
        tasks = self.situation.tasks
        table = _titled("tasks" if len(tasks) <= rows else f"{rows} of {len(tasks)} tasks")
        for number, task in list(tasks.items())[:rows]:
            waits = [site for site in task.group if site in task.unfinished]
            what = f"waits for {' '.join(waits)}" if waits else "is about to end"
            words = f"{_lasting(self.now_ns - task.start_ns)}, {what}"
            table.add_row(Text(str(number)), _one_line(words))
        if not tasks:
            table.add_row(Text("none", style="dim"))
        return table

    def _links(self, rows: int) -> Table:
        table = _titled(f"links, payload of the last {WINDOW_S:g} s")
        loads = self.loads()
        for (src, dst), mbps in loads[:rows]:
            rate = self.rates_mbps.get((src, dst), 0.0)
            share = min(1.0, mbps / rate) if rate else 0.0
            bar = "█" * round(share * BAR)
            words = f"{mbps:.1f} Mbit/s, {share:.0%}" if rate else f"{mbps:.1f} Mbit/s, cut now"
            table.add_row(
                _one_line(f"{src} → {dst}"), Text(f"{bar:·<{BAR}}", style="blue"), _one_line(words)
            )
        if not loads:
            table.add_row(Text("nothing yet", style="dim"))
        return table

    def _faults(self, rows: int) -> Table:
        more = len(self.faults) > rows
        table = _titled(f"{rows} of {len(self.faults)} faults" if more else "faults")
        for text, since_ns in list(self.faults.values())[:rows]:
            table.add_row(_one_line(text, "red"), Text(f"for {_lasting(self.now_ns - since_ns)}"))
        return table


def _titled(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        min_width=len(title),
        padding=(0, 2, 0, 0),
    )


def _one_line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _lasting(time_ns: int) -> str:
    return short(round(time_ns / 1e9, 1), TIME_S)
