"""The host's side of a running guest: its processes, its pipes, and its end.

A guest is a process group of its own. It ends when this process ends, by a parent-death signal and
a hang-up on its control line. Its memory is an unnamed file, and its first process removes the
folder that it was started from. So no process and no file is left behind, even after a SIGKILL of
either side.

Three pipes lead out of the guest: the output of the program, the messages of the kernel (the last
ones are kept for errors), and the reports of `guest` (virtual time, exit code). Two pipes lead in:
commands, and the standard input of the program.
"""

import contextlib
import fcntl
import os
import re
import resource
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from trunkline.harness.kernel import KernelError, probes, processor
from trunkline.harness.kernel.guest import INTERRUPT, NUDGE
from trunkline.harness.processes.lines import Lines
from trunkline.harness.processes.needs import attempt, find_problems
from trunkline.harness.processes.ownership import VARIABLE, Owner

INTERRUPT_GRACE_S = 10.0
"""The time that an interrupted program has to end."""

END_TIMEOUT_S = 10.0
"""The time in which the kernel should end all processes of a killed guest."""

POLL_S = 0.2
LAST_LINES = 6
LOG_BYTES = 16384
"""The part of the kernel's messages that is kept for errors."""

SPINNING_LINE = re.compile(rb"spinning: (.*)\r?\n")
"""What the kernel says of a process that computes for long while none waits: its site and name."""

MAX_BLOCK_BYTES = 255
PIPE_BYTES = 1 << 20
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Program(Protocol):
    """A running program, in a guest or on this host, as its companion sees it."""

    def nudge(self) -> None:
        """Sends SIGUSR1 to the program."""

    def pause(self) -> None:
        """Freezes the program, with the whole guest that it runs in."""

    def resume(self) -> None:
        """Lets the program run on."""


class Companion(Protocol):
    """An object of the host process that talks to a program while it runs."""

    def began(self, program: Program) -> None:
        """Called when the program has begun to run."""

    def handles(self) -> Mapping[int, Callable[[], None]]:
        """File descriptors to watch, and functions to call when these are readable."""

    def interrupted(self) -> None:
        """Called when the program has been interrupted."""


class Guest:
    """A running guest. Leaving its context ends every host process of it."""

    def __init__(
        self, kernel: Path, arguments: Sequence[str], folder: Path, stdin: int | None = None
    ) -> None:
        self.virtual_time_ns = -1
        self.waited_ns = -1
        self.paused = False
        self.interrupted = False
        self._exit_code: int | None = None
        self.spinning = ""
        self._log = b""
        self._reports = Lines()
        self._messages, messages_end = _pipe()
        self._output, output_end = _pipe()
        self._control, control_end = _pipe()
        commands_end, self._commands = os.pipe()
        input_end, self._input = os.pipe()
        lines = [
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            f"ssl0=null,fd:{output_end}",
            f"ssl1=fd:{commands_end},fd:{control_end}",
            f"ssl2=fd:{input_end},null",
        ]
        inherited = (messages_end, output_end, control_end, commands_end, input_end)
        # `setpriv` sets the parent-death signal. A callback between fork and exec is not safe when
        # there are other threads.
        self._claim = contextlib.ExitStack()
        number = str(self._claim.enter_context(processor.claim()))
        pinned = ["taskset", "--cpu-list", number, "setpriv", "--pdeathsig", "KILL"]
        try:
            self._process = subprocess.Popen(
                [*pinned, kernel, *lines, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=messages_end,
                stderr=messages_end,
                env={"PATH": os.defpath, "TMPDIR": str(folder), VARIABLE: Owner.me().tag},
                pass_fds=inherited[1:],
                start_new_session=True,
            )
        finally:
            for handle in inherited:
                os.close(handle)
        self._ended = os.pidfd_open(self._process.pid)
        # A crash of the guest shall leave no core file. The guest's open files are open in its host
        # processes too.
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))
            resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, (most_files, most_files))

        self._stdin = stdin
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while _find_living(self._process.pid) and time.monotonic() < deadline_s:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.01)
        self._process.wait()
        self._claim.close()
        if self._reader is not None:
            self._reader.join()
        pipes = (self._messages, self._output, self._control, self._commands, self._input)
        for handle in (self._ended, *pipes):
            os.close(handle)

    def serve(
        self, on_output: Callable[[bytes], None], beside: Mapping[int, Callable[[], None]] = {}
    ) -> bool:
        """Waits up to POLL_S and handles what the guest has sent; returns False once it has ended.

        `beside` has other descriptors, and functions to call when these are readable.
        """
        sinks = {
            self._messages: self._keep_messages,
            self._output: on_output,
            self._control: self._read_reports,
        }
        with selectors.DefaultSelector() as selector:
            for handle in (self._ended, *sinks, *beside):
                selector.register(handle, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(POLL_S)}
        ended = self._ended in ready
        for handle, sink in sinks.items():
            # After its end, everything that it has sent must be read; nothing follows.
            for data in _read_all(handle) if ended else _read_once(handle):
                sink(data)
        for handle, act in beside.items():
            if handle in ready:
                act()
        return not ended

    def interrupt(self) -> None:
        """Sends SIGINT to the program in the guest."""
        self.interrupted = True
        self._command(INTERRUPT)

    def nudge(self) -> None:
        """Sends SIGUSR1 to the program in the guest."""
        self._command(NUDGE)

    def pause(self) -> None:
        """Freezes the guest. At `resume`, a virtual clock continues from where it was."""
        self.paused = True
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused guest run on."""
        self.paused = False
        os.kill(self._process.pid, signal.SIGCONT)

    def cpu_s(self) -> dict[int, float]:
        """The processor time in seconds of each host process of the guest, by process id.

        One process is the kernel. Each of the others executes one process of the guest.
        """
        stats = _find_living(self._process.pid)
        return {pid: (int(f[11]) + int(f[12])) / CLOCK_TICKS_PER_S for pid, f in stats.items()}

    def result(self) -> int:
        """The program's exit code.

        Raises:
            KernelError: the guest ended without one, or it ran out of memory; the message has the
                kernel's last messages.
        """
        last_words = self._log.decode(errors="replace").strip()
        if self._exit_code is None:
            code = self._process.wait()
            if self.virtual_time_ns < 0:
                raise KernelError(_explain_failed_boot(code, last_words))
            what = f"the embedded kernel ended before its program did, {_describe_end(code)}"
            raise KernelError(f"{what}; its last words:\n{last_words}" if last_words else what)
        if self._exit_code != 0 and "Out of memory" in last_words:
            remedy = "a smaller model, fewer sites, or more limits.memory"
            what = "the guest ran out of memory"
            raise KernelError(f"{what}; remedy: {remedy}; its last words:\n{last_words}")
        return self._exit_code

    def _begin_input(self) -> None:
        """Passes input on from the first beat on: before, the guest's line is not prepared."""
        if self._stdin is not None and self._reader is None:
            self._reader = threading.Thread(target=self._pass_input_on, args=(self._stdin,))
            self._reader.start()

    def _pass_input_on(self, stdin: int) -> None:
        """Passes input on in blocks, as `guest` expects them, until its end or the guest's."""
        events = select.poll()
        events.register(self._ended, select.POLLIN)
        events.register(stdin, select.POLLIN)
        block = b"more"
        while block and self._ended not in {handle for handle, _ in events.poll()}:
            block = os.read(stdin, MAX_BLOCK_BYTES)
            with contextlib.suppress(BrokenPipeError):
                os.write(self._input, bytes([len(block)]) + block)

    def _command(self, byte: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, byte)

    def _keep_messages(self, data: bytes) -> None:
        """Keep what the kernel says; the last process that it says to spin is no last word."""
        self._log = (self._log + data)[-LOG_BYTES:]
        if found := SPINNING_LINE.findall(self._log):
            self.spinning = found[-1].decode(errors="replace")
            self._log = SPINNING_LINE.sub(b"", self._log)

    def _read_reports(self, data: bytes) -> None:
        for line in self._reports.split(data):
            word, *numbers = line.split()
            if word == b"beat":
                self.virtual_time_ns, self.waited_ns = map(int, numbers)
                self._begin_input()
            else:
                (self._exit_code,) = map(int, numbers)


class Signals:
    """Delays SIGINT and SIGTERM while a guest runs; on leaving, they take their usual effect.

    SIGTSTP (Ctrl-Z) freezes the guest together with this process. Ignored signals stay ignored.
    Outside the main thread, where Python handles no signals, this class does nothing.
    """

    def __init__(self) -> None:
        self._received: list[int] = []
        self._suspended = False
        self._passed_on_s: float | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._received:
            signal.raise_signal(self._received[0])

    def pass_on_to(self, guest: Guest, companion: Companion | None = None) -> None:
        """Interrupts or freezes the guest's program if a signal has come.

        Raises:
            KernelError: the program had not begun, a second signal came, or the program did not end
                in INTERRUPT_GRACE_S.
        """
        if self._suspended:
            self._suspended = False
            paused = guest.paused
            guest.pause()
            os.kill(os.getpid(), signal.SIGSTOP)
            if not paused:
                guest.resume()
        if not self._received:
            return
        if guest.virtual_time_ns < 0:
            # There is nothing to clean up yet, and a guest that boots would lose the interrupt.
            raise KernelError("interrupted")
        now_s = time.monotonic()
        if self._passed_on_s is None:
            self._passed_on_s = now_s
            guest.interrupt()
            if companion is not None:
                companion.interrupted()
        if len(self._received) > 1 or now_s > self._passed_on_s + INTERRUPT_GRACE_S:
            raise KernelError("interrupted")

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self._suspended = True
        else:
            self._received.append(number)


def _describe_end(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed by SIGKILL from outside, by a person or for lack of memory (dmesg says so)"
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"


def _explain_failed_boot(code: int, last_words: str) -> str:
    """What is wrong with this machine, as far as the probes see it, and the kernel's last words.

    Of a panic, these are its sentence and the lines before it. Registers and traces follow it.
    """
    found = find_problems(probes.PROBES)
    if code == -signal.SIGKILL and not found:
        found = [attempt(probes.probe_memory)]
    advice = "this machine has all that the kernel needs, as far as `trunkline doctor` can see; "
    advice += f"please report this with your processor{' and these last words' * bool(last_words)}"
    lines = last_words.splitlines()
    panics = [number for number, line in enumerate(lines, 1) if "Kernel panic" in line]
    before = lines[: panics[0]] if panics else lines
    said = ["its last words:", *(f"    {line}" for line in before[-LAST_LINES:])]
    head = f"the embedded kernel ended before its program began, {_describe_end(code)}"
    return "\n".join((head, *(map(str, found) if found else [advice]), *(said if before else ())))


def _pipe() -> tuple[int, int]:
    """A pipe with room for a burst of output. Its reading end does not block."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with contextlib.suppress(PermissionError):  # the host's limit may be lower
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def _read_once(handle: int) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        data = os.read(handle, PIPE_BYTES)
        if data:
            yield data


def _read_all(handle: int) -> Iterator[bytes]:
    while data := b"".join(_read_once(handle)):
        yield data


def _find_living(session: int) -> dict[int, list[str]]:
    """The fields of /proc/PID/stat, from the state on, of each process of a session, no zombies."""
    stats = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (process / "stat").read_text()
            fields = stat[stat.rindex(")") + 2 :].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                stats[int(process.name)] = fields
    return stats
