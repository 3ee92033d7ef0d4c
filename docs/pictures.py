"""Make the pictures of the README and the docs by their commands.

    python docs/pictures.py                       those of a first run, in minutes
    python docs/pictures.py scale.png             one, by its name
    python docs/pictures.py --list

A run that a picture needs is carried out in this checkout, unless `runs/` has it already.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from rich.console import Console
from rich.terminal_theme import MONOKAI

from trunkline.agents.events.event_reading import parse
from trunkline.harness.live.live_view import View
from trunkline.harness.report.plots import render
from trunkline.harness.scenario.loading import load
from trunkline.topologies.model import Topology

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

PLACES = {
    "iowa": (41.3, -95.9),
    "saopaulo": (-23.5, -46.6),
    "ireland": (53.3, -6.3),
    "stockholm": (59.3, 18.1),
    "mumbai": (19.1, 72.9),
    "jakarta": (-6.2, 106.8),
    "tokyo": (35.7, 139.7),
    "seoul": (37.6, 127.0),
    "sydney": (-33.9, 151.2),
}
"""Latitude and longitude of the nine regions of `quickstart`, in degrees, by the names of their
cities: providers do not publish the places of data centres."""

COAST_LINES = DOCS / "coast_lines.json"
"""Lines of (longitude, latitude) in degrees: Natural Earth at 1:110 million (public domain),
simplified to 0.6 degrees and without small islands."""

BELOW = ("tokyo", "jakarta", "saopaulo", "sydney")
"""Sites whose names stand below their dots."""

COLUMNS, ROWS = 100, 18
FRAME_S = 2.0
"""The virtual time between two frames of `watch.svg`."""

SHOWN_S = 0.5
"""How long each of its frames is shown."""

PARTS = "{styles}\0{backgrounds}{matrix}\0{width}\0{height}"
"""What rich writes of a frame: its styles, its contents, and its size in pixels."""


def main() -> int:
    """Make the named pictures, by default those of the README."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pictures", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the pictures")
    arguments = parser.parse_args()
    if arguments.list:
        sys.stdout.write("".join(f"{name}\n" for name in (*OF_README, *COMMANDS)))
        return 0
    if unknown := {*arguments.pictures} - OF_README.keys() - COMMANDS.keys():
        parser.error(f"{', '.join(unknown)}: expected one of {', '.join((*OF_README, *COMMANDS))}")
    for name in arguments.pictures or OF_README:
        if name in OF_README:
            OF_README[name](DOCS / name)
        else:
            _carry_out(*COMMANDS[name], DOCS / name)
        sys.stdout.write(f"{DOCS / name}\n")
    return 0


def copy_gantt(path: Path) -> None:
    """What each site does over time: the figure that every run of `quickstart` leaves."""
    shutil.copy(_find_run("quickstart") / "plots" / "gantt.png", path)


def draw_regions(path: Path) -> None:
    """A map of the sites of `quickstart`; links are coloured by their rates."""
    topology = load(ROOT / "scenarios" / "quickstart.yaml").topology
    with mpl.rc_context({"font.size": 8, "svg.hashsalt": "trunkline"}):
        figure = Figure(figsize=(7.16, 3.3), layout="constrained")
        axes = figure.add_subplot()
        coasts = json.loads(COAST_LINES.read_text())
        axes.add_collection(LineCollection(coasts, colors="#b0b0b0", lw=0.6))
        _draw_links(figure, axes, topology)
        for name, (latitude, longitude) in PLACES.items():
            axes.plot(longitude, latitude, "o", color="black", markersize=4, zorder=3)
            axes.annotate(
                name,
                (longitude, latitude),
                xytext=(0, -11 if name in BELOW else 5),
                textcoords="offset points",
                ha="center",
                bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
                zorder=4,
            )
        axes.set(xlim=(-180, 180), ylim=(-78, 90), xlabel="longitude (°)", ylabel="latitude (°)")
        axes.grid(color="#dddddd", lw=0.5)
        axes.set_axisbelow(True)
        path.write_bytes(render(figure, "svg"))


def _draw_links(figure: Figure, axes: Axes, topology: Topology) -> None:
    """A line for each pair of sites along the great circle, coloured by the mean of both rates."""
    lines, rates_mbps = [], []
    for link in topology.links:
        if link.src < link.dst:
            back = topology.link(link.dst, link.src)
            for part in _list_great_circle(PLACES[link.src], PLACES[link.dst]):
                lines.append(part)
                rates_mbps.append((link.rate_mbps + back.rate_mbps) / 2)
    drawn = LineCollection(lines, array=np.array(rates_mbps), cmap="viridis_r", lw=1.0)
    axes.add_collection(drawn)
    figure.colorbar(drawn, ax=axes, label="rate, mean of both directions (Mbit/s)", aspect=30)


def _list_great_circle(
    one: tuple[float, float], other: tuple[float, float]
) -> Iterator[list[tuple[float, float]]]:
    """The shortest way as (longitude, latitude), in two parts if it crosses the date line."""
    latitudes, longitudes = np.radians([one, other]).T
    around = np.column_stack([np.cos(longitudes), np.sin(longitudes)])
    ends = np.column_stack([np.cos(latitudes)[:, None] * around, np.sin(latitudes)])
    angle = np.arccos(ends[0] @ ends[1])
    steps = np.linspace(0, 1, 60)[:, None]
    points = np.sin((1 - steps) * angle) * ends[0] + np.sin(steps * angle) * ends[1]
    x, y, z = points.T / np.sin(angle)
    way = np.degrees(np.column_stack([np.arctan2(y, x), np.arcsin(z)]))
    cut = np.flatnonzero(np.abs(np.diff(way[:, 0])) > 180) + 1
    for part in np.split(way, cut):
        yield [(float(longitude), float(latitude)) for longitude, latitude in part]


def draw_watch(path: Path) -> None:
    """`trunkline run outage --watch` as an animated SVG, from the log of such a run."""
    run_dir = _find_run("outage")
    scenario = load(run_dir / "resolved.yaml")
    log = (run_dir / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [parse(line.encode()) for line in log]
    end_ns = events[-1].t_ns
    lasted_s = (run_dir / "events.jsonl").stat().st_mtime - (
        run_dir / "environment.json"
    ).stat().st_mtime
    now_s = 0.0
    view = View(scenario, lambda: now_s * lasted_s / (end_ns / 1e9))
    frames: list[list[str]] = []
    for event in events:
        while event.t_ns / 1e9 > now_s + FRAME_S:
            now_s += FRAME_S
            view.state.now_ns = round(now_s * 1e9)
            view.latest = view.state.progress()
            frames.append(_draw_frame(view, len(frames)))
        view.state.update(event)
    path.write_text(_animate(frames), encoding="utf-8")


def _draw_frame(view: View, number: int) -> list[str]:
    """The picture at one moment as `PARTS`."""
    console = Console(
        record=True, file=io.StringIO(), force_terminal=True, width=COLUMNS, height=ROWS
    )
    console.print(view, height=ROWS)
    made = console.export_svg(theme=MONOKAI, code_format=PARTS, unique_id=f"f{number}")
    return re.sub(r' clip-path="[^"]*"', "", made).split("\0")


def _animate(frames: list[list[str]]) -> str:
    """Frames on top of each other, of which one after the other is visible."""
    width, height = frames[0][2:]
    total_s = len(frames) * SHOWN_S
    styles = "\n".join(frame[0] for frame in frames)
    shown = "\n".join(
        f'<g class="frame" style="animation-delay:{number * SHOWN_S - total_s:g}s" '
        f'transform="translate(10 10)">{frame[1]}</g>'
        for number, frame in enumerate(frames)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
text {{ font: 20px monospace; white-space: pre; }}
.frame {{ visibility: hidden; animation: show {total_s:g}s step-end infinite; }}
.frame:nth-of-type({len(frames) // 2}) {{ visibility: visible; }}
@keyframes show {{
  0% {{ visibility: visible; }}
  {100 / len(frames):.4g}%, 100% {{ visibility: hidden; }}
}}
{styles}
</style>
<rect width="100%" height="100%" rx="8" fill="{MONOKAI.background_color.hex}"/>
{shown}
</svg>
"""


def _find_run(scenario: str) -> Path:
    """The latest run of a scenario in this checkout, which is carried out if there is none."""
    latest = ROOT / "runs" / scenario / "latest"
    if not (latest / "verdict.json").exists():
        command = [sys.executable, "-m", "trunkline.harness.commands.main", "run", scenario]
        subprocess.run(command, cwd=ROOT, check=True)
    return latest


def _carry_out(command: str, made: str, path: Path) -> None:
    """Carry out a command, and copy the picture that it makes; none if it writes `path`."""
    program = "-m trunkline.harness.commands.main" if command.startswith("trunkline") else ""
    words = shlex.split(f"{program} {command.partition(' ')[2]}")
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    if made:
        shutil.copy(ROOT / made, path)


OF_README: dict[str, Callable[[Path], None]] = {
    "quickstart.png": copy_gantt,
    "regions.svg": draw_regions,
    "watch.svg": draw_watch,
}
COMMANDS = {
    "awareness.png": (
        'trunkline run scenarios/awareness.yaml --set "topology.loss=0 %"',
        "runs/awareness/latest/plots/probes.png",
    ),
    "fidelity.png": (
        "trunkline bench fidelity --grid --out runs/fidelity-grid",
        "runs/fidelity-grid/plots/fidelity.png",
    ),
    "scale.png": (
        "python benchmarks/scale.py --shape full_mesh --forms 1 --sites 5 10 20 40 60 80 --rounds "
        "2 --plot docs/scale.png",
        "",
    ),
}
"""The pictures of other pages, which take longer: the command, and the figure that it makes."""

if __name__ == "__main__":
    sys.exit(main())
