"""Checks the `expect:` of a scenario against its network and its workload (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trunkline.harness.config import units
from trunkline.harness.config.document import Document, KeyPath, list_choices
from trunkline.harness.scenario.sections.capture_section import find_links
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.topologies.links import TopologyError
from trunkline.topologies.model import Topology

OF_PROGRAMS = ("output", "never", "exit")
"""What only programs do."""


def check(
    source: Document,
    entries: Sequence[Expectation],
    sites: Sequence[str],
    topology: Topology | None,
    *,
    targets: Sequence[str] | None,
    evaluates: bool,
    ends_s: Mapping[str, float],
) -> None:
    """Note expectations of sites and links that do not exist, and those that can never hold.

    `targets` are the sites and programs of a run of programs, if they are known; None: of agents.
    `ends_s` has the times at which the run ends at the latest, by their keys.
    """
    programs = targets is not None
    for index, entry in enumerate(entries):
        path = ("expect", index)
        _check_time(source, (*path, "by"), entry, ends_s)
        for number, site in enumerate(entry.sites or ()):
            known = sites if targets is None or entry.kind not in OF_PROGRAMS else targets
            if known and site not in known:
                source.refuse((*path, "sites", number), list_choices(known, site))
        if entry.link is not None and topology is not None:
            try:
                find_links(entry.link, topology)
            except TopologyError as error:
                source.refuse((*path, "link"), str(error).removeprefix(f"link {entry.link!r}: "))
        if entry.kind in OF_PROGRAMS and not programs:
            source.refuse((*path, entry.kind), "only if sites run programs")
        if entry.kind == "carried_bytes" and entry.by_s is not None and not programs:
            source.refuse((*path, "by"), "with carried, only if sites run programs")
        if entry.kind == "accuracy_percent" and not (programs or evaluates):
            source.refuse((*path, "accuracy"), "the workload has no accuracy")


def _check_time(
    source: Document, path: KeyPath, entry: Expectation, ends_s: Mapping[str, float]
) -> None:
    """Note a time after the run's end, by which nothing could be judged."""
    key = min(ends_s, key=ends_s.__getitem__)
    if entry.by_s is not None and entry.by_s > ends_s[key]:
        end = units.render(ends_s[key], units.TIME_S)
        source.refuse(path, f"expected up to {end}, when the run ends by {key}")
