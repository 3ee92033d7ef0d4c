"""The output of `trunkline show`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rich.table import Table

from trunkline.harness.background.flows import list_flows
from trunkline.harness.config import document, units
from trunkline.harness.config.options import render
from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    SIZE_BYTES,
    TIME_MS,
    TIME_S,
    Dimension,
    count_of,
    short,
    split_name,
)
from trunkline.harness.faults import trace_notes
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.scenario import plan_dry_run, planning
from trunkline.harness.scenario.scheme_settings import Component
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.formats.network_file import NOTED, list_some
from trunkline.topologies.links import IMPAIRMENTS, Link, describe_impairments
from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import ORIGINS

if TYPE_CHECKING:
    from trunkline.harness.fluid.fluid_counts import Expectation

LINE_CHARACTERS = 100
"""The longest text of a program or of a timeline's entry: a trace may have thousands of letters."""


def describe_scenario(scenario: Scenario) -> Table:
    """A table of everything but the network, with a line per section."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    warms_up = scenario.warm_up.unit is not None
    rows = {
        "scenario": f"{scenario.name}: {scenario.description}".rstrip(": "),
        "where": f"{scenario.backend} kernel, {scenario.clock} clock, seed {scenario.seed}",
        **({"notes": "\n".join(notes)} if (notes := plan_dry_run.list_notes(scenario)) else {}),
        "workload": _format_component(scenario.workload),
        **(_describe_programs(scenario) or _describe_scheme(scenario)),
        "network": _format_pairs(render(scenario.network, None)),
        "stop": _format_pairs(render(scenario.stop, None)),
        **({"warm-up": _format_pairs(render(scenario.warm_up, None))} if warms_up else {}),
        "failover": _format_pairs(render(scenario.failover, None)),
        "limits": _format_pairs(render(scenario.limits, None)),
        "timeline": "\n".join(map(_format_entry, scenario.timeline)) or "nothing",
        **({"background": _list_flows(scenario)} if scenario.background else {}),
    }
    for name, text in rows.items():
        table.add_row(name, text.replace("[", r"\["))
    return table


def describe_prediction(scenario: Scenario, found: Expectation) -> str:
    """What the fluid model predicts, a value per line, without values that it does not know.

    A last line tells what the plan chooses by itself.
    """
    known = {name: value for name, value in asdict(found).items() if not math.isnan(value)}
    choice = planning.describe_choice(scenario)
    times = {name for name in known if name.endswith("_s") and not name.endswith("_per_s")}
    return "".join(
        f"{name:<13}  {value:.4g}{' s' if name in times else ''}\n" for name, value in known.items()
    ) + (f"{'plan':<13}  {choice}\n" if choice else "")


def _describe_programs(scenario: Scenario) -> dict[str, str]:
    """The line about the programs, each with its command; none if agents run."""
    lines = (f"{each.name}: {shlex.join(each.command)}" for each in scenario.programs.values())
    return {"programs": "\n".join(map(_cut, lines))} if scenario.runs_programs else {}


def _describe_scheme(scenario: Scenario) -> dict[str, str]:
    """The lines about what the agents do."""
    scheme = scenario.scheme
    tensors, choice = scenario.tensor_bytes, planning.describe_choice(scenario)
    chunks = count_of(scenario.cut.count, "chunk")
    return {
        "model": f"{short(scenario.model_bytes, SIZE_BYTES)} in {chunks} "
        f"of {'up to ' if tensors else ''}{units.render(scheme.chunk_bytes, SIZE_BYTES)}"
        f"{f', {len(tensors)} tensors' if tensors else ''}",
        "policy": _format_component(_fill_in(scenario)),
        **({"servers": ", ".join(scheme.servers)} if scheme.servers else {}),
        "plan": "\n".join(filter(None, (_format_component(scheme.plan), choice))),
        "links": f"{scheme.discipline}, {scheme.scatter} scatter, "
        f"{scheme.rates} rates{_format_error(scheme.rate_error_percent)}",
        "awareness": _format_pairs(render(scheme.awareness, None)) if scheme.awareness else "off",
        "auxiliary": _format_pairs(render(scheme.auxiliary, None)) if scheme.auxiliary else "off",
        "controller": f"at {scenario.controller_site}",
    }


def _format_error(percent: float) -> str:
    return f", configured to {percent:g} %" if percent else ""


def _fill_in(scenario: Scenario) -> Component:
    """The policy with the values that it has chosen for options that were left open.

    They depend on the sites, and the policy has them as attributes with the options' names.
    """
    chosen, policy = scenario.scheme.policy, planning.create_policy(scenario)
    options = {
        name: getattr(policy, name, None) if value is None else value
        for name, value in chosen.options.items()
    }
    return replace(chosen, options=options)


def _list_flows(scenario: Scenario) -> str:
    """A line per flow of background traffic."""
    return "\n".join(
        f"{flow.src} -> {flow.dst}: {flow.entry.kind}, {short(flow.entry.mean_mbps, RATE_MBPS)}"
        for flow in list_flows(scenario.background)
    )


def list_sites(topology: Topology, servers: Sequence[str] = ()) -> Table:
    """A table of sites, with the total rates of their links, and which of them are servers."""
    has_regions = any(site.region for site in topology.sites)
    table = _make_table(f"{topology.name}: {len(topology.sites)} sites")
    for name in ("rank", "site", *(["role"] * bool(servers)), *(["region"] * has_regions)):
        table.add_column(name)
    for name in ("links", "sum of rates out", "sum of rates in"):
        table.add_column(name, justify="right")
    for rank, site in enumerate(topology.sites):
        near = topology.neighbours(site.name)
        out = sum(topology.link(site.name, other).rate_mbps for other in near)
        into = sum(topology.link(other, site.name).rate_mbps for other in near)
        table.add_row(
            str(rank),
            site.name,
            *(["server" if site.name in servers else "worker"] if servers else ()),
            *([site.region] if has_regions else ()),
            str(len(near)),
            short(out, RATE_MBPS),
            short(into, RATE_MBPS),
        )
    return table


def list_links(topology: Topology) -> Table:
    """A table of pairs of neighbours, with the values of both directions."""
    bursts = any(link.burst != 1.0 for link in topology.links)
    impaired = any(map(describe_impairments, topology.links))
    table = _make_table(f"{topology.name}: {len(topology.links)} directed links")
    for name in ("a", "b"):
        table.add_column(name)
    for name in ("rate a -> b", "rate b -> a", "delay", "jitter", "loss", "queue"):
        table.add_column(name, justify="right")
    if bursts:
        table.add_column("burst", justify="right")
    if impaired:
        table.add_column("impairments", overflow="fold")
    rows = []
    for link in topology.links:
        if topology.rank(link.src) < topology.rank(link.dst):
            back = topology.link(link.dst, link.src)
            lengths = dict.fromkeys((f"{link.burst:g}", f"{back.burst:g}"))
            rare = dict.fromkeys(describe_impairments(each) or "none" for each in (link, back))
            rows.append(
                [
                    *_format_link(link, back),
                    *([" / ".join(lengths)] if bursts else ()),
                    *([" / ".join(rare)] if impaired else ()),
                ]
            )
    for row in rows:
        table.add_row(*row)
    if any(" / " in cell for row in rows for cell in row):
        table.caption = "x / y: x from a to b, y from b to a"
    return table


def list_origins(topology: Topology) -> Table | None:
    """A table of where the values of links come from; None if no file was read."""
    if not topology.origins:
        return None
    table = _make_table(f"{topology.name}: where values come from")
    for name in ("value", "from", "links"):
        table.add_column(name, overflow="fold")
    for field in (*ORIGINS, *IMPAIRMENTS):
        found: dict[str, list[tuple[str, str]]] = {}
        for ends, origins in topology.origins.items():
            if field in origins or field in ORIGINS:
                found.setdefault(origins[field], []).append(ends)
        for origin, links in found.items():
            name, _ = split_name(field)
            texts = _name_links(links)
            is_all = len(links) == len(topology.origins)
            some = "all" if is_all else f"{len(links)}: {list_some(texts, NOTED)}"
            table.add_row(name, origin, some)
    return table


def _name_links(links: Sequence[tuple[str, str]]) -> list[str]:
    """`a - b` for both directions of a link, `a -> b` for one of them."""
    known = set(links)
    both = {(a, b) for a, b in links if (b, a) in known}
    return [
        f"{a} - {b}" if (a, b) in both else f"{a} -> {b}"
        for a, b in links
        if (a, b) not in both or a < b
    ]


def _make_table(title: str) -> Table:
    return Table(title=f"\n{title}", title_justify="left", title_style="bold",
                 caption_justify="left")  # fmt: skip


def _format_entry(entry: Entry) -> str:
    figure = "".join(f"\n  {line}" for line in trace_notes.draw(entry.fault))
    return f"{short(entry.at_s, TIME_S)}: {_cut(write(entry.fault))}{figure}"


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARACTERS else f"{text[: LINE_CHARACTERS - 3]}..."


def _format_component(component: Component) -> str:
    options = {}
    for name, value in component.options.items():
        key, dimension = split_name(name)
        options[key] = render(value, dimension)
    return f"{component.kind}  {_format_pairs(options)}".rstrip()


def _format_pairs(values: dict[str, object]) -> str:
    """Key and value of everything that is not None."""
    shown = (f"{k}: {document.show(v)}" for k, v in values.items() if v is not None)
    return ", ".join(shown)


def _format_link(link: Link, back: Link) -> list[str]:
    def both(there: float, here: float, dimension: Dimension) -> str:
        texts = [short(value, dimension) for value in (there, here)]
        return texts[0] if texts[0] == texts[1] else " / ".join(texts)

    return [
        link.src,
        link.dst,
        short(link.rate_mbps, RATE_MBPS),
        short(back.rate_mbps, RATE_MBPS),
        both(link.delay_ms, back.delay_ms, TIME_MS),
        both(link.jitter_ms, back.jitter_ms, TIME_MS),
        both(link.loss_percent, back.loss_percent, SHARE_PERCENT),
        both(link.queue_bytes or 0, back.queue_bytes or 0, SIZE_BYTES),
    ]
