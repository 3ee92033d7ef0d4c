"""The evaluator as its session sees it: a process that is forked before the agents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from trunkline.agents.events.causes import Ending
from trunkline.agents.events.event_reading import parse
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import AgentFailed, Stopping
from trunkline.agents.timing.exact_waits import await_readable
from trunkline.harness.processes.fork import Process, fork, signals_held
from trunkline.harness.processes.lines import Lines, write_all
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session.agent_main import redirect_output
from trunkline.harness.session.evaluation.evaluator import BUILT, TIME_BYTES, Evaluator, Log
from trunkline.harness.session.evaluation.model_board import ModelBoard
from trunkline.workloads.base import ELEMENT_BYTES

READ_BYTES = 1 << 16

Watch = Callable[[int, Callable[[], None]], None]


class EvaluationError(RuntimeError):
    """The evaluator has failed."""


class Evaluating:
    """The evaluations of a run; nothing if its workload has no accuracy.

    Attributes:
        board: where sites write their models; None without evaluations.
    """

    def __init__(self, scenario: Scenario, log_dir: Path) -> None:
        self.board: ModelBoard | None = None
        self._scenario, self._log_file = scenario, log_dir / "evaluator.log"
        self._process: Process | None = None
        self._told_fd = self._commands_fd = -1
        self._lines = Lines()
        self._ending = False
        self._unwatch: Callable[[int], None] = lambda _: None
        self._on_target: Callable[[Ending], None] = lambda _: None
        if scenario.evaluated:
            elements = scenario.model_bytes // ELEMENT_BYTES
            self.board = ModelBoard(scenario.evaluated, elements)
            self._log = Log()

    def start(
        self, watch: Watch, unwatch: Callable[[int], None], on_target: Callable[[Ending], None]
    ) -> None:
        """Fork the evaluator and wait until it has built its workload; raises EvaluationError.

        `watch` gets a descriptor and the function to call when there is something to read, until
        `unwatch` gets the descriptor. `on_target` gets why the run is to stop.
        """
        if self.board is None:
            return
        self._fork(self.board)
        while not self._take():
            pass
        self._unwatch, self._on_target = unwatch, on_target
        watch(self._told_fd, self._hear)

    def begin(self, epoch_ns: int) -> None:
        """Begin to evaluate: the run's clock has started at `epoch_ns`."""
        self._tell(epoch_ns)

    def end(self, t_ns: int) -> None:
        """Evaluate no more after this time of the run."""
        if not self._ending:
            self._ending = True
            self._tell(t_ns)

    def news(self) -> Iterator[LoggedEvent]:
        """The evaluations since the last time."""
        if self.board is not None:
            for line in self._log.read():
                yield LoggedEvent(parse(line), line)

    def finish(self, t_ns: int) -> Iterator[LoggedEvent]:
        """Wait for the end of the evaluator, at this time; yields its last evaluations."""
        self.end(t_ns)
        if self._process is not None and self._told_fd >= 0:
            await_readable(self._process.pidfd)
        yield from self.news()

    def close(self) -> None:
        """Kill the evaluator if it runs, and free everything."""
        if self._process is not None:
            self._process.end()
            self._process = None
        for fd in (self._told_fd, self._commands_fd):
            if fd >= 0:
                os.close(fd)
        self._told_fd = self._commands_fd = -1
        if self.board is not None:
            os.close(self._log.fd)
            self.board = None

    def _fork(self, board: ModelBoard) -> None:
        self._told_fd, told_end = os.pipe()
        commands_end, self._commands_fd = os.pipe()

        def act() -> int:
            os.close(self._told_fd)
            os.close(self._commands_fd)
            redirect_output(self._log_file)
            return Evaluator(self._scenario, board, self._log, told_end, commands_end).run()

        with signals_held():
            self._process = fork(act)
        os.close(told_end)
        os.close(commands_end)

    def _tell(self, t_ns: int) -> None:
        if self._commands_fd >= 0:
            with contextlib.suppress(BrokenPipeError):  # a target was reached: it has ended
                write_all(self._commands_fd, t_ns.to_bytes(TIME_BYTES))

    def _hear(self) -> None:
        """Read what the evaluator says, until it ends."""
        fd = self._told_fd
        if self._take() is None:
            self._unwatch(fd)

    def _take(self) -> bool | None:
        """Read once; returns whether the workload is built, and None after the end.

        Raises EvaluationError.
        """
        data = os.read(self._told_fd, READ_BYTES)
        built = False
        for line in self._lines.split(data):
            if line == BUILT:
                built = True
                continue
            match parse(line):
                case Stopping(cause=cause):
                    self._ending = True
                    self._on_target(cause)
                case AgentFailed(reason=reason):
                    raise EvaluationError(f"{reason} (log/{self._log_file.name})")
        if data:
            return built
        if not self._ending:
            raise EvaluationError(f"the evaluator ended before its time: log/{self._log_file.name}")
        return None
