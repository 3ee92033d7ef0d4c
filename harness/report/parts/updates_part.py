"""Servers, and the updates that they get, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.parts.part import Part, Tables, Width
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.updates import servers_section, updates_section
from trunkline.harness.report.updates.server_rates import ServerRow, tabulate_servers
from trunkline.harness.report.updates.update_tables import UpdateRow, tabulate_updates
from trunkline.harness.scenario.settings import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _tabulate(scenario: Scenario, history: History) -> Tables:
    servers, share = scenario.scheme.servers, payload_share(scenario.network.mtu)
    return {
        UpdateRow: tabulate_updates(history, servers),
        ServerRow: tabulate_servers(history, scenario.topology, servers, share),
    }


def _write_sections(data: RunData) -> Iterator[Section]:
    updates = updates_section.write_section(data.tables["updates"], data.counted)
    yield Section("updates", "Updates", updates)
    servers = servers_section.write_section(
        data.tables["servers"], data.scenario.clock, data.counted
    )
    yield Section("servers", "Servers", servers)


def _draw_figures(data: RunData, width: Width) -> Iterator[tuple[str, Figure]]:
    from trunkline.harness.report.updates import update_plots

    updates, servers = data.counted.select(data.tables["updates"]), data.tables["servers"]
    if len(updates) > 1:
        yield "updates", update_plots.draw_updates(updates, **width)
    clock, faults = data.scenario.clock, data.history.faults
    begin_s = data.counted.begin_s
    yield "servers", update_plots.draw_servers(servers, clock, faults, begin_s, **width)


PART = Part(
    applies=lambda scenario, history: bool(scenario.scheme.servers),
    tables=_tabulate,
    sections=_write_sections,
    figures=_draw_figures,
)
