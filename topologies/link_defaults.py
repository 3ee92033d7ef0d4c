"""What all links of a topology have beside the options of its builder (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from trunkline.topologies.formats import delay_file
from trunkline.topologies.formats.network_file import NOTED, ReadFile
from trunkline.topologies.links import (
    UNIFORM,
    Link,
    LinkOverride,
    TopologyError,
    find_problem,
    is_random,
)
from trunkline.topologies.model import Topology

_PLAIN = Link("a", "b", 1.0)
"""A link with the usual values."""

Refused = tuple[str, str]
"""An option, and what is wrong with it."""


def impair(
    topology: Topology,
    read: ReadFile,
    *,
    burst: float = 1.0,
    reorder_percent: float = 0.0,
    duplicate_percent: float = 0.0,
    corrupt_percent: float = 0.0,
    distribution: str = UNIFORM,
    correlation_percent: float = 0.0,
) -> tuple[Topology, tuple[Refused, ...]]:
    """The topology with these values on all links that can have them, and what is impossible.

    Links that have other values keep them, except for `burst`.

    Options:
        burst: how many packets in a row are lost on average.
        reorder_percent: the share of packets that leave out the delay, on all links with a delay.
        duplicate_percent: the share of packets that arrive twice.
        corrupt_percent: the share of packets with a wrong bit.
        distribution: how delays spread, on all links with jitter; a file of delays gives delay and
            jitter to links without jitter.
        correlation_percent: how likely a packet shares the fate of the one before.
    """
    problems: list[Refused] = []
    links = list(topology.links)

    def change(name: str, value: Any, can: Callable[[Link], object], needs: str = "") -> None:
        usual = getattr(_PLAIN, name)
        if value == usual:
            return
        problem = find_problem(name, value)
        if problem or not any(map(can, links)):
            problems.append((name, problem or f"expected links with {needs}"))
            return
        for place, link in enumerate(links):
            if can(link) and (name == "burst" or getattr(link, name) == usual):
                links[place] = replace(link, **{name: value})

    change("burst", burst, bool)
    change("reorder_percent", reorder_percent, lambda link: link.delay_ms, "a delay")
    change("duplicate_percent", duplicate_percent, bool)
    change("corrupt_percent", corrupt_percent, bool)
    if delay_file.is_file(distribution):
        try:
            found = _read_delays(distribution, read)
        except TopologyError as error:
            problems.append(("distribution", str(error)))
            distribution = UNIFORM
        else:
            distribution = found.distribution
            values: dict[str, Any] = {"delay_ms": found.delay_ms, "jitter_ms": found.jitter_ms}
            links = [link if link.jitter_ms else replace(link, **values) for link in links]
    change("distribution", distribution, lambda link: link.jitter_ms, "jitter")
    needs = "jitter, reorder, duplicate or corrupt"
    change("correlation_percent", correlation_percent, is_random, needs)
    try:
        made = topology if links == [*topology.links] else replace(topology, links=tuple(links))
    except TopologyError as error:
        problems += error.parts
        made = topology
    return made, tuple(problems)


def refuse_impossible(values: Mapping[str, Any], read: ReadFile) -> tuple[Refused, ...]:
    """The values, by fields of `Link`, that no link can have, and why; for unknown links."""
    problems: list[Refused] = []
    for name, value in values.items():
        if name == "distribution" and delay_file.is_file(value):
            try:
                _read_delays(value, read)
            except TopologyError as error:
                problems.append((name, str(error)))
        elif problem := find_problem(name, value):
            problems.append((name, problem))
    return tuple(problems)


def read_override(override: LinkOverride, read: ReadFile) -> LinkOverride:
    """The override with the delays of its file, which say delay and jitter where it does not.

    Raises:
        TopologyError: the file cannot be read, or has no delays.
    """
    if override.distribution is None or not delay_file.is_file(override.distribution):
        return override
    found = _read_delays(override.distribution, read)
    return replace(
        override,
        distribution=found.distribution,
        delay_ms=found.delay_ms if override.delay_ms is None else override.delay_ms,
        jitter_ms=found.jitter_ms if override.jitter_ms is None else override.jitter_ms,
    )


def read_links(links: Iterable[Link], read: ReadFile | None) -> tuple[Link, ...]:
    """The links with the delays of files that they name; those give delay and jitter that are 0.

    Raises:
        TopologyError: a file cannot be read, or has no delays.
    """
    found = []
    for link in links:
        if read and delay_file.is_file(link.distribution):
            try:
                measured = _read_delays(link.distribution, read)
            except TopologyError as error:
                where = f"link {link.src} -> {link.dst}: {link.distribution}"
                raise TopologyError(f"{where}: {error}", key="links") from None
            link = replace(
                link,
                distribution=measured.distribution,
                delay_ms=link.delay_ms or measured.delay_ms,
                jitter_ms=link.jitter_ms or measured.jitter_ms,
            )
        found.append(link)
    return tuple(found)


def _read_delays(name: str, read: ReadFile) -> delay_file.Measured:
    try:
        return delay_file.read(read(name))
    except TopologyError as error:
        raise TopologyError("; ".join(error.problems[:NOTED]), key="distribution") from None
