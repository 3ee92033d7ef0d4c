"""All agents of a tiny run, and an adversary that chooses the order of everything that happens.

The agents are the real ones. Every directed connection is a queue of frames. At each step the
adversary lets one frame arrive, one timer fire, one end of a connection hear that it is broken,
or it cuts, pauses, kills, and undoes that again. All its choices are drawn from a seed. After some
hundreds of steps it mends everything, and the run must end. `promises.py` has what must hold.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from model_setting import (
    CONTROLLERS,
    FAILOVER,
    Now,
    Past,
    Setting,
    contribution,
    make_controller,
    make_worker,
)
from promises import BrokenPromiseError, Promises, check
from stepped import HELLO, RUNNING, End, SteppedLoop

from trunkline.agents.control.backup import Backup
from trunkline.agents.control.controller import Controller
from trunkline.agents.events.causes import Asked
from trunkline.agents.events.connection_events import ControllerLost
from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    Contributed,
    TaskFinished,
    TaskHalted,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.site.worker import Worker
from trunkline.agents.wire.framing import FrameReader

CRITICAL = (Contributed, TaskFinished, TaskHalted, TaskReplanned, ControllerLost)
"""Events after which faults are more likely: things are half done."""


@dataclass(eq=False)
class Process:
    """An agent's process; a new one takes its place when it is started again."""

    name: str
    agent: Any = None
    task: asyncio.Task | None = None
    paused: bool = False
    dead: bool = False
    ends: list[End] = field(default_factory=list)

    def __post_init__(self):
        self.context = contextvars.copy_context()
        self.context.run(RUNNING.set, self)

    @property
    def runs(self) -> bool:
        return not self.dead and not self.paused

    @property
    def listens(self) -> bool:
        return not self.dead and self.task is not None and not self.task.done()


@dataclass(eq=False)
class Call:
    """A process dials another one."""

    caller: Process
    name: str
    answer: asyncio.Future[End]


@dataclass(eq=False)
class Undo:
    """How a fault ends, and how likely it ends in any one step."""

    chance: float
    do: Callable[[], None]


@dataclass
class Dialler:
    model: Model
    me: Process

    async def call(self, name):
        call = Call(self.me, name, asyncio.get_running_loop().create_future())
        self.model.calls.append(call)
        try:
            return await call.answer
        finally:
            self.model.calls.remove(call)


class Model:
    """One run. `run` raises BrokenPromiseError; `trace` lists the steps in words."""

    END_S = 1000.0
    """In this time after everything was mended, the run must end."""

    def __init__(self, seed: int, trace: bool = False, setting: Setting | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.setting = setting or Setting.draw(self.rng)
        self.trace: list[str] | None = [str(self.setting)] if trace else None
        self.names = CONTROLLERS if self.setting.backup else CONTROLLERS[:1]
        self.processes: dict[str, Process] = {}
        self.calls: list[Call] = []
        self.ends: list[End] = []
        self.cuts: list[tuple[str, str]] = []
        self.undos: list[Undo] = []
        self.steps = 0
        self.calm_since_s: float | None = None
        self.ending = self.asked_to_stop = False
        self.known: list[Any] = []
        self.lives: dict[str, int] = {}
        self.leap = 10 ** self.rng.uniform(-2.5, -0.3)
        self.warm_up = self.rng.choice((0, 60, 60))
        self.durations = self.rng.choice(((0.0,), (0.0, 1.0), (0.0, 0.5, 3.0, 10.0)))
        self.rooms = self.rng.choice(((1,), (1000,), (1, 2, 1000)))
        self.fault_steps = sorted(
            self.rng.randrange(self.setting.steps) for _ in range(self.setting.faults)
        )
        elements, whole = self.setting.elements, self.setting.whole
        self.promises = Promises(
            self.setting.sites,
            self.setting.task_s,
            FAILOVER.replans,
            3 * FAILOVER.patience_s,
            functools.partial(contribution, elements=elements, whole=whole),
            whole,
            self.reaches,
            self.blocks,
        )

    def run(self) -> None:
        self.loop = SteppedLoop()
        self.loop.step = self.step
        self.loop.set_exception_handler(self._on_exception)
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._run())
        finally:
            for end in self.ends:
                end.close()
        self.promises.at_end()

    async def _run(self) -> None:
        self.done = self.loop.create_future()
        for name in (*self.names, *self.setting.sites):
            self._start(name)
        try:
            await self.done
        finally:
            self.loop.step = lambda: None
            for process in self.processes.values():
                process.task.cancel()
            tasks = [process.task for process in self.processes.values()]
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- one step -----------------------------------------------------------------------------

    def step(self) -> None:
        if self.done.done():
            return
        self.steps += 1
        if self.calm_since_s is None:
            if self.steps >= self.setting.steps or self.ending:
                self._calm()
            else:
                self._undo_some()
                while self.fault_steps and self.fault_steps[0] <= self.steps:
                    self.fault_steps.pop(0)
                    self._fault()
        elif self.loop.now_s > self.calm_since_s + self.END_S:
            raise BrokenPromiseError(f"the run does not end: {self._describe()}")
        options = list(self._options())
        timer = self.loop.next_timer(lambda process: process is None or process.runs)
        patient = self.calm_since_s is not None or self.steps < self.warm_up
        if timer and not (options and patient):
            options.append((self.leap, "time", functools.partial(self.loop.fire, timer)))
        if not options:
            if self.calm_since_s is not None:
                raise BrokenPromiseError(f"everything waits forever: {self._describe()}")
            self._calm()
            return
        (_, what, do), *_ = self.rng.choices(options, [weight for weight, _, _ in options])
        if self.trace is not None and what != "time":
            self.trace.append(f"{self.loop.now_s:.1f} {what}")
        do()

    def _options(self) -> Iterator[tuple[float, str, Callable[[], None]]]:
        for call in self.calls:
            if call.caller.runs and not call.answer.done() and self._both_ways(call):
                yield 1.0, f"{call.caller.name} calls {call.name}", lambda c=call: self._answer(c)
        self.ends = [end for end in self.ends if not (end.closed and end.far.closed)]
        for end in self.ends:
            if end.closed or end.hears_nothing_more or not end.owner.runs:
                continue
            if end.can_send:
                yield end.weight, f"{end.owner.name} can send to {end.far.owner.name}", end.send
            open_ = self._is_open(end.far.owner, end.owner)
            if open_ and end.inbox:
                yield end.weight, self._name(end), functools.partial(self._arrive, end)
            if open_ and end.far.closed:
                weight = end.weight * (0.05 if end.inbox else 1.0)
                if self.calm_since_s is None or not end.inbox:
                    yield weight, f"{end.owner.name} hears {end.far.owner.name} close", end.end

    def _name(self, end: End) -> str:
        if self.trace is None:
            return ""
        head = end.inbox[0]
        if head == HELLO:
            return f"{end.far.owner.name} -> {end.owner.name}: hello"
        reader = FrameReader(lambda header: memoryview(bytearray(header.size)))
        frame = None
        while frame is None:
            target = reader.buffer()
            target[:], head = head[: len(target)], head[len(target) :]
            frame = reader.advance(len(target))
        text = str(frame[0] if isinstance(frame, tuple) else frame)
        return f"{end.far.owner.name} -> {end.owner.name}: {text[:300]}"

    def _both_ways(self, call: Call) -> bool:
        a, b = call.caller.name, call.name
        return (a, b) not in self.cuts and (b, a) not in self.cuts

    def _is_open(self, a: Process, b: Process) -> bool:
        return (a.name, b.name) not in self.cuts

    def _is_heard(self, a: Process, b: Process) -> bool:
        return self._is_open(a, b) and b.runs

    def _answer(self, call: Call) -> None:
        """The call arrives at a port; the hello is under way."""
        callee = self.processes.get(call.name)
        if callee is None or not callee.listens:
            call.answer.set_exception(ConnectionRefusedError(f"{call.name} does not listen"))
            return
        room = self.rng.choice(self.rooms)
        ours, theirs = (
            End(self.loop, process, room, 10 ** self.rng.uniform(-1.5, 0), self._is_heard)
            for process in (call.caller, callee)
        )
        ours.far, theirs.far = theirs, ours
        self.ends += [ours, theirs]
        call.caller.ends.append(ours)
        callee.ends.append(theirs)
        theirs.inbox.append(HELLO)
        call.answer.set_result(ours)

    def _arrive(self, end: End) -> None:
        if end.inbox[0] != HELLO:
            if end.far.owner.name in self.names and b'"bye"' in end.inbox[0]:
                left = _tasks_left(end.owner.agent)
                check(not left, f"{end.owner.name} is told of the end, and not of tasks {left}")
            end.arrive()
            return
        end.inbox.popleft()
        callee = end.owner
        if callee.listens and callee.agent is not None:
            callee.context.run(callee.agent.accept, end.far.owner.name, end)
        else:
            end.close()

    # -- faults -------------------------------------------------------------------------------

    def _fault(self) -> None:
        kinds = {
            self._break: 5,
            self._cut_link: 2,
            self._cut_controller: 2,
            self._pause: 1,
            self._kill: 2,
            self._ask_to_stop: 0.2,
        }
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        kind()

    def _say(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.loop.now_s:.1f} !! {text}")

    def _until_later(self, do: Callable[[], None]) -> None:
        self.undos.append(Undo(10 ** self.rng.uniform(-2.5, -0.5), do))

    def _break(self) -> None:
        ends = [e for e in self.ends if not e.closed and not e.hears_nothing_more and e.owner.runs]
        links = [e for e in ends if {e.owner.name, e.far.owner.name} <= set(self.setting.sites)]
        if ends := self.rng.choice((ends, links)):
            end = self.rng.choice(ends)
            self._say(f"{end.owner.name} loses its connection to {end.far.owner.name}")
            end.break_off()

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        """Frames between these pairs get through no more, in one direction or in both."""
        both = self.rng.random() < 0.7
        cuts = [*pairs, *((b, a) for a, b in pairs)] if both else pairs
        self._say(f"cut {cuts}")
        self.cuts += cuts

        def mend() -> None:
            self._say(f"mended {cuts}")
            for cut in cuts:
                self.cuts.remove(cut)

        self._until_later(mend)

    def _cut_link(self) -> None:
        self._cut([self.rng.choice(list(self.setting.rates))])

    def _cut_controller(self) -> None:
        name = self.rng.choice(self.names)
        others = [*self.setting.sites, *(other for other in self.names if other != name)]
        chosen = self.rng.sample(others, self.rng.randint(1, len(others)))
        turned = self.rng.random() < 0.5
        self._cut([(name, other) if turned else (other, name) for other in chosen])

    def _pause(self) -> None:
        process = self.rng.choice([p for p in self.processes.values() if p.listens] or [None])
        if process is not None and process.runs:
            self._say(f"{process.name} pauses")
            process.paused = True

            def go_on() -> None:
                self._say(f"{process.name} goes on")
                process.paused = False

            self._until_later(go_on)

    def _kill(self) -> None:
        running = [process for process in self.processes.values() if process.listens]
        controllers = [process for process in running if process.name in self.names]
        if not running:
            return
        process = self.rng.choice(self.rng.choice((running, controllers or running)))
        self._say(f"{process.name} is killed")
        process.dead = True
        self.promises.on_killed(process.name)
        for end in process.ends:
            end.inbox.clear()
            end.close()
        process.task.cancel()

        def restart() -> None:
            self._say(f"{process.name} is started again")
            self._start(process.name)

        self._until_later(restart)

    def _ask_to_stop(self) -> None:
        self._say("the run is asked to stop")
        self.asked_to_stop = True
        for name in self.names:
            process = self.processes[name]
            if process.agent is not None and process.listens:
                process.context.run(process.agent.stop, Asked())

    def _undo_some(self) -> None:
        for undo in list(self.undos):
            if self.rng.random() < undo.chance:
                self.undos.remove(undo)
                undo.do()

    def _calm(self) -> None:
        self._say("everything is mended")
        for undo in self.undos:
            undo.do()
        self.undos.clear()
        self.calm_since_s = self.promises.mended_s = self.loop.now_s
        if self.setting.rounds is None:
            self._ask_to_stop()

    # -- processes ----------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        process = self.processes[name] = Process(name)
        make = self._worker if name in self.setting.sites else self._controller
        self.lives[name] = self.lives.get(name, -1) + 1
        process.task = self.loop.create_task(make(process), context=process.context)
        process.task.add_done_callback(lambda task: self._ended(process, task))

    def _ended(self, process: Process, task: asyncio.Task) -> None:
        if process.dead or self.done.done():
            return
        self._say(f"{process.name} exits")
        for end in process.ends:
            end.close()
        if not task.cancelled() and task.exception():
            self.done.set_exception(task.exception())
        elif not any(p.listens for p in self.processes.values()) and not self.undos:
            self.done.set_result(None)

    def log(self, process: Process):
        def write(kind, *values, **fields):
            if process.dead:
                return
            event = kind(Now().now_ns(), process.name, *values, **fields)
            if kind in (ComputeStarted, TaskStarted):
                self.known.append(event)
            self.ending = self.ending or kind is Stopping
            if kind in CRITICAL and self.fault_steps and self.rng.random() < 0.35:
                # One of the faults comes now, or soon.
                self.fault_steps.pop()
                self.fault_steps.insert(0, self.steps + self.rng.randrange(20))
            if self.trace is not None:
                self.trace.append(f"{self.loop.now_s:.1f}     {str(event)[:200]}")
            is_worker = isinstance(process.agent, Worker)
            model = process.agent._model.workload.model if is_worker else None
            self.promises.on_event(event, model)

        return write

    def _next_task(self, name: str) -> int:
        """What a controller that is started again knows of the one before."""
        own = (event.task for event in self.known if event.site == name)
        return max(own, default=-1) + 1

    async def _worker(self, process: Process) -> None:
        site = process.name
        begun = [e.iteration for e in self.known if type(e) is ComputeStarted and e.site == site]
        past = Past(self.lives[site], max(begun, default=-1) + 1)
        durations = functools.partial(self.rng.choice, self.durations)
        log, dialler = self.log(process), Dialler(self, process)
        process.agent = make_worker(self.setting, site, self.names, past, durations, log, dialler)
        await process.agent.run({}, None)

    async def _controller(self, process: Process) -> None:
        name, log = process.name, self.log(process)
        next_task = self._next_task(name)
        if name == CONTROLLERS[0]:
            process.agent = make_controller(self.setting, name, log, next_task)
            acting = process.agent.run({}, self.loop.now_s)
        else:
            make = functools.partial(make_controller, self.setting, name, log)
            dialler = Dialler(self, process)
            process.agent = Backup(make, dialler, FAILOVER, Now().now_ns, log, next_task)
            acting = process.agent.run()
        if self.asked_to_stop:
            process.agent.stop(Asked())
        await acting

    # -- what promises ask --------------------------------------------------------------------

    def reaches(self, controller: str, site: str) -> bool:
        """Whether a controller and a site are connected and both know it."""
        acting = _acting(self.processes[controller].agent)
        worker = self.processes[site]
        if acting is None or site not in acting._overlay.present or site not in acting._links:
            return False
        if not worker.runs or not isinstance(worker.agent, Worker):
            return False
        link, home = acting._links[site].sock, worker.agent._controller.link
        return (
            home is not None
            and home.sock is link.far
            and not home.sock.hears_nothing_more
            and not link.hears_nothing_more
        )

    def blocks(self, site: str, task: int) -> int:
        """How many block numbers of a task a site knows."""
        executor = self.processes[site].agent._executor
        return executor.blocks(task) if executor.runs(task) else 0

    def _on_exception(self, loop, context) -> None:
        if not self.done.done():
            error = context.get("exception") or BrokenPromiseError(context["message"])
            self.done.set_exception(error)

    def _describe(self) -> str:
        found = []
        for name, process in self.processes.items():
            if not process.listens:
                found.append(f"{name} is gone")
            elif isinstance(process.agent, Worker):
                worker, rounds = process.agent, process.agent._rounds
                found.append(
                    f"{name}: iteration {rounds.iteration}, waiting {rounds.is_waiting},"
                    f" controller {worker._controller.connected}, {worker._task}"
                )
            elif (acting := _acting(process.agent)) is None:
                found.append(f"{name} stands by")
            else:
                found.append(f"{name} has {acting._overlay.present}, {acting._tasks.running}")
        return "; ".join(found)


def _tasks_left(agent: Worker | Controller | Backup) -> tuple[int, ...]:
    """The tasks that a worker knows although the controller to which it reported has ended."""
    known = isinstance(agent, Worker) and agent._controller.connected
    return agent._executor.running() if known else ()


def _acting(agent: Controller | Backup) -> Controller | None:
    """The controller that acts here."""
    return agent._acting if isinstance(agent, Backup) else agent
