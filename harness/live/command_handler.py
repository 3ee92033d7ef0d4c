"""What people ask of a run while it goes on: the session's side of the shell and of `inject`.

Requests come through `harness.live.request_queue`, with SIGUSR1 to say so; answers go out as lines
of JSON. With `hold`, which is the shell under a virtual clock, the world stands still while nothing
is asked for: the session then looks for the next request again and again without ever waiting, and
no virtual time passes in which nobody waits. `step` and commands at sites let it run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from trunkline.agents.events import event_reading
from trunkline.harness.config import units
from trunkline.harness.faults.fault_injector import Performer, try_out
from trunkline.harness.faults.fault_syntax import parse, write
from trunkline.harness.faults.fault_types import VERBS, Fault, FaultError, Heal, Mend, Outage
from trunkline.harness.faults.timeline import Entry, Timeline
from trunkline.harness.live import live_state
from trunkline.harness.live.live_state import RunState
from trunkline.harness.live.request_queue import FOLDER, Inbox, Request
from trunkline.harness.network import mininet_cli
from trunkline.harness.network.interface import Directed, LinkCounters, NetworkError
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.processes.timer import Alarm
from trunkline.harness.scenario import timeline_section
from trunkline.harness.scenario.loading import Scenario, read_beside

_SUBREAPER = 36

SPIN = 1_000_000
"""How far the session counts, some 20 ms, before it looks again whether there is a request.

Looking makes the kernel do a little work, and however little that is shows in the virtual time.
"""

ENDING = "the run is ending"


class Carrier(Protocol):
    """What carries the agents, or programs, of the run, as far as this is concerned."""

    epoch_ns: int

    def watch(self, fd: int, readable: Callable[[], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...
    def stop(self) -> None: ...


Say = Callable[[dict[str, Any]], None]


class UnableError(Exception):
    """What somebody asks for cannot be done; the text says why and what can."""


@dataclass(slots=True)
class _Busy:
    """What is going on for request `number`: a step if there is no command."""

    number: int
    command: mininet_cli.Command | None = None


@dataclass(slots=True)
class Console:
    """One run's console. `open` begins to take requests; `close` ends all that was asked for."""

    scenario: Scenario
    run_dir: Path
    network: MininetNetwork
    carrier: Carrier
    performer: Performer
    timeline: Timeline
    say: Say
    hold: bool
    state: RunState = field(init=False)
    situation: Any = field(init=False)
    used: bool = False
    _inbox: Inbox = field(init=False)
    _alarm: Alarm = field(default_factory=Alarm)
    _wake: tuple[int, int] = (-1, -1)
    _busy: _Busy | None = None
    _held_s: float | None = None
    _ending: bool = False
    _typed: list[Entry] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _commands: bool = False
    _target_s: float = 0.0
    _counted_ns: int = 0
    _counters: dict[Directed, LinkCounters] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = RunState(self.scenario.topology)
        self.situation = SimpleNamespace(
            update=lambda event: self.state.update(event_reading.parse(json.dumps(event)))
        )
        self._inbox = Inbox(self.run_dir / FOLDER)

    def prepare(self) -> None:
        """Before time counts: start what would hold up the timeline when it is first asked for."""
        if self.hold and self.network.mininet:
            for site in self.network.mininet.hosts:
                site.open_shell()

    def open(self) -> None:
        """The first task has started: take requests from now on."""
        reader, writer = self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGUSR1, lambda *_: self._note(writer))
        self.carrier.watch(reader, self._attend)
        self.carrier.watch(self._alarm.fd, self._step_is_over)
        self.say({"open": True, "hold": self.hold, "run_dir": str(self.run_dir)})
        self._count()
        if self.hold:
            self._stand_still(0.0)
        else:
            self._take_all()

    def ending(self, reason: str) -> None:
        """The run is about to end: nothing can be asked for any more."""
        self._ending = True
        if self._busy is not None and self._busy.command is None:
            self._alarm.set(None)
            self._go_back(self._now_s(), False, f"{ENDING}: {reason}")
        self.say({"ending": reason})

    def close(self) -> None:
        """Take no more requests, and end the command that runs."""
        self.hold = False
        if self._busy is not None and self._busy.command is not None:
            self._busy.command.kill()
            self._let_go_of_command()
        if self._wake[0] >= 0:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            for handle in (self._wake[0], self._alarm.fd):
                self.carrier.unwatch(handle)
            for handle in self._wake:
                os.close(handle)
        self._alarm.close()

    def end_commands(self) -> None:
        """End all that was typed at sites and lives on, when there are no agents any more."""
        if self._commands:
            self._close_shells()
            mininet_cli.end_orphans()

    # -- when requests are looked at ------------------------------------------------------------

    def _note(self, writer: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"!")

    def _attend(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 1 << 10)
        self._take_all()

    def _take_all(self) -> None:
        while (request := self._inbox.take()) is not None:
            self._serve(request)

    def _stand_still(self, at_s: float) -> None:
        """Let no virtual time pass until somebody asks for some."""
        self._held_s = at_s
        while self._held_s is not None:
            self.say({"prompt": self._held_s, "taken": self._inbox.taken})
            while (request := self._inbox.take()) is None:
                for _ in range(SPIN):
                    pass
            self._serve(request)

    def _serve(self, request: Request) -> None:
        if "end" in request:
            raise KeyboardInterrupt
        if "interrupt" in request:
            self._interrupt(request["interrupt"])
            return
        number = self._inbox.taken
        try:
            text = self._do(number, str(request.get("line", "")), str(request.get("cwd", "/")))
        except (UnableError, FaultError, NetworkError, OSError) as error:
            self._answer(number, False, str(error))
        else:
            if text is not None:
                self._answer(number, True, text)

    def _answer(self, number: int, done: bool, text: str, **more: Any) -> None:
        self.say({"answer": number, "done": done, "text": text, "t_s": self._now_s(), **more})

    # -- what can be asked for ------------------------------------------------------------------

    def _do(self, number: int, line: str, cwd: str) -> str | None:
        """Do what a line says; returns the answer, None if it comes later."""
        verb, _, rest = line.strip().partition(" ")
        if self._ending:
            raise UnableError(ENDING)
        if verb in ("status", "exit") and rest.strip():
            raise UnableError(f"{verb}: allowed is {verb} alone")
        if verb in VERBS:
            return self._fault(parse(line, self.scenario.topology, read_beside(Path(cwd))))
        match verb:
            case "link":
                return self._fault(self._as_fault(rest.split()))
            case "status":
                return self._status()
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
                self._command(number, line.strip(), verb)
        return None

    def _fault(self, fault: Fault) -> str:
        at_s = self._now_s()
        refusal = (
            timeline_section.refuse_with_programs(fault) if self.scenario.runs_programs else None
        )
        if refusal:
            raise UnableError(f"{fault.VERB}: {refusal}")
        try_out(self.network, self.scenario.topology, [fault])
        stop_s = self.scenario.stop.time_s
        if not self.used and not self.scenario.timeline and stop_s is not None:
            self.timeline.plan(Entry(stop_s, Heal()))  # as for a scenario with a timeline
        self.used = True
        self.performer.do(fault)
        self._typed.append(Entry(at_s, fault))
        return f"{write(fault)}\n"

    def _as_fault(self, words: list[str]) -> Fault:
        """Mininet's `link a b up|down`."""
        match words:
            case [a, b, "down"]:
                return parse(f"{Outage.VERB} {a} {b} carrier", self.scenario.topology)
            case [a, b, "up"]:
                return parse(f"{Mend.VERB} {a} {b}", self.scenario.topology)
        raise UnableError("link: allowed is link SITE SITE up|down")

    def _step(self, number: int, text: str) -> None:
        if self._held_s is None:
            why = "it goes on already" if self.hold else "only a virtual clock stands still"
            raise UnableError(f"step: the clock runs: {why}")
        try:
            seconds = units.parse(text, units.TIME_S)
        except units.QuantityError as error:
            raise UnableError(f"step: {text}: {error}") from None
        self._count()
        self._busy = _Busy(number)
        self._target_s, self._held_s = round(self._held_s + seconds, 9), None
        self._alarm.set(self.performer.start_ns + round(self._target_s * 1e9))

    def _step_is_over(self) -> None:
        self._alarm.set(None)
        self._go_back(self._target_s, True, "")

    def _interrupt(self, number: int) -> None:
        if self._busy is None or self._busy.number != number:
            return
        if self._busy.command is not None:
            self._busy.command.interrupt()
        else:
            self._alarm.set(None)
            self._go_back(self._now_s(), False, "interrupted")

    def _exit(self) -> None:
        if self.timeline.going:
            self.used = True
            self.performer.do(Heal())
        self._held_s = None
        self.hold = False
        self.carrier.stop()

    def _save(self, number: int) -> None:
        end_ns = time.monotonic_ns() - self.carrier.epoch_ns
        start_s = (self.performer.start_ns - self.carrier.epoch_ns) / 1e9
        end_s = start_s + self._held_s if self._held_s is not None else end_ns / 1e9
        entries = sorted((*self.scenario.timeline, *self._typed), key=lambda entry: entry.at_s)
        saved = {
            "timeline": timeline_section.write_entries(tuple(entries)),
            "end_s": end_s,
            "notes": self._notes,
        }
        self._answer(number, True, "", saved=saved)

    def _status(self) -> str:
        now_ns = time.monotonic_ns()
        before, since_ns = self._counters, self._counted_ns
        self._count()
        of_s = (now_ns - since_ns) / 1e9
        lines = [
            ("time", f"{self._now_s():.3f} s since the first task ({self.scenario.clock} clock)"),
            *live_state.describe(
                self.state,
                now_ns - self.carrier.epoch_ns,
                self.timeline.going,
                self.timeline.changed,
                live_state.compute_rates_mbps(before, self._counters, of_s),
                of_s,
            ),
        ]
        width = max(len(what) for what, _ in lines)
        return "".join(f"{what:{width}}  {text}\n" for what, text in lines)

    # -- commands at sites ----------------------------------------------------------------------

    def _command(self, number: int, line: str, verb: str) -> None:
        net = self.network.mininet
        known = mininet_cli.verbs().keys() | mininet_cli.REFUSED.keys()
        if net is None or (verb not in known and verb not in net):
            raise UnableError(f"{verb}: unknown: allowed are verbs (see: help) and sites")
        if refusal := mininet_cli.refusal(verb):
            raise UnableError(f"{verb}: {refusal}")
        if self._busy is not None:
            raise UnableError("something else is going on: one command or step at a time")
        if not self._commands:
            self._commands = True
            ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # whoever loses its parent is ours to end
        note = f"at {self._now_s():g} s: {line}"
        self._count()
        command = mininet_cli.Command.start(net, line)
        self._notes.append(note)
        self.performer.typed(line)
        self._busy, self._held_s = _Busy(number, command), None
        self.carrier.watch(command.output, self._pass_on)
        self.carrier.watch(command.process.pidfd, self._command_is_over)

    def _pass_on(self) -> None:
        busy = self._busy
        if busy is not None and busy.command is not None and (text := busy.command.read()):
            self.say({"answer": busy.number, "output": text})

    def _command_is_over(self) -> None:
        if (well := self._let_go_of_command()) is not None:
            self._go_back(self._now_s(), well, "")

    def _let_go_of_command(self) -> bool | None:
        """Whether the command that is over, or is ended here, ended well; None if there is none."""
        if self._busy is None or self._busy.command is None:
            return None
        command = self._busy.command
        for handle in (command.output, command.process.pidfd):
            self.carrier.unwatch(handle)
        self._pass_on()
        well = command.finish()
        if command.killed:
            self._close_shells()  # they may be in the middle of something
        self._busy.command = None
        return well

    def _close_shells(self) -> None:
        for site in self.network.mininet.hosts if self.network.mininet else ():
            site.close_shell()

    # -- what goes on ---------------------------------------------------------------------------

    def _go_back(self, at_s: float, done: bool, text: str) -> None:
        """What was going on is over: stand still again, where that is so."""
        busy, self._busy = self._busy, None
        if busy is not None:
            self._answer(busy.number, done, text)
        if self.hold and not self._ending:
            self._stand_still(at_s)

    def _count(self) -> None:
        self._counted_ns, self._counters = time.monotonic_ns(), self.network.counters()

    def _now_s(self) -> float:
        """Seconds since the first task; of steps, exactly what they came to."""
        if self._held_s is not None:
            return self._held_s
        return round((time.monotonic_ns() - self.performer.start_ns) / 1e9, 9)
