"""Checks the `expect:` of a scenario against its network and its workload (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from trunkline.harness.config.document import Document, list_choices
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
) -> None:
    """Note expectations of sites and links that do not exist, and those that can never hold.

    `targets` are the sites and programs of a run of programs, if they are known; None: of agents.
    """
    programs = targets is not None
    for index, entry in enumerate(entries):
        path = ("expect", index)
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
