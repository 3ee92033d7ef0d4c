"""Where the names of nodes stand on a map: they cover neither each other nor nodes (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trunkline.harness.report.overlay.site_layout import Place, find_gateways
from trunkline.topologies.model import Topology

ROUNDS = 4
"""How often each name that must be shown looks for a better side."""

HEIGHT = 1.0
"""The height of a line of text, in sizes of its letters; three quarters are above its foot."""

ANCHORS = ("middle", "", "end")
"""The class of a text that is centred at its place, begins there, or ends there."""

FEW, SITE, ROUTER = 15, 13.0, 11.5
"""A map of few nodes fits a narrow window, with larger names. The sizes of other names."""

BOLD, PLAIN = 0.67, 0.59
"""The width of a letter of the names of sites and of others, in sizes: the widest usual font's."""

LARGER = 2.0
"""How much larger names and dots of few nodes are in a narrow window (`style.css`)."""

NEAR = 40.0
"""A gateway that is closer to its site has no name of its own on the map."""

DISTANCES = (5.0, 10.0, 15.0)
"""How far names stand from the edges of their dots."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a node on a map.

    Attributes:
        text: the name.
        at: the middle of the node's dot.
        radius: that of the dot.
        size: the size of the letters.
        letter: the width of a letter, in sizes.
        low: whether the name rather stands below the dot.
        needed: whether it is shown even if it covers something.
    """

    text: str
    at: Place
    radius: float
    size: float
    letter: float
    low: bool = False
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Label:
    """Where a name stands.

    Attributes:
        x, y: the foot of its text.
        anchor: the class of the text's anchor.
        box: what the text covers.
        side: on which of eight sides of its dot it stands, near or further away.
        shift: how much further to the right and down a larger name stands, in a narrow window.
    """

    x: float
    y: float
    anchor: str
    box: Box
    side: int
    shift: Place = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class NodeNames:
    """The names of a map.

    Attributes:
        labels: the places of names; gateways beside their sites have none.
        left_out: the number of other routers without a name, for want of room.
        is_small: whether names do not cover each other in a narrow window either.
    """

    labels: Mapping[str, Label]
    left_out: int
    is_small: bool


def name_nodes(
    topology: Topology, at: Mapping[str, Place], width: float, height: float
) -> NodeNames:
    """Find room for the names of all nodes, which stand at these places of the map."""
    gateways = find_gateways(topology)
    beside = [n for n, site in gateways.items() if math.dist(at[n], at[site]) < NEAR]
    routers = [name for name in topology.routers if name not in beside]

    def make(factor: float) -> list[Name]:
        return [
            *(
                Name(name, at[name], 9 * factor, SITE * factor, BOLD, at[name][1] > height / 2)
                for name in topology.site_names
            ),
            *(
                Name(name, at[name], 5 * factor, ROUTER * factor, PLAIN, needed=False)
                for name in routers
            ),
        ]

    names, large = make(1.0), make(LARGER)
    is_small = False
    if len(topology.node_names) <= FEW:
        found = place_names(large, width, height)
        is_small = all(found) and are_apart(found, large)
    if is_small:
        found = [_shrink(each, name) for each, name in zip(found, names, strict=True)]
    else:
        found = place_names(names, width, height)
    shown = zip((*topology.site_names, *routers), found, strict=True)
    labels = {name: label for name, label in shown if label}
    return NodeNames(labels, found.count(None), is_small)


def place_names(names: Sequence[Name], width: float, height: float) -> list[Label | None]:
    """A label for each name, or None if one that is not needed would cover another or a dot.

    Names that are needed come first. Each takes the first of eight sides on which it covers least,
    and may choose again when the others have chosen.
    """
    dots = [_make_box(*name.at, name.radius) for name in names]
    found: list[Label | None] = [None] * len(names)
    needed = [n for n, name in enumerate(names) if name.needed]
    for number in [*needed * ROUNDS, *(n for n, name in enumerate(names) if not name.needed)]:
        others = [each.box for n, each in enumerate(found) if each and n != number]
        others += dots[:number] + dots[number + 1 :]
        sides = _list_sides(names[number])
        costs = [
            _measure_outside(side.box, width, height)
            + sum(_measure_common(side.box, other) for other in others)
            for side in sides
        ]
        best = min(range(len(sides)), key=costs.__getitem__)
        if names[number].needed or costs[best] == 0:
            found[number] = sides[best]
    return found


def _shrink(large: Label | None, name: Name) -> Label | None:
    """The label of a name on the side that was found for it in larger letters."""
    if large is None:
        return None
    found = _list_sides(name)[large.side]
    return replace(found, shift=(round(large.x - found.x, 1), round(large.y - found.y, 1)))


def are_apart(labels: Sequence[Label | None], dots: Sequence[Name]) -> bool:
    """Whether no label covers another one or another name's dot."""
    shown = [(n, each.box) for n, each in enumerate(labels) if each]
    boxes = [_make_box(*name.at, name.radius) for name in dots]
    return not any(
        _measure_common(box, other)
        for n, box in shown
        for m, other in [*shown, *enumerate(boxes)]
        if n != m
    )


def _list_sides(name: Name) -> list[Label]:
    """The places of a name around its dot: the usual one first, then the other sides, corners.

    The same a little further away come last.
    """
    return [
        _label(name, round_ * 8 + side, *place)
        for round_, away in enumerate(DISTANCES)
        for side, place in enumerate(_list_places(name, name.radius + away))
    ]


def _list_places(name: Name, gap: float) -> list[tuple[float, float, int]]:
    """The feet of a text on eight sides of a dot at this distance from its middle; anchors."""
    x, y = name.at
    rise = 0.35 * name.size  # from the foot of the text to the middle of its letters
    above, below = y - gap, y + gap + 0.75 * name.size
    first, second = (below, above) if name.low else (above, below)
    across = 0.7 * gap
    places = [(x, first, 0), (x, second, 0), (x + gap, y + rise, 1), (x - gap, y + rise, 2)]
    places += [
        (x + side, foot, 1 if side > 0 else 2)
        for foot in (first, second)
        for side in (across, -across)
    ]
    return places


def _label(name: Name, side: int, x: float, y: float, anchor: int) -> Label:
    wide, tall = len(name.text) * name.letter * name.size, HEIGHT * name.size
    left = (x - wide / 2, x, x - wide)[anchor]
    top = y - 0.75 * tall
    return Label(
        round(x, 1), round(y, 1), ANCHORS[anchor], (left, top, left + wide, top + tall), side
    )


def _make_box(x: float, y: float, radius: float) -> Box:
    return x - radius, y - radius, x + radius, y + radius


def _measure_common(a: Box, b: Box) -> float:
    """The area that two boxes have in common."""
    wide, tall = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide * tall if wide > 0 and tall > 0 else 0.0


def _measure_outside(box: Box, width: float, height: float) -> float:
    """How much of a box the picture would cut off, as an area."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _measure_common(box, (0.0, 0.0, width, height))
