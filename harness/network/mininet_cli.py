"""Mininet's command line: each command runs in a process that is forked from the session.

So the session can serve its agents meanwhile. The shells of the sites belong to the session: a
program that a command starts with `&` lives on after the command.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.cli import CLI  # type: ignore[import-untyped]
from mininet.log import output  # type: ignore[import-untyped]
from mininet.net import Mininet  # type: ignore[import-untyped]

from trunkline.harness.processes.fork import HANDLERS, Process, fork

EVERYWHERE = frozenset({"pingall", "pingallfull"})
"""Verbs that use the shells of all sites."""

NO_SWITCHES = "there are no switches: sites are linked to one another"
REFUSED = {
    "ports": NO_SWITCHES,
    "dpctl": NO_SWITCHES,
    "switch": NO_SWITCHES,
    "px": "its variables would end with the process of the command: use py",
    "x": "X11 is not tunnelled: use xterm",
}
"""Mininet's verbs that cannot work here, and the reasons."""

SHELL_ENDED = 3
"""The exit code of the process of a command that ended the shell of its site."""

LOOKING = frozenset({"nodes", "net", "dump", "intfs"})
"""Verbs that only show the network, so that a run with them is not one that a user changed."""

LOCAL = frozenset({"sh", "py"})
"""Verbs that belong to no site: they run in the user's folder."""

WINDOWS = frozenset({"xterm", "gterm"})


def verbs() -> dict[str, str]:
    """The verbs of Mininet that work here, and their help texts."""
    names = (name.removeprefix("do_") for name in dir(_Cli) if name.startswith("do_"))
    ours = {"EOF", "exit", "quit", "help", "link", "links", "source"}
    texts = {name: str(getattr(_Cli, f"do_{name}").__doc__) for name in names}
    return {name: text for name, text in texts.items() if name not in REFUSED.keys() | ours}


def refusal(verb: str) -> str | None:
    """The reason why a verb of Mininet cannot work here; None if it can."""
    if verb in WINDOWS and "DISPLAY" not in os.environ:
        return "there is no DISPLAY here: windows need backend: host and a graphical session"
    return REFUSED.get(verb)


class _Cli(CLI):  # type: ignore[misc]
    """Mininet's command line with another iperf: Mininet's kills all iperf processes, by name."""

    def do_iperf(self, line: str) -> None:
        """`iperf [SITE SITE]`: TCP for 5 s; without sites, from the first to the last one."""
        self._measure(line.split())

    def do_iperfudp(self, line: str) -> None:
        """`iperfudp [RATE [SITE SITE]]`: as `iperf`, with UDP; RATE is such as 10M."""
        rate, *sites = line.split() or ["10M"]
        self._measure(sites, "--udp", "--bitrate", rate)

    def default(self, line: str) -> None:
        """Carry out a command at a site. It has no input: the next lines are for the prompt."""
        site, _, command = line.strip().partition(" ")
        if site in self.mn and command:
            line = f"{site} eval {shlex.quote(f' {command} ')} </dev/null"
        super().default(line)

    def waitForNode(self, node: Any) -> None:  # noqa: N802 (Mininet's name)
        """Wait until a command at a site has ended. Raises ShellEndedError if its shell ends.

        The terminal of the shell stays open without it, so Mininet would wait forever.
        """
        ended = os.pidfd_open(node.shell.pid)
        events = select.poll()
        for handle in (node.stdout.fileno(), ended):
            events.register(handle, select.POLLIN)
        try:
            while node.waiting:
                try:
                    ready = [handle for handle, _ in events.poll()]
                    if node.stdout.fileno() in ready:
                        output(node.monitor())
                    elif ended in ready:
                        what = "the shell has ended; the next command there starts another one"
                        raise ShellEndedError(f"site {node.name}: {what}")
                except KeyboardInterrupt:
                    node.sendInt()
        finally:
            os.close(ended)

    def _measure(self, names: list[str], *options: str) -> None:
        unknown = [name for name in names if name not in self.mn]
        if unknown or len(names) not in (0, 2):
            output(f"expected two sites: {' '.join(unknown or names)}\n")
            return
        client, server = [self.mn[name] for name in names] or [self.mn.hosts[0], self.mn.hosts[-1]]
        server.open_shell()
        server.sendCmd("iperf3 --server --one-off")
        heard = ""
        while server.waiting and "listening" not in heard:
            heard += server.monitor()
        said = client.cmd("iperf3 --client", server.IP(), "--time 5", *options)
        if "iperf Done" not in said:
            server.sendInt()
        server.waitOutput()
        output(said)


class ShellEndedError(Exception):
    """A command has ended the shell of its site."""


@dataclass(slots=True)
class Command:
    """A command that runs: its process, and the pipe with its output."""

    process: Process
    output: int
    interrupts: int = 0
    shell_ended: bool = False

    @classmethod
    def start(cls, net: Mininet, line: str, cwd: str = "/") -> Command:
        """Carry out a line as Mininet's command line does; the sites that it names get shells.

        `sh` and `py` run in the folder `cwd`.
        """
        words = line.split()
        named = [net[word] for word in words if word in net]
        for site in net.hosts if words[0] in EVERYWHERE else named:
            site.open_shell()
        reader, writer = os.pipe()
        handlers = {**HANDLERS, signal.SIGINT: signal.default_int_handler}
        process = fork(lambda: _carry_out(net, line, cwd, writer), handlers)
        os.close(writer)
        os.set_blocking(reader, False)
        return cls(process, reader)

    def read(self) -> str:
        """Read the output that has come since the last call."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.output, 1 << 16):
                data += part
        return data.decode(errors="replace").replace("\r\n", "\n")

    def interrupt(self) -> None:
        """Interrupt the command, as Ctrl-C does; the second call kills it."""
        self.interrupts += 1
        self.process.send(signal.SIGINT if self.interrupts == 1 else signal.SIGKILL)

    def kill(self) -> None:
        """Kill the command."""
        self.interrupts += 1
        self.interrupt()

    def finish(self) -> bool:
        """Reap the process, which has ended, and free its pipe; returns whether it ended well."""
        code = self.process.wait()
        self.process.end()
        os.close(self.output)
        self.shell_ended = code == SHELL_ENDED
        return code == 0

    @property
    def killed(self) -> bool:
        """Whether the command was killed, which leaves the shells of its sites busy."""
        return self.interrupts > 1


def end_orphans(spared: Collection[int] = ()) -> None:
    """Kill and reap the children of this process, also children that it adopts meanwhile.

    Those with the ids in `spared` are not orphans of commands: the process has forked them itself.
    """
    deadline_s = time.monotonic() + 5
    while (orphans := _children().difference(spared)) and time.monotonic() < deadline_s:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _children() -> set[int]:
    me, found = os.getpid(), set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (process / "stat").read_text()
            if int(stat[stat.rindex(")") + 2 :].split()[1]) == me:
                found.add(int(process.name))
    return found


def _carry_out(net: Mininet, line: str, cwd: str, writer: int) -> int:
    """Carry out a command in its own process, with output to `writer`; returns the exit code.

    An unexpected exception ends the process with a traceback, which the user sees.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, handle in enumerate((nothing, writer, writer)):
        os.dup2(handle, place)
    sys.stdout, sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    cli: Any = _Cli(net, stdin=open(0), script=os.devnull)  # noqa: SIM115
    code = 1
    if (verb := line.split()[0]) in LOCAL:
        try:
            os.chdir(cwd)
        except OSError as error:
            sys.stdout.write(f"{verb}: {cwd}: not a folder that the run sees: {error.strerror}\n")
            sys.stdout.flush()
            return code
    try:
        cli.onecmd(line)
        code = 0
    except KeyboardInterrupt:
        for site in net.hosts:
            while site.waiting:
                site.sendInt()
                site.waitOutput()
        sys.stdout.write("interrupted\n")
    except ShellEndedError as error:
        sys.stdout.write(f"{error}\n")
        code = SHELL_ENDED
    sys.stdout.flush()
    return code
