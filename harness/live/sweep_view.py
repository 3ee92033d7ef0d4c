"""The display of a sweep: a bar and the variants on a terminal, or lines now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from trunkline.harness.live import progress
from trunkline.harness.live.sweep_progress import SweepProgress, VariantProgress

Show = Callable[[SweepProgress], None]

SHOWN_VARIANTS = 12
"""The most variants that are listed."""

OTHER_LINES = 6
"""The lines of a terminal that variants leave to the bar, its text and the prompt."""

REFRESH_S = 0.25
BAR = 16
"""The width of the bar, in columns."""


@contextlib.contextmanager
def show(
    console: Console, title: str = "", clock: Callable[[], float] = time.monotonic
) -> Iterator[Show]:
    """Show a sweep while it goes on; `title` stands before its line.

    Without a terminal a line tells of the whole now and then, and one of each variant when it is
    complete: of all variants if they are few, otherwise of those with runs that did not pass.
    """
    if console.is_interactive:
        with _show_picture(console, title, clock) as shown:
            yield shown
        return
    told: set[str] = set()
    with progress.live(console, clock) as show_line:

        def show_lines(sweep: SweepProgress) -> None:
            for text in _list_completed(sweep, told):
                progress.print_line(console, text)
            show_line(sweep.share, title + sweep.describe())

        yield show_lines


@contextlib.contextmanager
def _show_picture(console: Console, title: str, clock: Callable[[], float]) -> Iterator[Show]:
    live = Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop")
    shown_s, shown_done = -REFRESH_S, -1

    def show_picture(sweep: SweepProgress) -> None:
        nonlocal shown_s, shown_done
        now_s = clock()
        if sweep.done == shown_done and now_s < shown_s + REFRESH_S:
            return
        shown_s, shown_done = now_s, sweep.done
        live.start()  # not before: until then a program may ask something at the terminal
        live.update(draw(sweep, title, console.height - OTHER_LINES), refresh=True)

    try:
        yield show_picture
    finally:
        live.stop()


def draw(sweep: SweepProgress, title: str, lines: int) -> RenderableType:
    """The bar, the line of the whole, and the variants in at most so many lines."""
    whole = Table.grid(Column(width=BAR), Column(), padding=(0, 1, 0, 0))
    text = f"{100 * sweep.share:3.0f} % {title}{sweep.describe()}"
    whole.add_row(ProgressBar(1.0, sweep.share, BAR), Text(text))
    variants = sweep.list_variants()
    shown = choose(variants, max(1, min(lines, SHOWN_VARIANTS)))
    table = Table.grid(
        Column(no_wrap=True, overflow="ellipsis"),
        Column(no_wrap=True, justify="right"),
        Column(no_wrap=True, overflow="ellipsis"),
        padding=(0, 2, 0, 0),
    )
    for each in shown:
        table.add_row(Text(each.name), f"{each.done} of {each.total}", _describe_state(each))
    if left := len(variants) - len(shown):
        table.add_row(Text(f"and {left} more", "dim"))
    return Stack(whole, table) if variants else whole


def choose(variants: Sequence[VariantProgress], most: int) -> list[VariantProgress]:
    """Those that are shown, in their order; if they are too many, running ones come first.

    Those with runs that did not pass follow, then those that are not complete.
    """
    if len(variants) <= most:
        return list(variants)
    by_interest = sorted(
        range(len(variants)),
        key=lambda n: (
            not variants[n].running,
            not variants[n].problems,
            variants[n].done == variants[n].total,
        ),
    )
    return [variants[n] for n in sorted(by_interest[: most - 1])]


def _list_completed(sweep: SweepProgress, told: set[str]) -> Iterator[str]:
    """A line for each variant that is complete and worth a line, once."""
    variants = sweep.list_variants()
    for each in variants:
        if each.done == each.total and each.name not in told:
            told.add(each.name)
            if each.problems or len(variants) <= SHOWN_VARIANTS:
                problems = f" ({each.problems})" * bool(each.problems)
                yield f"     {each.name}: {each.done} of {each.total} done{problems}"


def _describe_state(variant: VariantProgress) -> Text:
    """What of a variant runs and did not pass."""
    is_bad = variant.outcomes.get("fail") or variant.outcomes.get("error")
    problems = Text(variant.problems, progress.STYLES["fail" if is_bad else "unknown"])
    running = Text(f"{variant.running} running" if variant.running else "")
    return Text(", ").join([each for each in (running, problems) if each])
