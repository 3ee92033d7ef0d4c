"""The positions of an overlay's sites on a page (pure).

If all sites are in known regions, or have coordinates, they stand where these are on a map of the
world (equirectangular projection). Else distances approximate delays (classical multidimensional
scaling: Torgerson 1952), or if one direction has all of them, distances from left to right. If all
delays are about equal, the sites stand on a circle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import GATEWAY, find_gateway
from trunkline.topologies.rates.regions import find_region

ALIKE = 0.05
"""Delays that differ by less than this share of the largest count as equal."""

FLAT = 0.02
"""If the second axis has less than this share of the first axis' spread, it means nothing."""

ROUNDS = 200
"""The most passes that push apart sites which are too near each other."""

BENDS = (1.0, 1.6, 0.4, 2.0)
"""How much a link may bend, relative to the usual bend, the preferred first."""

CLEAR = 18.0
"""The distance between a link and other nodes that is enough, in units of the view box."""

Place = tuple[float, float]


def has_regions(topology: Topology) -> bool:
    """Whether it is known where every node is, so that `place_sites` uses it."""
    return _find_places(topology) is not None


def _find_places(topology: Topology) -> list[Place] | None:
    """Latitude and longitude of every node in the order of ranks; None if one is unknown.

    A gateway is where its site is.
    """
    known = {node: (latitude, longitude) for node, latitude, longitude in topology.places}
    known |= {site.name: at for site in topology.sites if (at := find_region(site.region))}
    known = {f"{name}{GATEWAY}": at for name, at in known.items()} | known
    if not set(topology.node_names) <= known.keys():
        return None
    return [known[name] for name in topology.node_names]


def place_sites(
    topology: Topology, width: float, height: float, least: float
) -> tuple[list[Place], str]:
    """Every node's position in the order of ranks, and what positions mean, in words.

    The positions are within `width` and `height` and about `least` or more apart; on a map of the
    world, three quarters of that.
    """
    if has_regions(topology) and len(topology.sites) > 1:
        found = _separate_places(topology, _fit(_project(topology), width, height), 0.75 * least)
        return _round(_fit(found, width, height)), (
            "Sites stand at their coordinates."
            if topology.places
            else "Sites stand where their regions are."
        )
    delays_ms = _compute_delays_ms(topology)
    apart = delays_ms[~np.eye(len(delays_ms), dtype=bool)]
    if len(delays_ms) > 2 and apart.min() < (1 - ALIKE) * apart.max():
        found, spreads = _scale(delays_ms)
        is_flat = spreads[1] <= FLAT * spreads[0]
        if is_flat:
            found = _spread_line(found)
        found = _fit(_separate(_fit(found, width, height), least), width, height)
        direction = " from left to right" if is_flat else ""
        return _round(found), f"Distances{direction} approximate delays."
    circle = _place_on_circle(len(delays_ms), width, height)
    return _round(circle), "Positions have no meaning: all delays are about equal."


def bend_link(
    a: Place, b: Place, nodes: Sequence[Place] = ()
) -> tuple[Place, tuple[Place, Place, Place]]:
    """The line of the link from a to b, which bends to the right of its direction.

    It bends so much that it passes by all `nodes`, as far as one of BENDS does.

    Returns the control point of its quadratic curve, and the corners of an arrow head past its
    middle.
    """
    (ax, ay), (bx, by) = a, b
    length = math.hypot(bx - ax, by - ay)
    ux, uy = (bx - ax) / length, (by - ay) / length
    most = min(0.16 * length, 60.0)
    controls = [
        ((ax + bx) / 2 - uy * bend * most, (ay + by) / 2 + ux * bend * most) for bend in BENDS
    ]
    others = np.array([node for node in nodes if node not in (a, b)])
    cx, cy = controls[0]
    if len(others):
        free = [min(CLEAR, _compute_distance((a, control, b), others)) for control in controls]
        cx, cy = controls[free.index(max(free))]
    mx, my = (ax + 2 * cx + bx) / 4 + ux * 7, (ay + 2 * cy + by) / 4 + uy * 7
    left = (mx - 13 * ux - 6 * uy, my - 13 * uy + 6 * ux)
    right = (mx - 13 * ux + 6 * uy, my - 13 * uy - 6 * ux)
    return (cx, cy), ((mx, my), left, right)


def _compute_distance(curve: tuple[Place, Place, Place], nodes: NDArray[np.float64]) -> float:
    """The distance between a quadratic curve and the node that is nearest to it."""
    t = np.linspace(0.0, 1.0, 41)[:, None]
    a, control, b = map(np.array, curve)
    points = (1 - t) ** 2 * a + 2 * t * (1 - t) * control + t**2 * b
    return float(np.hypot(*(points[:, None] - nodes[None]).transpose(2, 0, 1)).min())


def find_gateways(topology: Topology) -> dict[str, str]:
    """The gateway of each site that has one of its own -> the site."""
    gateways = {name: find_gateway(topology, name) for name in topology.site_names}
    sites = Counter(gateways.values())
    return {gateway: name for name, gateway in gateways.items() if gateway and sites[gateway] == 1}


def _separate_places(
    topology: Topology, points: NDArray[np.float64], least: float
) -> NDArray[np.float64]:
    """Push nodes apart; a gateway stays beside its site, on the side of the map's middle."""
    gateways = find_gateways(topology)
    others = [n for n, name in enumerate(topology.node_names) if name not in gateways]
    points = points.copy()
    points[others] = _separate(points[others], least)
    middle = points[others].mean(axis=0)
    for gateway, site in gateways.items():
        at = points[topology.rank(site)]
        away = float(np.hypot(*(middle - at))) or 1.0
        points[topology.rank(gateway)] = at + (middle - at) / away * 0.5 * least
    return points


def _project(topology: Topology) -> NDArray[np.float64]:
    """Longitudes and negative latitudes of the sites, cut where the most longitudes are empty."""
    latitudes, longitudes = np.array(_find_places(topology)).T
    order = np.sort(longitudes)
    gaps = np.diff([*order, order[0] + 360])
    first = order[(int(gaps.argmax()) + 1) % len(order)]
    return np.column_stack(((longitudes - first) % 360, -latitudes))


def _compute_delays_ms(topology: Topology) -> NDArray[np.float64]:
    """Delays between all nodes along the shortest paths; the mean of both directions."""
    rank = {name: number for number, name in enumerate(topology.node_names)}
    found = np.full((len(rank), len(rank)), np.inf)
    np.fill_diagonal(found, 0.0)
    for link in topology.links:
        found[rank[link.src], rank[link.dst]] = link.delay_ms
    for via in range(len(rank)):
        found = np.minimum(found, found[:, via, None] + found[None, via, :])
    both: NDArray[np.float64] = (found + found.T) / 2
    return both


def _scale(distances: NDArray[np.float64]) -> tuple[NDArray[np.float64], Sequence[float]]:
    """Points on a plane with approximately these distances, and the spread of both axes.

    The first axis is the wider one.
    """
    count = len(distances)
    centre = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    order = np.argsort(values)[::-1][:2]
    points = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
    for axis in range(2):  # signs of eigenvectors are arbitrary: put the first site left and above
        if points[0, axis] > 0:
            points[:, axis] *= -1
    return points, [float(value) for value in values[order]]


def _spread_line(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points on a line in lanes, so that neighbours and their links can be told apart."""
    spread = points.copy()
    order = np.argsort(points[:, 0], kind="stable")
    spread[order, 1] = (np.arange(len(points)) % 3 - 1) * 0.25 * np.ptp(points[:, 0])
    return spread


def _fit(points: NDArray[np.float64], width: float, height: float) -> NDArray[np.float64]:
    """Scale the points to the largest size that fits, and centre them."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.maximum(high - low, 1e-9)
    factor = min(width / size[0], height / size[1])
    fitted: NDArray[np.float64] = (points - (low + high) / 2) * factor
    fitted += np.array([width / 2, height / 2])
    return fitted


def _separate(points: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Push apart points that are closer than `least`, in the order of the sites."""
    points = points.copy()
    for _ in range(ROUNDS):
        moved = False
        for one in range(len(points)):
            for other in range(one):
                between = points[one] - points[other]
                distance = float(np.hypot(*between))
                if distance < least:
                    angle = one * 2.4  # the golden angle: no two equal points go the same way
                    way = (
                        between / distance
                        if distance > 1e-6
                        else (math.cos(angle), math.sin(angle))
                    )
                    push = np.array(way) * (least - distance) / 2 * 1.02  # 2 % against rounding
                    points[one] += push
                    points[other] -= push
                    moved = True
        if not moved:
            break
    return points


def _place_on_circle(count: int, width: float, height: float) -> NDArray[np.float64]:
    turns = [2 * math.pi * number / count - math.pi / 2 for number in range(count)]
    points = [(math.cos(turn) * width / 2, math.sin(turn) * height / 2) for turn in turns]
    centred: NDArray[np.float64] = np.array(points) + np.array([width / 2, height / 2])
    return centred


def _round(points: NDArray[np.float64]) -> list[Place]:
    return [(round(float(x), 1), round(float(y), 1)) for x, y in points]
