"""The overlay: a map or a matrix of links coloured by load, and loads over time (pure).

Both are drawn with the loads of the whole run. `scrub.js` shows the loads at one time instead; the
page contains them as letters, one per step and link.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trunkline.agents.events.lifecycle import Doing
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.report import activity
from trunkline.harness.report.overlay.link_load import Loads
from trunkline.harness.report.overlay.map_labels import Label, name_nodes
from trunkline.harness.report.overlay.router_network import count_sites, find_routers
from trunkline.harness.report.overlay.site_layout import (
    Place,
    bend_link,
    has_regions,
    place_sites,
)
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Child, Html, number, tag
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

SCRIPT = Path(__file__).with_name("scrub.js").read_text(encoding="utf-8")

MAX_LETTERS = 300_000
"""The most loads (steps times links) in a page; each is one letter."""

MAX_STEPS, MIN_STEPS = 120, 20
"""The number of steps in time; the more links, the fewer steps."""

MAP_LINKS, SPARSE_MAP_LINKS = 30, 150
"""The most directed links of a map; a sparse overlay, without half of the pairs, may have more."""

MATRIX_SITES = 100
"""The largest matrix; more cells would make the page too large."""

MAX_TITLES = 1000
"""The most links that have a tooltip with name and load."""

STRIP_LINKS = 40
"""The number of links, the busiest ones, that are shown over time."""

LEAST_CUT = 1.0
"""The least width of a cut over time, in units of the view box."""

LEVELS = (0.005, 0.2, 0.4, 0.6, 0.8)
"""The lower bounds of the second to sixth of six colours and widths, as loads."""

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno"
"""Loads in steps of 2 %: `0` is none, the last letter is 100 %. `-` is a link that is cut."""

DOING = {Doing.COMPUTING: "c", Doing.WAITING: "w", Doing.IN_TASK: "s"}
"""The letter of a site's main activity in a step."""

SITE_KEYS = (
    ("fill-compute", "the site mostly computes"),
    ("fill-wait", "waits"),
    ("fill-reduce", "synchronizes"),
    ("fill-life", "runs its program"),
    ("fill-fault", "is stopped or dead"),
    ("fill-ink", "does nothing"),
)
"""The colours of sites, in the order of SITE_LETTERS."""

SITE_LETTERS = "cwsrx-"

LEVEL_NAMES = ("idle", "up to 20 %", "up to 40 %", "up to 60 %", "up to 80 %", "up to 100 %")


def choose_steps(links: int) -> int:
    """How many steps of time a page has room for."""
    return int(np.clip(MAX_LETTERS // max(links, 1), MIN_STEPS, MAX_STEPS))


def draw_overlay(
    topology: Topology, shares: Sequence[float], loads: Loads | None, history: History, kind: str
) -> list[Child]:
    """Draw the overlay with the load of every link over the whole run.

    `shares` are these loads in the topology's order, and `kind` says in words what a load is. With
    `loads`, the figure has a slider through time.
    """
    sites = len(topology.node_names)
    is_map = _is_map(sites, len(topology.links))
    if not is_map and sites > MATRIX_SITES:
        return [_draw_routers(topology, shares, kind)]
    image, words = _draw_map(topology, shares) if is_map else _draw_matrix(topology, shares)
    words = f"Colour and width: {kind}. {words}" if is_map else f"Colour: {kind}. {words}"
    keys = _list_keys("key" if is_map else "level", loads is not None and bool(loads.cut.any()))
    legend = charts.make_legend(keys, "line" if is_map else "bar")
    shows_sites = is_map or has_regions(topology)
    doing = encode_activity(history, topology.site_names, loads) if loads else []
    figure = charts.make_figure(
        image,
        _tell_pointing(words) if is_map else words,
        legend,
        _write_controls(loads, doing if shows_sites else []) if loads else None,
    )
    figures = [figure]
    if not is_map and shows_sites:
        image, words = _draw_map(topology, shares, hidden=True)
        caption = f"Colour and width: {kind}. {words} The slider changes sites here, not links."
        figures.append(charts.make_figure(image, _tell_pointing(caption, alone="")))
    if loads is None:
        return list(figures)
    return [tag("div", *figures, id="overlay"), _write_data(topology, loads, doing)]


def _draw_routers(topology: Topology, shares: Sequence[float], kind: str) -> Html:
    """Draw the routers of a network that is too large for a map, if they can be drawn."""
    found = find_routers(topology)
    if found is None or not _is_map(len(found[0].sites), len(found[1])):
        what = f"{len(topology.node_names)} nodes and {len(topology.links)} links"
        return tag("p", f"No map: {what} are too many.")
    routers, numbers = found
    image, words = _draw_map(routers, [shares[number] for number in numbers], noun="router")
    words = words.replace("Sites stand", "Routers stand")
    caption = f"The routers alone, without their {count_sites(topology)}. {words}"
    legend = charts.make_legend(_list_keys("key", cut=False), "line")
    words = f"Colour and width: {kind}. {caption}"
    return charts.make_figure(image, _tell_pointing(words, "router"), legend)


def draw_strip(
    loads: Loads, total_bytes: Sequence[int], clock: str, assumed: str, warm_up_s: float = 0.0
) -> Html | None:
    """Draw the links that carried most, if any: a row for each, coloured by its load at that time.

    `assumed` is a sentence on when bytes count as sent, where the log does not tell. A line above
    the rows is the warm-up.
    """
    order = sorted(range(len(loads.links)), key=lambda n: (-total_bytes[n], n))
    used = [n for n in order if total_bytes[n] or loads.cut[:, n].any()]
    shown = used[:STRIP_LINKS]
    if not shown:
        return None
    names = [" → ".join(loads.links[n]) for n in shown]
    left, row = 14 + LETTER * max(6, *map(len, names), 0), 14.0
    bottom = 6 + row * len(shown)
    x = Scale(0.0, loads.step_s * loads.steps, left, WIDTH - 8)
    cells: dict[int | str, list[charts.Bar]] = {level: [] for level in (*range(1, 6), "cut")}
    for place, link in enumerate(shown):
        spans: list[tuple[int | str, float, float]] = [
            (level, first * loads.step_s, last * loads.step_s)
            for level, first, last in _find_runs([*map(find_level, loads.share[:, link])])
        ]
        spans += [("cut", *span) for span in loads.cuts_s.get(loads.links[link], ())]
        for kind, start_s, end_s in spans:
            if kind in cells:
                wide = max(LEAST_CUT * (kind == "cut"), x(end_s) - x(start_s))
                cells[kind].append((x(start_s), 7 + row * place, wide, row - 2))
    marks = [
        tag("text", name, x=left - 8, y=6 + row * place + 11, class_="tick end")
        for place, name in enumerate(names)
    ]
    unused = len(loads.links) - len(used)
    words = [f"The mean load of each step of {charts.format_value(loads.step_s)} s."]
    words += [f" {assumed}"]
    words += [f" Not shown: {len(used) - len(shown)} links that carried less."] * (shown != used)
    hidden = sum(bool(loads.cut[:, n].any()) for n in used[STRIP_LINKS:])
    words += [f" Of these, a fault cut {hidden} for some time."] * bool(hidden)
    words += [f" Not used at all: {unused} of {len(loads.links)} links."] * bool(unused)
    cursor = tag("path", d=f"M{left:.2f} 0V{bottom:.2f}", class_="cursor", id="cursor", hidden=True,
                 data_left=left, data_right=x.end)  # fmt: skip
    picture = charts.draw_picture(
        bottom + 46,
        f"The load of {len(shown)} links over time. {''.join(words)}",
        charts.draw_warm_up(x, warm_up_s, 0, 5),
        charts.draw_bars([(left, 6, x.end - left, row * len(shown))], "level-0"),
        Frame(x, Scale(0, 1, bottom, 6)).draw_axes(f"{clock} time (s)"),
        [charts.draw_bars(bars, f"level-{kind}") for kind, bars in cells.items()],
        marks,
        cursor,
    )
    keys = _list_keys("level", bool(cells["cut"]))
    keys += [("fill-warm-up", "warm-up")] if warm_up_s else []
    return charts.make_figure(picture, words, charts.make_legend(keys))


def find_level(share: float) -> int:
    """The number of a load's colour, 0 to 5."""
    return sum(share >= least for least in LEVELS)


def _list_keys(kind: str, cut: bool) -> list[tuple[str, str]]:
    """The legend of loads; it has an entry for cut links if `cut`."""
    names = [(f"{kind}-{level}", name) for level, name in enumerate(LEVEL_NAMES)]
    return [*names, *([(f"{kind}-cut", "cut by a fault")] if cut else ())]


def _is_map(sites: int, links: int) -> bool:
    """Whether a map shows the overlay, and not a matrix: arcs of a dense one hide each other."""
    is_sparse = 2 * links <= sites * (sites - 1)
    return links <= (SPARSE_MAP_LINKS if is_sparse else MAP_LINKS)


def _draw_map(
    topology: Topology, shares: Sequence[float], hidden: bool = False, noun: str = "site"
) -> tuple[Html, str]:
    """Draw nodes as dots and links as arcs that bend to the right; return words for a caption.

    With `hidden`, only the links of the site at which a user points are visible. `noun` is what
    the topology's sites are called.
    """
    height, border = 440.0 if has_regions(topology) else 560.0, 64.0
    found, meaning = place_sites(topology, WIDTH - 2 * border - 80, height - 2 * border, 74)
    top = min(y for _, y in found)
    height = min(height, max(y for _, y in found) - top + 2 * border)
    places = [(x + border + 40, round(y - top + border, 1)) for x, y in found]
    at = dict(zip(topology.node_names, places, strict=True))
    rank = topology.rank
    arcs = [
        tag(
            "g",
            _write_title(link, share),
            *_draw_link(at[link.src], at[link.dst], places),
            class_=f"link load-{find_level(share)}",
            data_ends=f"{rank(link.src)} {rank(link.dst)}",
        )
        for link, share in zip(topology.links, shares, strict=True)
    ]
    names = name_nodes(topology, at, WIDTH, height)
    dots = [
        _draw_site(site, rank(site.name), at[site.name], names.labels.get(site.name))
        for site in topology.sites
    ]
    isolate = "#overlay-map .link{opacity:0}" if hidden else ""
    isolate += "".join(
        f'#overlay-map:has([data-site="{rank(name)}"]:is(:hover,:focus)) '
        + (
            f'.link[data-ends~="{rank(name)}"]{{opacity:1}}'
            if hidden
            else f'.link:not([data-ends~="{rank(name)}"]){{opacity:.12}}'
        )
        for name in topology.site_names
    )
    words = f"Each link bends to the right of its direction, like right-hand traffic. {meaning}"
    routers = [_draw_router(name, at[name], names.labels.get(name)) for name in topology.routers]
    words += " Small dots are routers." if routers else ""
    if names.left_out:
        words += f" {names.left_out} without room for a name: point at the dot to read it."
    what = f"{len(dots)} {noun}s" + (f", {len(routers)} routers" if routers else "")
    label = f"Map of the network: {what} and {len(arcs)} links, coloured by load"
    return charts.draw_picture(
        height,
        label,
        tag("style", Html(isolate)),
        tag(
            "g",
            tag("g", arcs, id=None if hidden else "map-links"),
            tag("g", routers) if routers else None,
            tag("g", dots, id="map-sites"),
            id="overlay-map",
            class_=" ".join(["on-demand"] * hidden + ["small"] * names.is_small) or None,
        ),
    ), words


def _tell_pointing(words: str, noun: str = "site", alone: str = " alone") -> list[Child]:
    """The caption of a map: the words, and what a mouse can do, which no paper says."""
    return [words, tag("span", f" Point at a {noun} to see its links{alone}.", class_="by-hand")]


def _draw_site(site: Site, rank: int, place: Place, label: Label | None) -> Html:
    """Draw a site with its name."""
    x, y = place
    return tag(
        "g",
        tag("title", f"{site.name} {site.region}".strip()),
        tag("circle", cx=x, cy=y, r=9),
        _write_name(site.name, label, "place"),
        class_="site doing-all",
        data_site=rank,
        tabindex="0",
    )


def _draw_router(name: str, place: Place, label: Label | None) -> Html:
    """Draw a router with its name, if there is room for it."""
    dot = tag("circle", cx=place[0], cy=place[1], r=5)
    return tag(
        "g", tag("title", f"router {name}"), dot, _write_name(name, label, "tick"), class_="router"
    )


def _write_name(name: str, label: Label | None, kind: str) -> Html | None:
    if label is None:
        return None
    dx, dy = label.shift
    style = f"--dx:{number(dx)}px;--dy:{number(dy)}px" if dx or dy else None
    classes = f"{kind} {label.anchor}".strip()
    return tag("text", name, x=label.x, y=label.y, class_=classes, style=style)


def _write_title(link: Link, share: float) -> Html:
    return tag("title", f"{link.src} → {link.dst}: {share * 100:.0f} %")


def _draw_link(a: Place, b: Place, nodes: Sequence[Place]) -> tuple[Html, Html]:
    """The line of a link, which passes by other nodes, and its arrow head."""
    (ax, ay), (bx, by) = a, b
    (cx, cy), corners = bend_link(a, b, nodes)
    path = f"M{ax:.1f} {ay:.1f}Q{cx:.1f} {cy:.1f} {bx:.1f} {by:.1f}"
    head = f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in corners)}z"
    return tag("path", d=path), tag("path", d=head, class_="head")


def _draw_matrix(topology: Topology, shares: Sequence[float]) -> tuple[Html, str]:
    """Draw a matrix with a row per source and a column per destination; return words too."""
    names = topology.node_names
    left = 14 + LETTER * max(map(len, names))
    large = min(36.0, 560.0 / len(names))
    side = min(max(22.0, large), (WIDTH - left - 8) / len(names))
    top = left
    size = 12 if side > 13 else max(6.0, side * 0.85)
    rank = topology.rank
    titled = len(topology.links) <= MAX_TITLES

    def middle(place: int) -> float:
        return top + (place + 0.5) * side + size / 3

    cells = [
        tag(
            "rect",
            _write_title(link, share) if titled else None,
            x=left + rank(link.dst) * side,
            y=top + rank(link.src) * side,
            class_=f"link level-{find_level(share)}",
        )
        for link, share in zip(topology.links, shares, strict=True)
    ]
    cell_size = f"#map-links rect{{width:{number(side - 1)}px;height:{number(side - 1)}px}}"
    style = f"font-size:{number(size)}px"
    rows = [
        tag("text", name, x=left - 6, y=middle(row), class_="tick end", style=style)
        for row, name in enumerate(names)
    ]
    columns = [
        tag(
            "text",
            name,
            transform=f"translate({number(middle(column))} {number(top - 6)}) rotate(-90)",
            class_="tick",
            style=style,
        )
        for column, name in enumerate(names)
    ]
    height = top + side * len(names) + 8
    label = f"Matrix of the overlay's {len(cells)} links, coloured by load"
    picture = charts.draw_picture(
        height,
        label,
        tag("style", Html(cell_size)),
        tag("g", cells, id="map-links"),
        rows,
        columns,
        width=min(WIDTH, left + side * len(names) + 8),
    )
    return picture, "Rows send, columns receive."


def _write_controls(loads: Loads, doing: Sequence[str]) -> Html:
    """Slider and button. They are hidden until the script shows them."""
    used = {letter for row in doing for letter in row}
    keys = [key for letter, key in zip(SITE_LETTERS, SITE_KEYS, strict=True) if letter in used]
    slider = tag("input", type="range", id="when", min=0, max=loads.steps, value=0, step=1)
    return tag(
        "div",
        tag("button", "Play", type="button", id="play"),
        tag("label", "time", for_="when"),
        slider,
        tag("output", "the whole run", id="now", for_="when"),
        charts.make_legend(keys) if keys else None,
        class_="controls",
        hidden=True,
    )


def _write_data(topology: Topology, loads: Loads, doing: Sequence[str]) -> Html:
    """The script's data as JSON; `<` is escaped, so no name can end the element."""
    letters = np.array(list(LETTERS))
    shown = letters[np.clip(np.rint(loads.share * 50), 0, 50).astype(int)]
    shown = np.where(loads.cut, "-", shown)
    data = {
        "step": loads.step_s,
        "levels": LEVELS,
        "links": [" → ".join(ends) for ends in loads.links],
        "loads": ["".join(row) for row in shown],
        "doing": doing,
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", id="loads")


def encode_activity(history: History, sites: Sequence[str], loads: Loads) -> list[str]:
    """For each step, a letter for each site: its longest activity in the step.

    A server has no phases, so it synchronizes whenever it has a part in a task. A program that
    reports nothing just runs. An agent that was stopped or dead for half of a step is that.
    """
    edges_ns = np.arange(loads.steps + 1) * loads.step_s * 1e9

    def count(spans: Iterable[Interval]) -> NDArray[np.float64]:
        each = (np.diff(np.clip(edges_ns, start, end)) for start, end in spans)
        return sum(each, np.zeros(loads.steps))

    found, lives = history.phases, activity.find_lives(history)
    columns = []
    for site in sites:
        spent = {
            letter: count((p.start_ns, p.end_ns) for p in found.get(site, ()) if p.doing is doing)
            for doing, letter in DOING.items()
        }
        if not found.get(site):
            spans = (activity.find_task_spans(task) for task in history.tasks)
            spent["s"] = count(
                span for each in spans for (who, _), span in each.items() if who == site
            )
        names = np.array([*spent])
        most = names[np.argmax([*spent.values()], axis=0)]
        nothing = np.where(count(lives.get(site, ())) > 0, "r", "-")
        column = np.where(np.max([*spent.values()], axis=0) > 0, most, nothing)
        stops = count(
            (fault.started.t_ns, history.end_ns if fault.end_ns is None else fault.end_ns)
            for fault in history.faults
            if fault.started.verb in ("kill", "pause") and site in fault.started.targets
        )
        columns.append(np.where(stops > loads.step_s * 1e9 / 2, "x", column))
    return ["".join(row) for row in np.array(columns).T]


def _find_runs(kinds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Group equal neighbours as (kind, first, after the last)."""
    first = 0
    for place in range(1, len(kinds) + 1):
        if place == len(kinds) or kinds[place] != kinds[first]:
            yield kinds[first], first, place
            first = place
