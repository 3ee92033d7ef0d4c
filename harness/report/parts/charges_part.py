"""The virtual time that computing and polls took at sites, in a report (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.agents.events.run_events import TimeCharged
from trunkline.harness.record.charges import find_noise
from trunkline.harness.report.charge_tables import ChargeRow, tabulate_charges
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.pages.markup import make_table, tag
from trunkline.harness.report.parts.part import Part
from trunkline.harness.report.run_data import RunData

MAX_SITES = 200
"""The most sites that the table shows; the file has all."""


def _write_sections(data: RunData) -> Iterator[Section]:
    found = data.tables["charges"][:MAX_SITES]
    heads = ["site", "processor time (s)", "charged (s)", "queued (s)", "charges", "empty polls"]
    times = ("processor_s", "charged_s", "queued_s")
    rows = [
        [row["site"], *(f"{row[key]:.3f}" for key in times), row["charges"], row["polls"]]
        for row in found.to_dict("records")
    ]
    table = make_table(heads, rows, "charges", range(1, len(heads)))
    words = "The virtual time that computing and empty polls took."
    if noise := find_noise(data.history):
        words += f" Charged, so the run does not repeat to the byte: {noise}."
    yield Section("charges", "Time of computing", [tag("p", words), table])


PART = Part(
    applies=lambda scenario, history: bool(history.all(TimeCharged)),
    tables=lambda scenario, history: {ChargeRow: tabulate_charges(history)},
    sections=_write_sections,
)
