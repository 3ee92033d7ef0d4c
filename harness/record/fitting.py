"""Whether an event can be one of a run on this topology (pure).

Tables and checks look up links and plans that events name. So the log is read up to the first event
that names a link that does not exist, or has a plan that no model can have.
"""

from __future__ import annotations

from trunkline.agents.events.event import By, Event
from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import LinksCounted, SiteQuiet
from trunkline.agents.events.task_events import (
    Discarded,
    Received,
    Sent,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.plan import Plan
from trunkline.topologies.model import Topology


def find_misfit(event: Event, topology: Topology) -> str | None:
    """What is wrong with the event and what is allowed; None if it fits."""
    if (stranger := _find_stranger(event, topology)) is not None:
        return stranger
    match event:
        case LinkChanged(src=src, dst=dst):
            if not topology.has_link(src, dst):
                return f"src, dst: {src} -> {dst}: expected a link of the topology"
        case LinksCounted(links=links):
            for link in links:
                if not topology.has_link(link.src, link.dst):
                    return f"links: {link.src} -> {link.dst}: expected links of the topology"
        case SiteQuiet(who=who):
            if not topology.is_site(who):
                return f"who: {who!r}: expected a site of the topology"
        case TaskStarted() | TaskReplanned() | TaskRearranged():
            try:
                plan = Plan.from_json(event.forest)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                return f"forest: {type(error).__name__}: {error}: expected a plan"
            if strangers := set(plan.participants()) - set(topology.site_names):
                names = ", ".join(sorted(map(str, strangers)))
                return f"forest: {names}: expected sites of the topology"
            return _find_wrong_cut(event, plan) if isinstance(event, TaskStarted) else None
    return None


def _find_stranger(event: Event, topology: Topology) -> str | None:
    """What is wrong if an event of a site, or of payload, names no site of the topology."""
    names = {"site": event.site} if event.by is By.SITE else {}
    match event:
        case Sent(dst=dst):
            names["dst"] = dst
        case Received(src=src) | Discarded(src=src):
            names["src"] = src
    for key, name in names.items():
        if not topology.is_site(name):
            return f"{key}: {name!r}: expected a site of the topology"
    return None


def _find_wrong_cut(event: TaskStarted, plan: Plan) -> str | None:
    try:
        count = cut_model(event.bytes, event.chunk_bytes, event.tensor_bytes).count
    except (ArithmeticError, ValueError) as error:
        return f"chunk_bytes: {event.chunk_bytes}: {error}"
    ends = [stop for block in plan.blocks for _, stop in block.chunks]
    if max(ends, default=0) > count:
        return f"forest: chunk {max(ends) - 1}: expected 0 to {count - 1}, of the model's size"
    return None
