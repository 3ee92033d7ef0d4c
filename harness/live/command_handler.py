"""Carries out, in the session, the lines that users type at the shell or give to `inject`.

`docs/architecture.md` describes the path of a line and of its answer. With `hold` (the shell under
a virtual clock), the clock stands still between requests. Virtual time passes only while all
processes wait, so the session looks for the next request in a loop that never waits. `step` and
commands at sites let the clock run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trunkline.agents.events.causes import Asked, Ending
from trunkline.agents.planning.plan import Directed
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.config import units
from trunkline.harness.config.document import list_choices, shorten_words
from trunkline.harness.faults.fault_injector import FaultInjector, require_blackholes
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.fault_types import VERBS, Fault, Heal, Mend, Outage
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.live import status_lines
from trunkline.harness.live.followed_output import FollowedOutput
from trunkline.harness.live.live_state import RunState
from trunkline.harness.live.request_queue import FOLDER, RequestQueue
from trunkline.harness.live.unknown_words import explain_unknown
from trunkline.harness.network import mininet_cli
from trunkline.harness.network.interface import LinkCounters, NetworkError
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.processes.lines import Message
from trunkline.harness.scenario.loading import read_beside
from trunkline.harness.scenario.sections import timeline_section
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads.program_roles import find_programs, list_targets

_SUBREAPER = 36

SPIN = 1_000_000
"""How far the session counts before it looks for a request again: about 20 ms of real time.

Each look makes the kernel work a little, which lets virtual time pass.
"""

ENDING = "the run is ending"

SAVED_AFTER_S = 0.001
"""A saved scenario stops so long after the moment of saving: faults may differ by microseconds."""

AT_ONCE_NS = 100_000
"""A step carries out what is due so soon after it: a fault typed `for` it began a bit late."""

LEAST_NS = 100_000_000
"""Rates are of at least this time, if so much has passed."""


class RunSupervisor(Protocol):
    """The part of `session.supervisor.Supervisor` that commands need."""

    epoch_ns: int

    def watch(self, fd: int, readable: Callable[[], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...
    def stop(self, cause: Ending) -> None: ...


class RefusedError(Exception):
    """A request cannot be carried out; the text says why and what is allowed."""


def _write(lines: Sequence[status_lines.Line]) -> str:
    width = max(len(what) for what, _ in lines)
    return "".join(f"{what:{width}}  {text}\n" for what, text in lines)


@dataclass(slots=True)
class _Busy:
    """The step or the `command` at a site that takes time; `faults` were active before it."""

    number: int
    faults: dict[int, Fault]
    command: mininet_cli.Command | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """What all links had carried at a time."""

    t_ns: int = 0
    counters: dict[Directed, LinkCounters] = field(default_factory=dict)


@dataclass(slots=True)
class CommandHandler:
    """Carries out the requests to one run, from `accept_requests` to `close`.

    Attributes:
        used: whether a user typed a fault, so that the network may need time to recover at the end.
    """

    scenario: Scenario
    run_dir: Path
    network: MininetNetwork
    supervisor: RunSupervisor
    injector: FaultInjector
    send: Callable[[Message], None]
    hold: bool
    state: RunState = field(init=False)
    used: bool = False
    _requests: RequestQueue = field(init=False)
    _output: FollowedOutput = field(init=False)
    _alarm: Alarm = field(default_factory=Alarm)
    _wake_fd: int | None = None
    _busy: _Busy | None = None
    _held_s: float | None = None
    _ending: bool = False
    _typed: list[Entry] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _commands: bool = False
    _target_s: float = 0.0
    _reading: _Reading = field(default_factory=_Reading)
    _earlier: _Reading = field(default_factory=_Reading)

    def __post_init__(self) -> None:
        self.state = RunState.of(self.scenario)
        self._requests = RequestQueue(self.run_dir / FOLDER)
        self._output = FollowedOutput(self.run_dir / "log")

    def open_shells(self) -> None:
        """Start the sites' shells before the run begins; later this would delay the timeline."""
        if self.hold and self.network.mininet:
            for site in self.network.mininet.hosts:
                site.open_shell()

    def accept_requests(self) -> None:
        """Take requests from now on, because the first task has started."""
        wake_fd = self._wake_fd = os.eventfd(0)
        signal.signal(signal.SIGUSR1, lambda *_: os.eventfd_write(wake_fd, 1))
        self.supervisor.watch(wake_fd, self._take_notified)
        self.supervisor.watch(self._alarm.fd, self._end_step)
        self.send({"open": True, "hold": self.hold, "run_dir": str(self.run_dir)})
        self._count_traffic()
        if self.hold:
            self._hold_clock(0.0)
        else:
            self._take_all()

    def announce_end(self, reason: str) -> None:
        """Refuse requests from now on, because the run ends."""
        self._ending = True
        if self._busy is not None and self._busy.command is None:
            self._alarm.set(None)
            self._finish_request(self._task_time_s(), False, "")  # the next message says why
        self.send({"ending": reason})

    def close(self) -> None:
        """Take no more requests and end the running command."""
        self.hold = False
        if self._busy is not None and self._busy.command is not None:
            self._busy.command.kill()
            self._release_command()
        if self._wake_fd is not None:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            for handle in (self._wake_fd, self._alarm.fd):
                self.supervisor.unwatch(handle)
            os.close(self._wake_fd)
        self._alarm.close()

    def end_commands(self, others: Collection[int]) -> None:
        """End the processes that commands left at sites. Call it after the agents have ended.

        `others` are the ids of the processes that this one has forked for other purposes.
        """
        if self._commands:
            self._close_shells()
            mininet_cli.end_orphans(others)

    # -- requests ------------------------------------------------------------

    def _take_notified(self) -> None:
        assert self._wake_fd is not None
        os.eventfd_read(self._wake_fd)
        self._take_all()

    def _take_all(self) -> None:
        while (request := self._requests.take()) is not None:
            self._handle(request)

    def _hold_clock(self, at_s: float) -> None:
        """Wait for requests without letting virtual time pass, until one lets the clock run."""
        self._held_s = at_s
        while self._held_s is not None:
            self.send({"prompt": self._held_s, "taken": self._requests.count})
            while (request := self._requests.take()) is None:
                for _ in range(SPIN):
                    pass
            self._handle(request)

    def _handle(self, request: Message) -> None:
        if "end" in request:
            raise KeyboardInterrupt
        if "interrupt" in request:
            self._interrupt(request["interrupt"])
            return
        number = self._requests.count
        try:
            text = self._carry_out(
                number, str(request.get("line", "")), str(request.get("cwd", "/"))
            )
        except (RefusedError, FaultError, NetworkError, OSError) as error:
            self._answer(number, False, shorten_words(str(error)))
        else:
            if text is not None:
                self._answer(number, True, text)

    def _answer(self, number: int, done: bool, text: str, **more: Any) -> None:
        self.send(
            {"answer": number, "done": done, "text": text, "t_s": self._task_time_s(), **more}
        )

    # -- verbs ------------------------------------------------------------------

    def _carry_out(self, number: int, line: str, cwd: str) -> str | None:
        """Carry out a line; returns the answer, or None if the answer comes later."""
        verb, _, rest = line.strip().partition(" ")
        if self._ending:
            raise RefusedError(ENDING)
        if verb in ("status", "links", "exit") and rest.strip():
            raise RefusedError(f"{verb}: expected {verb} alone")
        if verb in VERBS:
            beside, targets = read_beside(Path(cwd)), self.scenario.targets
            return self._inject(parse(line, self.scenario.topology, beside, targets))
        match verb:
            case "link":
                return self._inject(self._link_fault(rest.split()))
            case "status":
                return self._status()
            case "links":
                return _write(
                    status_lines.describe_links(
                        self.scenario.topology, self.injector.timeline.changed
                    )
                )
            case "output":
                return self._show_output(rest.strip())
            case "step":
                self._step(number, rest.strip())
            case "save":
                self._save(number)
            case "exit":
                self._exit()
                return ""
            case "":
                return ""
            case _:
                self._command(number, line.strip(), verb, cwd)
        return None

    def _inject(self, fault: Fault) -> str:
        at_s = self._task_time_s()
        if refusal := timeline_section.refuse_fault(fault, self.scenario.runs_programs):
            raise RefusedError(f"{fault.VERB}: {refusal}")
        require_blackholes(self.network, self.scenario.topology, [fault])
        self.used = True
        self.injector.inject(fault)
        self._typed.append(Entry(at_s, fault))
        self.send({"typed": write(fault), "t_s": at_s, "request": self._requests.count})
        return f"{write(fault)}\n"

    def _link_fault(self, words: list[str]) -> Fault:
        """Mininet's `link a b up|down`."""
        match words:
            case [a, b, "down"]:
                return parse(f"{Outage.VERB} {a} {b} carrier", self.scenario.topology)
            case [a, b, "up"]:
                return parse(f"{Mend.VERB} {a} {b}", self.scenario.topology)
        raise RefusedError("link: expected link SITE SITE up|down")

    def _show_output(self, name: str) -> str:
        programs = self.scenario.programs
        if not programs:
            raise RefusedError("output: expected sites that run programs")
        if not (found := find_programs(programs, name)):
            known = dict.fromkeys([*list_targets(programs), *(e.role for e in programs.values())])
            raise RefusedError(f"output: {name}: {list_choices(filter(None, known), name)}")
        return self._output.read_new(found)

    def _step(self, number: int, text: str) -> None:
        if self._held_s is None:
            why = " already" if self.hold else ": only a virtual clock stands still"
            raise RefusedError(f"step: the clock runs{why}")
        try:
            seconds = units.parse(text, units.TIME_S)
        except units.QuantityError as error:
            raise RefusedError(": ".join(filter(None, ("step", text, str(error))))) from None
        self._count_traffic()
        self._busy = _Busy(number, dict(self.injector.timeline.active))
        self._target_s, self._held_s = round(self._held_s + seconds, 9), None
        self._alarm.set(self.injector.start_ns + round(self._target_s * 1e9))

    def _end_step(self) -> None:
        self.injector.perform_due()
        target_ns, due_ns = round(self._target_s * 1e9), self.injector.timeline.next_ns
        if due_ns is not None and due_ns <= target_ns + AT_ONCE_NS:
            self._alarm.set(self.injector.start_ns + due_ns)
            return
        self._alarm.set(None)
        self._finish_request(self._target_s, True, "")

    def _interrupt(self, number: int) -> None:
        if self._busy is None or self._busy.number != number:
            return
        if self._busy.command is not None:
            self._busy.command.interrupt()
        else:
            self._alarm.set(None)
            self._finish_request(self._task_time_s(), False, "interrupted")

    def _exit(self) -> None:
        if self.injector.timeline.active:
            self.used = True
            self.injector.inject(Heal(), at_end=True)
        self._held_s = None
        self.hold = False
        self.supervisor.stop(Asked())

    def _save(self, number: int) -> None:
        end_ns = time.monotonic_ns() - self.supervisor.epoch_ns
        start_s = (self.injector.start_ns - self.supervisor.epoch_ns) / 1e9
        end_s = start_s + self._held_s if self._held_s is not None else end_ns / 1e9
        entries = sorted((*self.scenario.timeline, *self._typed), key=lambda entry: entry.at_s)
        saved = {
            "timeline": timeline_section.write_entries(tuple(entries)),
            "end_s": round(end_s + SAVED_AFTER_S, 9),
            "notes": self._notes,
        }
        self._answer(number, True, "", saved=saved)

    def _status(self) -> str:
        self._count_traffic()
        now_ns, before = self._reading.t_ns, self._earlier
        of_s = (now_ns - before.t_ns) / 1e9
        since = f"since the {self.scenario.begin} began ({self.scenario.clock} clock)"
        lines = [
            ("time", f"{self._task_time_s():.3f} s {since}"),
            *status_lines.describe(
                self.state,
                now_ns - self.supervisor.epoch_ns,
                self.injector.timeline.active,
                self.injector.timeline.changed,
                status_lines.compute_rates_mbps(before.counters, self._reading.counters, of_s),
                of_s,
            ),
        ]
        return _write(lines)

    # -- commands at sites ----------------------------------------------------------------------

    def _command(self, number: int, line: str, verb: str, cwd: str) -> None:
        net = self.network.mininet
        known = mininet_cli.verbs().keys() | mininet_cli.REFUSED.keys()
        if net is None or (verb not in known and verb not in net):
            raise RefusedError(explain_unknown(verb, self.scenario.topology.site_names))
        if refusal := mininet_cli.refusal(verb):
            raise RefusedError(f"{verb}: {refusal}")
        if self._busy is not None:
            raise RefusedError("another command or step is running: one at a time")
        if not self._commands:
            self._commands = True
            ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # orphans become our children, to be ended
        note = f"at {self._task_time_s():g} s: {line}"
        self._count_traffic()
        command = mininet_cli.Command.start(net, line, cwd)
        if verb not in mininet_cli.LOOKING:
            self._notes.append(note)
            self.injector.log_command(line)
        self._busy = _Busy(number, dict(self.injector.timeline.active), command)
        self._held_s = None
        self.supervisor.watch(command.output, self._send_output)
        self.supervisor.watch(command.process.pidfd, self._end_command)

    def _send_output(self) -> None:
        busy = self._busy
        if busy is not None and busy.command is not None and (text := busy.command.read()):
            self.send({"answer": busy.number, "output": text})

    def _end_command(self) -> None:
        if (well := self._release_command()) is not None:
            self._finish_request(self._task_time_s(), well, "")

    def _release_command(self) -> bool | None:
        """Free the resources of the command that has ended; returns whether it succeeded.

        Returns None if no command runs.
        """
        if self._busy is None or self._busy.command is None:
            return None
        command = self._busy.command
        for handle in (command.output, command.process.pidfd):
            self.supervisor.unwatch(handle)
        self._send_output()
        well = command.finish()
        if command.killed:
            self._close_shells()  # they may still be busy with the killed command
        elif command.shell_ended and self.network.mininet:
            for site in self.network.mininet.hosts:
                if site.shell is not None and site.shell.poll() is not None:
                    site.close_shell()
        self._busy.command = None
        return well

    def _close_shells(self) -> None:
        for site in self.network.mininet.hosts if self.network.mininet else ():
            site.close_shell()

    # -- time ---------------------------------------------------------------------------

    def _finish_request(self, at_s: float, done: bool, text: str) -> None:
        """Answer the request that took time, and hold the clock again if it was held before."""
        busy, self._busy = self._busy, None
        if busy is not None:
            active = dict(self.injector.timeline.active)
            if faults := status_lines.compare_faults(busy.faults, active):
                self.send({"answer": busy.number, "output": faults, "faults": faults})
            self._answer(busy.number, done, text)
        if self.hold and not self._ending:
            self._hold_clock(at_s)

    def _count_traffic(self) -> None:
        """Read the counters; the reading before is kept, unless no time has passed since then."""
        reading = _Reading(time.monotonic_ns(), self.network.counters())
        if not self._earlier.t_ns:
            self._earlier = reading
        elif reading.t_ns - self._reading.t_ns >= LEAST_NS:
            self._earlier = self._reading
        self._reading = reading

    def _task_time_s(self) -> float:
        """Seconds since the run's begin; while the clock stands still, the sum of all steps."""
        if self._held_s is not None:
            return self._held_s
        return round((time.monotonic_ns() - self.injector.start_ns) / 1e9, 9)
