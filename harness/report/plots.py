"""The figures of a run for print (pure).

Every function returns a new matplotlib figure; `render` turns it into a file's bytes, the same
bytes every time. Colours are Okabe and Ito's, which colour-blind readers can tell apart and which
differ in grey. Meaning never depends on colour alone.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from trunkline.agents.events.causes import Quantity
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.record.targets import NO_TARGET, Target
from trunkline.harness.report import activity
from trunkline.harness.report.faults import fault_bands
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.pages.charts import WARM_UP

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,  # as many publishers demand
    "svg.hashsalt": "trunkline",  # else ids in the SVG are random
}
BLUE, SKY, ORANGE, GREEN = "#0072b2", "#56b4e9", "#e69f00", "#009e73"
RED, BLACK = fault_bands.COLOUR, "#222222"
PALE, GREY, VIOLET, PINK = "#e6e6e6", "#8c8c8c", "#ece2f6", "#cc79a7"

VECTORS = 4000
"""Bars above this number are pixels, even in an SVG: the file would be too large."""

FEW_SITES = 20
"""Gantt charts up to this number of sites have tall rows."""

MAX_NAMES = 30
"""The most names beside a matrix; with more sites only every second or third has its name."""

CELLS_WITH_NUMBERS = 12
"""Matrices up to this number of sites show numbers in their cells."""

BARS = 48
"""Sparse overlays up to this number of links are bars instead of a matrix."""

PAD_IN = 0.02
"""The least space around a figure, in inches."""

NARROW_IN = 5.0
"""Figures up to this width in inches are laid out for one column of a paper's page."""


def draw_gantt(
    history: History,
    sites: Sequence[str],
    window_s: tuple[float, float] | None = None,
    warm_up_s: float = 0.0,
    width_in: float = WIDTH_IN,
) -> Figure:
    """Draw the activity of every site over time: a row per site, and a strip of faults above.

    `window_s` is the part of the run to show, in seconds, and `warm_up_s` when its warm-up ends.
    See `activity.list_bars` for the bars.
    """
    window_s = window_s or (0.0, max(history.active_end_ns / 1e9, 1e-3))
    bars = activity.list_bars(history, {site: row for row, site in enumerate(sites)}, window_s)
    with mpl.rc_context(STYLE):
        row_in = 0.36 if len(sites) <= FEW_SITES else 0.19
        size_in = width_in, 1.1 + row_in * len(sites)
        figure, axes = fault_bands.create_axes(size_in, history.faults, window_s, sites)
        raster = sum(map(len, bars.values())) > VECTORS
        for name, colour in _GANTT.items():
            corners = [[(a, y), (b, y), (b, y + h), (a, y + h)] for a, b, y, h in bars[name]]
            axes.add_collection(
                PolyCollection(corners, facecolors=colour, label=name, rasterized=raster, lw=0)
            )
        axes.set(xlim=window_s, ylim=(len(sites) - 0.45, -0.55), xlabel=_label_time(history))
        axes.set_yticks(range(len(sites)), sites, fontsize=8 if len(sites) <= FEW_SITES else 6.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        draw_warm_up([axes], warm_up_s)
        marks = fault_bands.draw(axes, history.faults, sites)
        _draw_task_numbers(axes, history, sites, window_s, width_in)
        used = [name for name in _GANTT if bars[name]]
        handles: list[Artist] = [Patch(color=_GANTT[name], label=name) for name in used]
        handles += [Patch(color=VIOLET, label=WARM_UP)] if warm_up_s else []
        handles += marks
        columns = min(len(handles), count_columns(width_in, 1.4))
        add_legend(figure, columns, handles=handles, handlelength=1.2)
    return figure


def draw_links(
    links: pd.DataFrame, sites: Sequence[str], counted: str = "", width_in: float = WIDTH_IN
) -> Figure:
    """Draw goodput over rate while busy, and payload, per directed link.

    Small sparse overlays are bars, others a matrix of sources and destinations. With `counted`, the
    numbers are the interfaces', headers included (`link_table.use_interface_counters`), and rates
    are means over what `counted` names, such as `tasks`.
    """
    pairs = len(sites) * (len(sites) - 1)
    with mpl.rc_context(STYLE):
        if len(links) < pairs and len(links) <= BARS:
            what = f"rate during {counted}" if counted else "goodput while busy"
            return _draw_link_bars(links, what, width_in)
        return _draw_link_matrices(links, sites, counted, width_in)


def draw_accuracy(
    table: pd.DataFrame,
    target: Target = NO_TARGET,
    clock: str = "",
    faults: Sequence[Disturbance] = (),
    warm_up_s: float = 0.0,
    width_in: float = WIDTH_IN,
) -> Figure:
    """Draw every evaluation's accuracy and loss over time, the target, faults and the warm-up."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, min(4.2, 1.05 * width_in)), layout="constrained")
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(2.4, 1))
        line = "" if (table["of"] == "task").any() else "-"  # programs may report at many sites
        rows: tuple[tuple[Axes, Quantity, str, str, str], ...] = (
            (upper, "accuracy", "accuracy_percent", "test accuracy (%)", BLUE),
            (lower, "loss", "loss", "test loss", ORANGE),
        )
        for axes, what, column, label, colour in rows:
            axes.plot(table["t_s"], table[column], f"o{line}", color=colour, ms=3, lw=1, mew=0)
            axes.lines[0].set_label("one evaluation" if axes is upper else "_")
            axes.set(ylabel=label)
            if (wanted := target.describe(what)) is not None:
                axes.axhline(wanted[0], color=BLACK, lw=1, ls=(0, (5, 3)), label=wanted[1])
            axes.grid()
            fault_bands.draw_bands(axes, faults)
        draw_warm_up((upper, lower), warm_up_s, label="warm-up")
        known = [*zip(*upper.get_legend_handles_labels(), strict=True)]
        known += zip(*lower.get_legend_handles_labels(), strict=True)
        columns = count_columns(width_in, 2.2)
        figure.legend(*zip(*known, strict=True), loc="outside upper left", ncols=columns)
        lower.set(xlabel=f"{clock} time (s)".strip())
        lower.set_xlim(left=0)
    return figure


def add_legend(figure: Figure, columns: int, **options: Any) -> Legend:
    """A legend above a figure, in as many columns as it has room for, `columns` at most."""
    for number in range(max(1, columns), 0, -1):
        legend = figure.legend(loc="outside upper left", ncols=number, **options)
        figure.draw_without_rendering()
        if number == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    return legend


def count_columns(width_in: float, each_in: float) -> int:
    """The columns of a legend whose entries are `each_in` inches wide."""
    return max(1, int(width_in / each_in))


Kind = Literal["png", "svg", "pdf"]


def render(figure: Figure, kind: Kind) -> bytes:
    """The content of the figure's file: the same figure gives the same bytes."""
    return _save(figure, kind, _lay_out(figure))


def write(folder: RunFolder, name: str, figure: Figure) -> None:
    """Write `plots/<name>.png`, `.svg` and `.pdf`."""
    box = _lay_out(figure)
    for kind in get_args(Kind):
        folder.write_bytes(f"plots/{name}.{kind}", _save(figure, kind, box))


def draw_warm_up(
    grid: Sequence[Axes], end: float, begin: float = 0.0, label: str = WARM_UP
) -> None:
    """Draw the background of a warm-up on these axes, from `begin` to `end`; nothing without one.

    That of the first one has a label for the legend.
    """
    for number, axes in enumerate(grid if end > begin else ()):
        shown = "_" if number else label
        axes.axvspan(begin, end, color=VIOLET, zorder=-1, lw=0, label=shown)


def _lay_out(figure: Figure) -> Bbox:
    """Lay out a figure once for all of its files, as that takes as long as drawing it.

    Returns what a file shows, in inches: as wide as the figure, if all that is drawn fits into it.
    """
    with mpl.rc_context(STYLE):
        if engine := figure.get_layout_engine():
            engine.execute(figure)
        figure.set_layout_engine(None)  # with an engine, even "none", each file is drawn twice
        drawn: Bbox = figure.get_tightbbox().padded(PAD_IN)
    spare_in = max(0.0, figure.get_figwidth() - drawn.width)
    return Bbox([[drawn.x0 - spare_in / 2, drawn.y0], [drawn.x1 + spare_in / 2, drawn.y1]])


def _save(figure: Figure, kind: Kind, box: Bbox) -> bytes:
    buffer = io.BytesIO()
    # By default matplotlib writes its version and the date.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=300, metadata=metadata[kind], bbox_inches=box)
    return buffer.getvalue()


_GANTT: Mapping[str, str] = dict(
    zip(
        activity.KINDS,
        ("#d9dcea", "#a9d3ee", PALE, "#f7e6c4", ORANGE, GREEN, BLACK, BLUE, RED, PINK, GREY),
        strict=True,
    )
)
"""The colour of each kind of bar, in drawing order."""


def _draw_task_numbers(
    axes: Axes,
    history: History,
    sites: Sequence[str],
    window_s: tuple[float, float],
    width_in: float,
) -> None:
    """Write each task's number on its members' bars, unless most bars are too short for it."""
    size = 6.5 if len(sites) <= FEW_SITES else 5
    room_s = (window_s[1] - window_s[0]) * size / (84 * width_in)
    labels, tried = [], 0
    for site, done in history.phases.items():
        for phase in done:
            start_s, end_s = (np.clip(t / 1e9, *window_s) for t in (phase.start_ns, phase.end_ns))
            if phase.task is not None and site in sites and start_s < end_s:
                tried += 1
                if end_s - start_s > room_s * len(str(phase.task)):
                    labels.append(((start_s + end_s) / 2, sites.index(site), str(phase.task)))
    outline = [withStroke(linewidth=1.4, foreground="white")]
    for x, row, text in labels if len(labels) > tried / 2 else ():
        axes.text(
            x,
            row - 0.04,
            text,
            size=size,
            color=BLACK,
            ha="center",
            va="center",
            path_effects=outline,
        )


def _label_time(history: History) -> str:
    clock = "" if history.run is None else history.run.clock
    return f"{clock} time (s)".strip()


def _draw_link_bars(links: pd.DataFrame, what: str, width_in: float) -> Figure:
    figure = Figure(figsize=(width_in, 1.0 + 0.2 * len(links)), layout="constrained")
    axes = figure.add_subplot()
    y = np.arange(len(links))
    axes.barh(y, links["rate_mbps"], 0.78, fc="none", ec=GREY, lw=0.8, label="link rate")
    axes.barh(y, links["goodput_mbps"].fillna(0), 0.5, color=BLUE, label=what)
    most = links["rate_mbps"].max()
    columns = (links["rate_mbps"], links["utilisation_percent"], links["bytes"])
    for row, (rate, percent, size) in enumerate(zip(*columns, strict=True)):
        text = f"{percent:.0f} %, {_format(size / 1e6)} MB" if size else "not used"
        axes.text(rate + 0.01 * most, row, text, va="center", size=7)
    names = [f"{src} → {dst}" for src, dst in zip(links["src"], links["dst"], strict=True)]
    axes.set_yticks(y, names)
    axes.set(
        xlabel="Mbit/s",
        xlim=(0, (1 + 0.2 * WIDTH_IN / width_in) * most),
        ylim=(len(links) - 0.4, -0.6),
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _draw_link_matrices(
    links: pd.DataFrame, sites: Sequence[str], counted: str, width_in: float
) -> Figure:
    """Draw two matrices: beside each other, or below each other in a narrow figure."""
    shape, height = ((1, 2), 0.45) if width_in > NARROW_IN else ((2, 1), 1.8)
    figure = Figure(figsize=(width_in, height * width_in), layout="constrained")
    panels = (
        (
            "utilisation_percent",
            1.0,
            f"{f'rate during {counted}' if counted else 'goodput while busy'}, % of link rate",
            100.0,
        ),
        ("bytes", 1e-6, "bytes on the interface, MB" if counted else "payload, MB", None),
    )
    row = {site: number for number, site in enumerate(sites)}
    places = links["src"].map(row), links["dst"].map(row)
    idle = np.full((len(sites), len(sites)), np.nan)
    idle[places] = 0.08  # a pale grey below the cells: the link exists
    for axes, (column, factor, title, top) in zip(figure.subplots(*shape), panels, strict=True):
        cells = np.full((len(sites), len(sites)), np.nan)
        cells[places] = (links[column] * factor).where(links["bytes"] > 0)
        axes.imshow(idle, cmap="Greys", vmin=0, vmax=1)
        image = axes.imshow(cells, cmap="viridis", vmin=0, vmax=top)
        figure.colorbar(image, ax=axes, shrink=0.8)
        apart = ";\n" if width_in <= NARROW_IN else "; "
        unused = "" if links["bytes"].all() else f"{apart}grey: not used"
        _label_matrix(axes, sites, title + unused)
        if len(sites) <= CELLS_WITH_NUMBERS:
            _draw_matrix_numbers(axes, cells, image.get_clim()[1])
    return figure


def _label_matrix(axes: Axes, sites: Sequence[str], title: str) -> None:
    step = -(-len(sites) // MAX_NAMES)
    ticks, names = range(0, len(sites), step), sites[::step]
    size = 7 if len(sites) <= CELLS_WITH_NUMBERS else 5
    axes.set_xticks(ticks, names, rotation=90, size=size)
    axes.set_yticks(ticks, names, size=size)
    axes.set(xlabel="to", ylabel="from", title=title, facecolor="white")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _draw_matrix_numbers(axes: Axes, cells: NDArray[np.float64], top: float) -> None:
    for (row, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            colour = "white" if value < 0.55 * top else BLACK
            text = _format(value) if value == 0 or value >= 0.05 else "<0.1"
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                size=6 if len(cells) < 10 else 5,
                color=colour,
            )


def _format(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
