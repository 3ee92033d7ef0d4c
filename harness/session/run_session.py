"""The session of one run: a process inside the kernel that carries the network.

Its arguments are RUN_DIR [hold]. The session builds the network, runs the agents and writes the
event log. It prints one JSON object per line for `runs.runner`: `{"progress": {...}}`, answers to
typed lines, and at the end `{"ended": why}` or `{"error": text}`. It prints `{"refused": text}`
if the network cannot be built, so that there is no run. The verdict comes later, from the log.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from trunkline.agents.events import run_events
from trunkline.agents.events.causes import Broken, Ending
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, Event, Kind, P
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.harness.background.background_processes import BackgroundTraffic
from trunkline.harness.background.flows import list_flows
from trunkline.harness.faults.fault_injector import FaultInjector, require_blackholes
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.live.command_handler import CommandHandler
from trunkline.harness.live.request_queue import HOLD
from trunkline.harness.network import capture
from trunkline.harness.network.interface import HOSTS, NetworkError, list_hosts
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.processes import random_numbers
from trunkline.harness.processes.ending import end_by
from trunkline.harness.processes.lines import print_message, write_all
from trunkline.harness.scenario import plan_dry_run
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.scheme_settings import Component
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.scenario.user_results import UserCodeError
from trunkline.harness.session import private_files, site_accounts
from trunkline.harness.session.agent_children import AgentChildren
from trunkline.harness.session.evaluation.evaluating import Evaluating, EvaluationError
from trunkline.harness.session.links.link_counting import LinkCounting
from trunkline.harness.session.links.link_watch import LinkWatch
from trunkline.harness.session.program_children import ProgramChildren
from trunkline.harness.session.supervisor import Supervisor
from trunkline.workloads.learning.datasets import DatasetError
from trunkline.workloads.option_rules import OptionError

FAILED = 1


def main(run_dir: Path, hold: bool = False) -> int:
    """Run the folder's `resolved.yaml`; 0 when all agents ended well.

    With `hold` a virtual clock stands still between requests (see `live.command_handler`).
    """
    end_by(signal.SIGTERM)
    try:
        scenario = load(run_dir / "resolved.yaml")
        _import_planner(scenario)
        private_files.enter(scenario, run_dir)
        cause = run(scenario, run_dir, hold)
    except (NetworkError, OptionError, DatasetError, UserCodeError, EvaluationError) as error:
        print_message({"refused": str(error)})
        return FAILED
    except (OSError, TimeoutError) as error:
        print_message({"error": str(error)})
        return FAILED
    failed = isinstance(cause, Broken)
    print_message({"error" if failed else "ended": "" if cause is None else str(cause)})
    return FAILED if failed else 0


def _import_planner(scenario: Scenario) -> None:
    """Plan once. Agents are forked from here, so none of them has to import a plan's solver.

    The plans of other kinds were made, with all imports, when the scenario was loaded.
    """
    if not scenario.runs_programs and scenario.scheme.plan.kind in plan_dry_run.WITHOUT_SOLVER:
        plan_dry_run.first_task(scenario)


def _preload(workload: Component) -> None:
    """Import what agents need before they are forked.

    numpy loads its random numbers at their first use, which would be in each agent, in its run:
    then one seed has several logs. Workloads whose results can be predicted draw none.
    """
    if not hasattr(workload.module, "is_exact"):
        importlib.import_module("numpy.random")
    workload.module.preload(**workload.options)


def run(scenario: Scenario, run_dir: Path, hold: bool = False) -> Ending | Broken | None:
    """Carry out the scenario; returns why it ended, if that is known."""
    workload = scenario.workload
    with EventLog(run_dir / "events.jsonl") as log:
        log.write(LoggedEvent.of(make_header(scenario)))
        print_message({"message": "loading the workload"})
        _preload(workload)
        network = MininetNetwork(scenario.topology, scenario.network, scenario.seed)
        print_message({"message": "building the network"})
        try:
            network.start()
            faults = (entry.fault for entry in scenario.timeline)
            require_blackholes(network, scenario.topology, faults)
            (run_dir / "log" / HOSTS).write_text(
                list_hosts(scenario.topology, ipv6=scenario.network.ipv6)
            )
            log.add(run_events.NetworkReady)
            who = "programs" if scenario.runs_programs else "agents"
            print_message({"message": f"starting the {who}"})
            taps = {ends: network.tap(*ends) for ends in scenario.capture.ends}
            folder = run_dir / capture.FOLDER
            flows = list_flows(scenario.background)
            others = flows, network, scenario.seed, scenario.network.mtu, run_dir / "log"
            with (
                capture.Capture(taps, folder, scenario.capture.snap_bytes) as captured,
                contextlib.closing(BackgroundTraffic(*others)) as background,
                contextlib.closing(Evaluating(scenario, run_dir / "log")) as evaluating,
            ):
                beside = captured, background, evaluating
                testbed = _Testbed(scenario, run_dir, log, network, *beside)
                return _run_agents(testbed, hold)
        finally:
            network.stop(leave_links=scenario.backend == "embedded")


@dataclass(frozen=True, slots=True)
class _Testbed:
    """What the agents of a run work with, and what goes on beside them."""

    scenario: Scenario
    run_dir: Path
    log: EventLog
    network: MininetNetwork
    captured: capture.Capture
    background: BackgroundTraffic
    evaluating: Evaluating

    def begin(self, epoch_ns: int) -> None:
        """Begin what goes on beside the agents, as their clock starts."""
        if self.scenario.backend == "embedded":
            random_numbers.restart()
        self.captured.begin(epoch_ns)
        self.background.begin(epoch_ns)
        self.evaluating.begin(epoch_ns)


@dataclass(slots=True)
class _Outcome:
    """Why a run ends: its `cause`, unless something failed or the user interrupted it."""

    cause: Ending | Broken | None = None
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False

    def settle(self) -> Ending | Broken | None:
        """Why the run has ended."""
        if self.failures or self.interrupted:
            return Broken(tuple(self.failures), self.interrupted)
        return self.cause


def _run_agents(testbed: _Testbed, hold: bool) -> Ending | Broken | None:
    """Run the agents until the run ends, and log its end; returns why it ended."""
    outcome = _Outcome()
    accounts = site_accounts.Accounts(testbed.scenario, testbed.run_dir)
    try:
        _carry_out(testbed, hold, outcome)
    except (TimeoutError, NetworkError, EvaluationError) as error:
        if not testbed.log.epoch_ns:  # there is no run yet
            raise
        outcome.failures.append(str(error))
    except KeyboardInterrupt:
        outcome.interrupted = True
        raise
    except BaseException as error:
        outcome.failures.append(f"ended by {type(error).__name__}")
        raise
    finally:
        outcome.failures += _end_capture(testbed.captured, testbed.log)
        accounts.log_totals(testbed.log.add)
        _log_end(
            testbed.network,
            testbed.log,
            outcome.settle(),
            of_programs=testbed.scenario.runs_programs,
        )
    return outcome.settle()


def _carry_out(testbed: _Testbed, hold: bool, outcome: _Outcome) -> None:
    """Start the agents and everything that goes on beside them, and handle all events."""
    scenario, network, log = testbed.scenario, testbed.network, testbed.log
    run_dir, background = testbed.run_dir, testbed.background
    timeline = Timeline(scenario.topology, scenario.timeline, scenario.seed, scenario.targets)
    given = scenario, network, _run_id(run_dir), run_dir / "log"
    children: ProgramChildren | AgentChildren
    if scenario.runs_programs:
        children = ProgramChildren(*given)
    else:
        children = AgentChildren(*given, testbed.evaluating.board)
    if isinstance(children, ProgramChildren):
        children.comes_back = timeline.comes_back
    with (
        contextlib.ExitStack() as after,
        Supervisor(scenario, children, testbed.begin) as supervisor,
        contextlib.closing(
            FaultInjector(timeline, network, supervisor, log.add, scenario.programs)
        ) as injector,
        contextlib.closing(LinkCounting(network)) as counting,
        contextlib.closing(LinkWatch(network, log.add)) as altered,
        contextlib.closing(
            CommandHandler(scenario, run_dir, network, supervisor, injector, print_message, hold)
        ) as handler,
        contextlib.ExitStack() as before,
    ):
        after.callback(handler.end_commands, testbed.captured.pids)
        if isinstance(children, ProgramChildren):
            children.fork_again = supervisor.fork
            after.callback(children.plans.close)
        state = handler.state

        def follow(event: Event) -> None:
            if state.update(event):
                print_message({"progress": asdict(state.progress())})

        log.on_event = follow
        handler.open_shells()
        background.start(supervisor.watch, supervisor.unwatch)
        testbed.evaluating.start(supervisor.watch, supervisor.unwatch, supervisor.stop)
        supervisor.start()
        supervisor.watch(injector.fd, injector.perform_due)
        before.callback(supervisor.unwatch, injector.fd)
        supervisor.watch(counting.fd, counting.count)
        before.callback(supervisor.unwatch, counting.fd)
        for fd, compare in altered.readable.items():
            supervisor.watch(fd, compare)
            before.callback(supervisor.unwatch, fd)
        session = _Session(testbed, children, supervisor, injector, counting, handler, outcome)
        for logged in supervisor.events():
            for evaluated in testbed.evaluating.news():
                log.write(evaluated)
            log.write(logged)
            log.epoch_ns = supervisor.epoch_ns
            session.start_if_due()
            if not session.handle(logged.event):
                break
        for evaluated in testbed.evaluating.finish(logged.event.t_ns):
            log.write(evaluated)
        altered.finish()
        for last in counting.finish(logged.event.t_ns):
            log.write(last)
        for logged in background.finish():
            log.write(logged)
        print_message({"progress": asdict(state.progress())})


@dataclass(slots=True)
class _Session:
    """What the events of a run lead to.

    Attributes:
        done: the agents that stay dead at the stop, which an acting controller announces.
    """

    testbed: _Testbed
    children: AgentChildren | ProgramChildren
    supervisor: Supervisor
    injector: FaultInjector
    counting: LinkCounting
    handler: CommandHandler
    outcome: _Outcome
    done: set[str] = field(default_factory=lambda: {CONTROLLER})

    def start_if_due(self) -> None:
        """Start the timeline when the first task has started."""
        state, epoch_ns = self.handler.state, self.supervisor.epoch_ns
        if state.start_ns is None or self.injector.start_ns:
            return
        stop_s = self.testbed.scenario.whole_stop.time_s or math.inf
        self.injector.start(epoch_ns + state.start_ns, epoch_ns + stop_s * 1e9)
        self.handler.accept_requests()
        if self.testbed.scenario.runs_programs:
            self.counting.start(epoch_ns)

    def handle(self, event: Event) -> bool:
        """Do what an event asks for; returns whether the run goes on."""
        match event:
            case run_events.Stopping():
                self._stop(event)
            case WorkerFinished():
                self.done.add(event.site)
            case run_events.AgentFailed():
                self.outcome.failures.append(f"{event.site}: {event.reason}")
            case run_events.AgentExited() if self.children.is_failure(event):
                self.outcome.failures.append(self._describe_exit(event))
                return (
                    self.testbed.scenario.runs_programs
                )  # programs end themselves after a failure
        return True

    def _describe_exit(self, event: run_events.AgentExited) -> str:
        """A failed exit in words, with the last line of a program's errors."""
        what, last, often = "agent", "", ""
        if isinstance(self.children, ProgramChildren):
            what, last = "program", self.children.last_error(event.who)
            often = self.children.last_restart(event.who)
        how = f"exited with code {event.code}"
        if event.signal:
            how = f"was killed by signal {event.signal}"
        how += f" {often}" * bool(often)
        return f"the {what} of {event.who} {how}{f': {last}' if last else ''}"

    def _stop(self, event: run_events.Stopping) -> None:
        self.outcome.cause = event.cause
        self.testbed.evaluating.end(event.t_ns)
        self.handler.announce_end(str(event.cause))
        self.injector.finish(self.done)
        if event.site == BACKUP:  # the first controller may be back, without a connection
            self.supervisor.stop(event.cause)
        scenario = self.testbed.scenario
        if scenario.timeline or self.handler.used:
            recovery_s = scenario.limits.recovery_s
            self.supervisor.limit(recovery_s, f"no recovery within {recovery_s:g} s")


@dataclass(slots=True)
class EventLog:
    """`events.jsonl`: written while events arrive, sorted by time when the run is over."""

    path: Path
    epoch_ns: int = 0
    on_event: Callable[[Event], None] | None = None
    _fd: int = -1
    _events: list[tuple[int, bytes]] = field(default_factory=list)

    def __enter__(self) -> EventLog:
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._events.sort(key=lambda stamped: stamped[0])
        ordered = self.path.with_suffix(".tmp")
        ordered.write_bytes(b"".join(line for _, line in self._events))
        ordered.replace(self.path)

    def add(self, kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None:
        """Add an event of the runner itself, stamped now; 0 before the agents' clock starts."""
        t_ns = time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0
        self.write(LoggedEvent.of(kind(t_ns, RUNNER, *values, **fields)))

    def write(self, logged: LoggedEvent) -> None:
        """Append one event."""
        if self.on_event is not None:
            self.on_event(logged.event)
        self._events.append((logged.event.t_ns, logged.line))
        write_all(self._fd, logged.line)


def _end_capture(captured: capture.Capture, log: EventLog) -> list[str]:
    """End the packet capture, if there is one, and log its counts; returns the errors."""
    try:
        links = captured.end()
    except OSError as error:
        return [str(error)]
    if links:
        log.add(run_events.CaptureEnded, links)
    return []


def _log_end(
    network: MininetNetwork, log: EventLog, cause: Ending | Broken | None, *, of_programs: bool
) -> None:
    """Log the end of the run, with the bytes, packets and drops of each directed link."""
    links = tuple(
        run_events.LinkTotals(*ends, counters.bytes, counters.packets, counters.drops)
        for ends, counters in network.counters().items()
    )
    short = tuple(network.short_of_memory())
    told: dict[str, Any] = {}
    if of_programs:
        counted = network.datagrams().items()
        told = {
            "with_data": tuple(network.with_data()),
            "datagrams": tuple(run_events.SiteDatagrams(s, *astuple(each)) for s, each in counted),
        }
    log.add(run_events.RunFinished, cause=cause, links=links, short_of_memory=short, **told)


def _run_id(run_dir: Path) -> str:
    """The run's id in hellos, of fixed length so that links carry the same bytes in any run."""
    return hashlib.blake2b(os.fsencode(run_dir), digest_size=8).hexdigest()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), hold=sys.argv[2:] == [HOLD]))
