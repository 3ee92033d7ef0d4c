"""The map of a run as an animated GIF, for talks: loads, activities and faults over time (pure)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from PIL import Image

from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.report import plots
from trunkline.harness.report.faults.fault_layout import shorten
from trunkline.harness.report.overlay.link_load import (
    Loads,
    compute_counted_loads,
    compute_loads,
)
from trunkline.harness.report.overlay.map_labels import Name, place_names
from trunkline.harness.report.overlay.overlay_section import (
    LEVEL_NAMES,
    encode_activity,
    find_level,
)
from trunkline.harness.report.overlay.site_layout import Place, bend_link, place_sites
from trunkline.harness.scenario.settings import Scenario

STEPS, FRAME_MS, LAST_MS = 120, 100, 2000
"""Frames, how long each is shown, and the last one."""

WIDTH, HEIGHT = 960, 540
"""The size of a frame in pixels."""

FAULT_LETTERS = 120
"""The longest text of a fault, which has a line of its own."""

FAULT_LINES = 3
"""The most lines of faults; the rest are counted in the last one."""

LETTERS = 12.5
"""The size of the names of sites in pixels."""

HALO = 3.0
"""The width of the edge of names, in the colour of the background: links pass behind them."""

ALIGNMENTS = {"middle": "center", "": "left", "end": "right"}

PALETTE_FRAMES = 12
"""The colours of all frames are those of so many."""

MAX_NODES, MAX_LINKS = 100, 1000
"""The largest overlay of which an animation is drawn."""

LEVEL_COLOURS = ("#e3e7ea", "#c3dcef", "#8dbfe0", "#4a98c9", "#1764ab", "#08264f")
LEVEL_WIDTHS = (0.8, 1.4, 2.0, 2.6, 3.2, 3.8)
CUT = plots.RED
"""Colours and widths of links by load, and the colour of one that is cut."""

SLOWED_LEVEL, SLOWED_DASHES = 2, (0, (2.2, 1.6))
"""The least level in whose look a link is drawn that a fault slowed, so that its dashes are seen.
"""

GREY = "#56606b"
DOING_COLOURS = {
    "c": plots.SKY, "w": plots.PALE, "s": plots.ORANGE, "r": "#aab4d8", "x": plots.RED, "-": GREY
}  # fmt: skip
DOING_NAMES = {
    "c": "computes",
    "w": "waits",
    "s": "synchronizes",
    "r": "runs",
    "x": "stopped",
    "-": "does nothing",
}
"""The colour and the meaning of each letter of `encode_activity`."""


class TooLargeError(ValueError):
    """The overlay has too many nodes or links for a map."""


def render(scenario: Scenario, history: History) -> bytes:
    """The GIF of a run. Raises TooLargeError, and ValueError if nothing happened in the run."""
    topology = scenario.topology
    nodes, links = len(topology.node_names), len(topology.links)
    if nodes > MAX_NODES or links > MAX_LINKS:
        raise TooLargeError(
            f"{nodes} nodes and {links} links: expected at most {MAX_NODES} and {MAX_LINKS}"
        )
    if not history.events:
        raise ValueError("nothing happened in this run")
    if scenario.runs_programs:
        loads = compute_counted_loads(history, topology, STEPS)
    else:
        loads = compute_loads(history, topology, STEPS, payload_share(scenario.network.mtu))
    with mpl.rc_context(plots.STYLE):
        picture = _Picture.draw(
            scenario, loads, encode_activity(history, topology.site_names, loads)
        )
        frames = [picture.frame(step, _list_faults(history, loads, step)) for step in range(STEPS)]
    palette = _find_palette(frames)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    shown = io.BytesIO()
    durations = [FRAME_MS] * (STEPS - 1) + [LAST_MS]
    frames[0].save(
        shown, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0
    )
    return shown.getvalue()


def _find_palette(frames: Sequence[Image.Image]) -> Image.Image:
    """One palette for all frames, as flat colours would flicker with one for each."""
    some = frames[:: max(1, len(frames) // PALETTE_FRAMES)]
    below = Image.new("RGB", (WIDTH, HEIGHT * len(some)))
    for place, frame in enumerate(some):
        below.paste(frame, (0, HEIGHT * place))
    return below.quantize(256)


@dataclass(frozen=True, slots=True)
class _Picture:
    """A figure whose parts change from frame to frame."""

    canvas: FigureCanvasAgg
    loads: Loads
    doing: Sequence[str]
    lines: PathCollection
    heads: PolyCollection
    sites: Sequence[Circle]
    time: Text
    faults: Text
    bar: Line2D

    @classmethod
    def draw(cls, scenario: Scenario, loads: Loads, doing: Sequence[str]) -> _Picture:
        """Draw what stays, and what changes as in no frame yet."""
        topology = scenario.topology
        figure = Figure((WIDTH / 100, HEIGHT / 100), dpi=100, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.set_axis_off()
        found, _ = place_sites(topology, WIDTH - 220, HEIGHT - 220, 60)
        at = dict(zip(topology.node_names, [(x + 110, y + 100) for x, y in found], strict=True))
        lines, heads = _draw_links(
            [(at[src], at[dst]) for src, dst in loads.links], list(at.values())
        )
        axes.add_collection(lines)
        axes.add_collection(heads)
        for name in topology.routers:
            axes.add_patch(Circle(at[name], 4, color=GREY, zorder=3))
        sites = [Circle(at[name], 9, ec="#1d2329", lw=1, zorder=3) for name in topology.site_names]
        for site in sites:
            axes.add_patch(site)
        names = [
            Name(name, at[name], 9, LETTERS, 0.62, at[name][1] > HEIGHT / 2)
            for name in topology.site_names
        ]
        for each, label in zip(names, place_names(names, WIDTH, HEIGHT), strict=True):
            if label:
                side, size = ALIGNMENTS[label.anchor], 0.72 * LETTERS  # points, at 100 per inch
                axes.text(
                    label.x,
                    label.y,
                    each.text,
                    ha=side,
                    size=size,
                    weight="bold",
                    zorder=4,
                    path_effects=[withStroke(linewidth=HALO, foreground="white")],
                )
        axes.text(20, 30, scenario.name, size=14, weight="bold", va="center")
        _draw_legend(axes, {letter for row in doing for letter in row}, loads)
        axes.add_line(Line2D((20, WIDTH - 20), (HEIGHT - 14,) * 2, color="#e3e7ea", lw=4))
        bar = axes.add_line(Line2D((20, 20), (HEIGHT - 14,) * 2, color=plots.BLUE, lw=4))
        time = axes.text(WIDTH - 20, 30, "", size=14, ha="right", va="center")
        faults = axes.text(20, 46, "", size=9, color=CUT, va="top")
        canvas = FigureCanvasAgg(figure)
        return cls(canvas, loads, doing, lines, heads, sites, time, faults, bar)

    def frame(self, step: int, faults: str) -> Image.Image:
        """The picture of one step."""
        cut, slowed = self.loads.cut[step], self.loads.slowed[step]
        levels = [
            max(find_level(share), SLOWED_LEVEL * slow)
            for share, slow in zip(self.loads.share[step], slowed, strict=True)
        ]
        colours = [CUT if off else LEVEL_COLOURS[n] for off, n in zip(cut, levels, strict=True)]
        self.lines.set(edgecolor=colours, linewidth=[LEVEL_WIDTHS[level] for level in levels])
        self.lines.set_linestyle(
            [
                "dotted" if off else SLOWED_DASHES if slow else "solid"
                for off, slow in zip(cut, slowed, strict=True)
            ]
        )
        self.heads.set_facecolor(colours)
        for site, letter in zip(self.sites, self.doing[step], strict=True):
            site.set_facecolor(DOING_COLOURS[letter])
        end_s = (step + 1) * self.loads.step_s
        self.time.set_text(f"{end_s:.1f} s")
        self.faults.set_text(faults)
        self.bar.set_xdata((20, 20 + (WIDTH - 40) * (step + 1) / self.loads.steps))
        self.canvas.draw()  # type: ignore[no-untyped-call]
        pixels = self.canvas.buffer_rgba()  # type: ignore[no-untyped-call]
        return Image.fromarray(np.asarray(pixels)).convert("RGB")


def _draw_links(
    ends: Sequence[tuple[Place, Place]], nodes: Sequence[Place]
) -> tuple[PathCollection, PolyCollection]:
    """The lines of links, which pass by other nodes, and their arrow heads."""
    curve = [Path.MOVETO, Path.CURVE3, Path.CURVE3]
    paths, heads = [], []
    for a, b in ends:
        control, head = bend_link(a, b, nodes)
        paths.append(Path([a, control, b], curve))
        heads.append(head)
    lines = PathCollection(paths, facecolor="none", zorder=1, capstyle="round")
    return lines, PolyCollection(heads, edgecolor="none", zorder=2)


def _draw_legend(axes: Axes, doing: set[str], loads: Loads) -> None:
    """One row above the bar: loads of links, and what sites do."""
    keys: list[tuple[str, Line2D]] = [
        (name.removeprefix("up to "), Line2D([], [], color=colour, lw=width + 1))
        for name, colour, width in zip(LEVEL_NAMES, LEVEL_COLOURS, LEVEL_WIDTHS, strict=True)
    ]
    keys += [("cut", Line2D([], [], color=CUT, lw=2, ls=":"))] * bool(loads.cut.any())
    slow = Line2D([], [], color=LEVEL_COLOURS[3], lw=1.8, ls=SLOWED_DASHES)
    keys += [("slowed", slow)] * bool(loads.slowed.any())
    keys += [
        (DOING_NAMES[letter], Line2D([], [], marker="o", ls="", mfc=colour, mec="#1d2329"))
        for letter, colour in DOING_COLOURS.items()
        if letter in doing
    ]
    names, handles = zip(*keys, strict=True)
    axes.legend(
        handles,
        names,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.04),
        ncols=len(keys),
        fontsize=7.5,
        handlelength=1.6,
        columnspacing=1.2,
    )


def _list_faults(history: History, loads: Loads, step: int) -> str:
    """The faults that are active in a step, in words."""
    start_ns, end_ns = (edge * loads.step_s * 1e9 for edge in (step, step + 1))
    active = [
        shorten(fault.started.text, FAULT_LETTERS)
        for fault in history.faults
        if fault.started.t_ns < end_ns
        and (fault.end_ns is None or fault.end_ns > start_ns)
        and fault.started.targets
    ]
    if len(active) > FAULT_LINES:
        active[FAULT_LINES - 1 :] = [f"and {len(active) - FAULT_LINES + 1} more faults"]
    return "\n".join(active)
