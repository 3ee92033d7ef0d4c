"""Two finished runs in folders, written down by hand: one of agents and one of programs."""

import json
from pathlib import Path

from three_sites import LOG, SCENARIO, added

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.causes import ProgramsExited
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    SyncFinished,
    SyncStarted,
)
from trunkline.agents.events.run_events import (
    AgentExited,
    LinkBytes,
    LinksCounted,
    LinkTotals,
    NetworkReady,
    ProgramsStarted,
    ProgramStarted,
    RunFinished,
    Stopping,
)
from trunkline.harness.report import outputs
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load

MS = 10**6
PROGRAMS = """\
name: mine
topology: {builder: full_mesh, sites: 2, rates: 80 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh, -c, exit 0], time_calls: true}
outputs: {plots: false}
"""
DONE = ProgramsExited(("n1", "n2"), all=True)


def make_agents_run(folder: Path) -> Path:
    """The run of `three_sites` with an outage from 0.2 s to 0.3 s, and a heal, which has no end."""
    log = [json.loads(line) for line in LOG.read_text().splitlines()]
    outage = {"verb": "outage", "text": "outage oslo rome for 100 ms", "targets": ["oslo -> rome"]}
    log = added(200, "runner", "fault_started", fault=0, **outage)(log)
    log = added(300, "runner", "fault_ended", fault=0)(log)
    heal = {"verb": "heal", "text": "heal", "targets": []}
    log = added(400, "runner", "fault_started", fault=1, **heal)(log)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "resolved.yaml").write_text(SCENARIO.read_text() + "outputs: {plots: false}\n")
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    outputs.build(folder)
    return folder


def make_programs_run(folder: Path) -> Path:
    """Two programs; n1 has two processes that compute and call at once. One call never ends."""
    call = CallStarted(300 * MS, "n1", 2, 0, 0, "all_reduce", 4_000_000, "0", (0, 1), 0, None, True)
    totals = (LinkTotals("n1", "n2", 3_000_000, 2000, 0), LinkTotals("n2", "n1", 0, 0, 0))
    events = [
        NetworkReady(0, "runner"),
        ProgramsStarted(0, "runner"),
        ProgramStarted(0, "runner", "n1", 0),
        ProgramStarted(0, "runner", "n2", 0),
        ComputeStarted(100 * MS, "n1", 0, process=2),
        ComputeStarted(150 * MS, "n1", 0, process=3),
        ComputeStarted(150 * MS, "n2", 0, process=2),
        ComputeFinished(250 * MS, "n1", 0, process=2),
        ComputeFinished(280 * MS, "n2", 0, process=2),
        call,
        SyncStarted(300 * MS, "n1", 0, 4_000_000, "allreduce"),
        SyncStarted(320 * MS, "n2", 0, 4_000_000, "allreduce"),
        ComputeFinished(350 * MS, "n1", 0, process=3),
        CallStarted(360 * MS, "n1", 3, 0, 0, "send", 8, "0", (0, 1), 1, 1, False),
        CallStarted(400 * MS, "n2", 2, 0, 0, "all_reduce", 4_000_000, "0", (0, 1), 1, None, True),
        SyncFinished(490 * MS, "n2", 0),
        SyncFinished(500 * MS, "n1", 0),
        CallFinished(500 * MS, "n1", 2, 0, False),
        LinksCounted(500 * MS, "runner", (LinkBytes("n1", "n2", 1_000_000),)),
        CallFinished(510 * MS, "n2", 2, 0, False),
        AgentExited(1000 * MS, "runner", "n1", 0, 0, asked=False),
        AgentExited(1000 * MS, "runner", "n2", 0, 0, asked=False),
        Stopping(1000 * MS, "runner", DONE),
        RunFinished(1000 * MS, "runner", DONE, totals),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "resolved.yaml").write_text(PROGRAMS)
    header = make_header(load(folder / "resolved.yaml"))
    (folder / "events.jsonl").write_bytes(b"".join(map(to_line, [header, *events])))
    outputs.build(folder)
    return folder
