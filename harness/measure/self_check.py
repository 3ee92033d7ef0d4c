"""Run the fidelity self-check: start the session that measures, judge and write the results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import pandas as pd

from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.measure.effort import choose_effort
from trunkline.harness.measure.judge import judge
from trunkline.harness.measure.measurement_plan import plan
from trunkline.harness.measure.observation import Observation
from trunkline.harness.measure.readings import Reading, make_verdict
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.processes.lines import Lines, Message, decode
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs.runner import describe_environment, run_command
from trunkline.harness.scenario.loading import resolve
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.links import IMPAIRMENTS


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The readings of all links, and the verdict on them."""

    readings: tuple[Reading, ...]
    verdict: Verdict


def check(
    scenario: Scenario,
    folder: RunFolder,
    on_progress: Callable[[float, str], None],
    with_foreign: bool,
    quick: bool = False,
) -> Fidelity:
    """Measure the scenario's network; write `fidelity.csv`, the verdict, and a figure if wanted.

    `on_progress` gets the share that is done, 0 to 1, and a text. `with_foreign` measures with ping
    and iperf3 too; `quick` sends fewer packets to count losses.
    Raises StoreError, KernelError and NetworkError.
    """
    folder.write_text("resolved.yaml", resolve(scenario))
    folder.write_json("environment.json", describe_environment(scenario))
    heard = _Heard(on_progress)
    command = [
        sys.executable,
        "-m",
        "trunkline.harness.measure.measurement_session",
        str(folder.path),
        *(["foreign"] if with_foreign else []),
        *(["quick"] if quick else []),
    ]
    code = run_command(scenario, command, folder, heard.read_output)
    if heard.refused or code:
        what = heard.refused or f"the measurements ended with code {code}"
        said = "\n".join(heard.others[-20:])
        raise NetworkError(what + (f"; they said:\n{said}" if said and not heard.refused else ""))
    plans = plan(scenario.topology, scenario.network, choose_effort(scenario.clock, quick))
    readings = judge(scenario.topology, scenario.network, plans, heard.observations, scenario.clock)
    verdict = make_verdict(readings)
    folder.write_table("fidelity", tabulate(scenario, readings))
    folder.write_json("verdict.json", verdict.to_json())
    if scenario.outputs.plots:
        _draw(scenario, folder, readings)
    return Fidelity(readings, verdict)


def _draw(scenario: Scenario, folder: RunFolder, readings: tuple[Reading, ...]) -> None:
    from trunkline.harness.measure import figure  # matplotlib takes a second to load
    from trunkline.harness.report import plots

    plots.write(folder, "fidelity", figure.draw(scenario.topology, readings))


def tabulate(scenario: Scenario, readings: tuple[Reading, ...]) -> pd.DataFrame:
    """A table with a row for each quantity of each link, with the link's settings."""
    rows = []
    for reading in readings:
        link = scenario.topology.link(reading.src, reading.dst)
        setting = {
            "rate_mbps": link.rate_mbps,
            "delay_ms": link.delay_ms,
            "jitter_ms": link.jitter_ms,
            "loss_percent": link.loss_percent,
            **{name: getattr(link, name) for name in IMPAIRMENTS},
            "queue_bytes": scenario.topology.queue_bytes(link),
        }
        found = asdict(reading)
        ends = {"src": found.pop("src"), "dst": found.pop("dst")}
        rows.append({**ends, **setting, **found})
    return pd.DataFrame(rows)


class _Heard:
    """What the session in the network's kernel prints."""

    def __init__(self, on_progress: Callable[[float, str], None]) -> None:
        self.observations: list[Observation] = []
        self.refused = ""
        self.others: list[str] = []
        self._on_progress = on_progress
        self._lines = Lines()

    def read_output(self, data: bytes) -> None:
        for line in self._lines.split(data):
            if (said := decode(line)) is None:
                self.others.append(line.decode(errors="replace"))
            else:
                self._handle_message(said)

    def _handle_message(self, said: Message) -> None:
        if "progress" in said:
            done, of = said["progress"]
            self._on_progress(done / of, f"{done} of {of} pairs of links")
        elif "observed" in said:
            self.observations.append(Observation.from_json(said["observed"]))
        elif "refused" in said:
            self.refused = said["refused"]
