"""The shell's front end: reads lines, has the run's session carry them out, prints the answers.

It is a process of its own, forked from `trunkline shell`, so that reading keys and carrying out the
run do not wait for each other; a pair of sockets connects it with the `control_socket`. On a
terminal it has a history and completes words; from a pipe it reads lines until they end, and shows
them with their prompts.

`AttachedShell` does the same for a run of another terminal, which goes on when the lines end.
"""

from __future__ import annotations

import cmd
import contextlib
import fcntl
import os
import readline
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from trunkline.harness.config import units
from trunkline.harness.faults import fault_syntax, fault_writing
from trunkline.harness.faults.fault_types import VERBS
from trunkline.harness.live.channel import Channel, RunOverError, announce, save
from trunkline.harness.live.control_socket import OVER
from trunkline.harness.live.live_view import View
from trunkline.harness.live.watch import Follower, PromptView
from trunkline.harness.live.wrapping import fit_terminal
from trunkline.harness.network import mininet_cli
from trunkline.harness.processes.lines import Message
from trunkline.harness.scenario.settings import Scenario

HISTORY = Path("~/.trunkline_history")
HISTORY_LINES = 1000

SHELL_VERBS = {
    "step": "Lets a virtual clock run; at the prompt it stands still.\nUsage: step TIME",
    "status": "Shows what is happening: tasks, sites, faults, links out of order, rates.",
    "links": "Shows the rate, delay and loss of every link as it is now, and what is cut.",
    "output": "Shows what a program, or all of a site or a role, wrote since the last time.\n"
    "Usage: output SITE|ROLE|SITE.ROLE",
    "watch": "Shows the run like `trunkline run --watch`: as it is, or while TIME goes by, of a\n"
    "real clock by default until Enter or Ctrl-C.\nUsage: watch [TIME]",
    "save": "Writes the session so far as a scenario, whose timeline repeats it.\nUsage: save FILE",
    "link": "Takes a link's carrier down, or up again.\nUsage: link SITE SITE up|down",
    "source": "Runs the commands in a file.\nUsage: source FILE",
    "exit": "Ends the run: undoes all faults, lets the agents finish, judges. So does Ctrl-D.",
    "help": "Lists the commands, or explains one.\nUsage: help [VERB]",
}
"""The shell's own verbs and their help."""


ECHOED = 500
"""So many letters of a line from a pipe are shown."""

CLEAR = "\r\x1b[K"
"""Clears the line of a terminal."""


class PromptError(RuntimeError):
    """The prompt failed, so the user could not end the run as meant."""


@contextlib.contextmanager
def front_end(scenario: Scenario) -> Iterator[socket.socket]:
    """Fork a front end; yields the run's side of its connection.

    Ctrl-C is then for the front end alone. Leaving closes the run's side, and waits until
    the front end has ended by that. Raises PromptError if it failed.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _run_front_end(scenario, theirs, before is signal.SIG_IGN)
    theirs.close()
    status = 0
    try:
        yield ours
    finally:
        ours.close()
        _, status = os.waitpid(pid, 0)
        signal.signal(signal.SIGINT, before)
    if status:
        raise PromptError("the prompt failed and so ended the run early; its error is above")


class Shell(cmd.Cmd):
    """Reads lines and lets the session carry them out."""

    LEAVING = "exit ends the run"
    """What Ctrl-C says."""

    def __init__(self, scenario: Scenario, channel: Channel) -> None:
        super().__init__()
        self.scenario = scenario
        self.channel = channel
        self.interactive = sys.stdin.isatty()
        self.use_rawinput = self.interactive
        self.holds = False
        self.glance: PromptView | None = None
        self.reading = False
        self.prompt = ""
        self.sourced: list[Path] = []
        self.saved: set[Path] = set()
        self.mininet_verbs = mininet_cli.verbs()

    def run(self) -> None:
        """Carry out lines until they or the run end."""
        try:
            while "open" not in (said := self.channel.receive()):
                pass
            self.holds = said["hold"]
            self._read_lines(Path(said["run_dir"]))
            while True:
                self._receive()
        except RunOverError:
            self._complain_of_the_rest()

    def onecmd(self, line: str) -> bool:
        """Carry out one line; True when it was the last one."""
        verb, _, rest = line.partition("#")[0].strip().partition(" ")
        match verb:
            case "":
                return False
            case "help" | "?":
                self.do_help(rest.strip())
            case "source":
                return self._source(rest.strip())
            case "EOF" | "exit" | "quit" if not rest.strip():
                self._ask("exit")
                return True
            case "watch":
                self._watch(rest.strip())
            case "save" if not rest.strip():
                self._complain("save: expected save FILE")
            case "save":
                self._save(Path(rest.strip()))
            case _:
                if not self._ask(line.partition("#")[0].strip()).get("unsent"):
                    self._wait_for_prompt()
        return False

    def do_help(self, arg: str) -> None:
        """Show all verbs, or the help of one."""
        if arg in VERBS:
            self._show(f"{fault_writing.usage(arg)}\n{fault_writing.summary(arg)}\n")
        elif arg in (known := {**self.mininet_verbs, **SHELL_VERBS}):
            self._show("\n".join(line.strip() for line in known[arg].splitlines()) + "\n")
        elif arg:
            self._complain(f"{arg}: there is no such verb")
        else:
            for title, words in (
                ("faults", " ".join(sorted(VERBS))),
                ("session", " ".join(sorted(SHELL_VERBS))),
                ("Mininet", " ".join(sorted(self.mininet_verbs))),
                ("SITE COMMAND", "does a command at a site; names of sites become addresses"),
                ("help VERB", "explains one"),
            ):
                self._show(fit_terminal(f"{title:12}  {words}\n"))

    def completenames(self, text: str, *_: Any) -> list[str]:
        """The verbs and sites that begin so."""
        sites = self.scenario.topology.site_names
        names = sorted({*VERBS, *SHELL_VERBS, *self.mininet_verbs}) + list(sites)
        return [f"{name} " for name in names if name.startswith(text)]

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """The possible next words: of a fault, verbs after `help`, or else names of sites."""
        verb = line.split()[0]
        if verb in VERBS:
            given = line[:endidx], self.scenario.topology, self.scenario.targets
            words: tuple[str, ...] = fault_syntax.complete(*given)
        elif verb == "help":
            return self.completenames(text)
        elif verb == "output":
            words = tuple(each for each in self.scenario.targets or () if each.startswith(text))
        else:
            sites = self.scenario.topology.site_names
            words = tuple(site for site in sites if site.startswith(text))
        return [word if word.endswith("=") else f"{word} " for word in words]

    # -- lines ----------------------------------------------------------------------------------

    def _read_lines(self, run_dir: Path) -> None:
        """Read and carry out lines until the last one. Raises RunOverError."""
        view = View(self.scenario, time.monotonic, self.holds)
        log = Follower(run_dir / "events.jsonl")
        self.glance = PromptView(view, log, Console(highlight=False))
        self._watch_channel()
        if self.interactive:
            self._set_up_readline()
        for site in self.scenario.topology.site_names:
            if site in {*VERBS, *SHELL_VERBS, *self.mininet_verbs, *mininet_cli.REFUSED}:
                self._show(f"{site} is a verb here; noecho {site} COMMAND: a command at the site\n")
        try:
            self._wait_for_prompt()
            self._greet()
            while self._one_line():
                pass
        finally:
            if self.interactive:
                with contextlib.suppress(OSError):
                    readline.write_history_file(HISTORY.expanduser())

    def _greet(self) -> None:
        """Say what there is to know before the first line."""

    def _one_line(self) -> bool:
        """Read and carry out one line; False when it was the last one."""
        try:
            line = self._read()
            return not self.onecmd(line)
        except KeyboardInterrupt:
            if not self.interactive:
                return not self.onecmd("EOF")
            self._show(f"\n({self.LEAVING})\n")
            return True

    def _read(self) -> str:
        self.reading = True
        try:
            self._check_messages()
            if self.interactive:
                return input(self.prompt)
            line = sys.stdin.buffer.readline().decode(errors="replace")
            self._show(f"{self.prompt}{line.rstrip()[:ECHOED]}\n" if line else "")
            return line or "EOF"
        except EOFError:
            self._show("\n")
            return "EOF"
        finally:
            self.reading = False

    def _complain_of_the_rest(self) -> None:
        """Report the lines that are not carried out because the run is over."""
        if self.interactive or not select.select([0], [], [], 0)[0]:
            return
        os.set_blocking(0, False)
        rest = (sys.stdin.buffer.read() or b"").decode(errors="replace")
        os.set_blocking(0, True)
        for line in filter(None, (line.partition("#")[0].strip() for line in rest.splitlines())):
            if line not in ("exit", "quit"):
                self._complain(f"{line}: not done: {OVER}")

    def _check_messages(self, *_: Any) -> None:
        """Handle messages that are not answers, such as the run's end, while a line is read."""
        while self.reading and self.channel.has_message():
            said = self.channel.receive()
            if "ending" in said:
                self._show(f"\nthe run is ending: {said['ending']}\n")
                raise RunOverError
            text = self._hear(said)
            if text and self.interactive:  # it replaces the line so far
                text = f"{CLEAR}{text}{self.prompt}{readline.get_line_buffer()}"
            self._show(text)

    def _receive(self) -> Message:
        """The next message; the run's end is shown."""
        said = self.channel.receive()
        if "ending" in said:
            self._show(f"the run is ending: {said['ending']}\n")
        self._show(self._hear(said))
        return said

    def _hear(self, said: Message) -> str:
        """What is to be shown of news; the prompt has the time to which the clock was stepped."""
        if self.holds and (at_s := said.get("stepped", said.get("prompt"))) is not None:
            self.prompt = f"{round(at_s, 3):.10g} s> "
            if self.glance is not None:
                self.glance.at_s = at_s
        return announce(said)

    def _ask(self, line: str) -> Message:
        waited = False

        def wait() -> None:
            nonlocal waited
            if self.interactive and self.glance is not None:
                waited = True
                now = self.glance.refresh().describe()
                self._show(f"{CLEAR}{line.split()[0]} runs: {now}"[: self.glance.console.width])

        def show(text: str) -> None:
            nonlocal waited
            self._show(f"{CLEAR if waited else ''}{text}")
            waited = False

        said = self.channel.ask(line, show, wait)
        show("")
        if said["done"]:
            self._show(fit_terminal(said["text"]))
        elif said["text"]:
            is_told = self.interactive or said["text"].startswith(line)
            self._complain(said["text"] if is_told else f"{line[:60]}: {said['text']}")
        return said

    def _wait_for_prompt(self) -> None:
        """Wait until the clock is held again, if it is held at the prompt."""
        while self.holds:
            if "prompt" in self._receive():
                return
        self.prompt = "trunkline> "

    def _save(self, path: Path) -> None:
        session = self.channel.ask("save", self._show)
        self._wait_for_prompt()
        if not session["done"]:
            self._complain(session["text"])
        elif refusal := save(
            self.scenario, path, session["saved"], replaces=path.resolve() in self.saved
        ):
            self._complain(refusal)
        else:
            self.saved.add(path.resolve())
            entries = len(session["saved"]["timeline"])
            self._show(f"saved as {path}; faults: {entries}\n")

    def _watch(self, text: str) -> None:
        """Show the run while it runs for this time; without a time on a held clock, once."""
        assert self.glance is not None
        try:
            time_s = float(units.parse(text, units.TIME_S)) if text else None
        except units.QuantityError as error:
            self._complain(f"watch: {text}: {error}")
            return
        if time_s is None and (self.holds or not self.interactive):
            self.glance.print()
            return
        heard: list[str] = []
        keys = [0] if self.interactive else []
        with self.glance.show_live(), contextlib.suppress(KeyboardInterrupt):
            if self.holds:
                self.channel.ask(f"step {text}", heard.append)
            elif 0 in select.select([self.channel.sock.fileno(), *keys], [], [], time_s)[0]:
                os.read(0, 1 << 16)  # drop the line that ended the display
        if self.holds:
            self._wait_for_prompt()
        self.glance.print()
        self._show("".join(heard))

    def _source(self, name: str) -> bool:
        if not name:
            self._complain("source: expected source FILE")
            return False
        path = Path(name).resolve()
        if path in self.sourced:
            self._complain(f"source {name}: not done: the file is being carried out already")
            return False
        try:
            lines = Path(name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            self._complain(f"{name}: cannot be read: {why.lower()}")
            return False
        self.sourced.append(path)
        try:
            return any(self.onecmd(line) for line in lines)
        finally:
            self.sourced.pop()

    def _set_up_readline(self) -> None:
        with contextlib.suppress(OSError):
            readline.read_history_file(HISTORY.expanduser())
        readline.set_history_length(HISTORY_LINES)
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self.complete)  # type: ignore[arg-type]
        readline.parse_and_bind("tab: complete")

    def _watch_channel(self) -> None:
        """Let every message raise a signal, which also interrupts the reading of a line."""
        signal.signal(signal.SIGIO, self._check_messages)
        handle = self.channel.sock.fileno()
        fcntl.fcntl(handle, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_ASYNC)

    @staticmethod
    def _show(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    @staticmethod
    def _complain(text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"{fit_terminal(text)}\n")
        sys.stderr.flush()


class AttachedShell(Shell):
    """A prompt of a run that goes on in another terminal, or without one.

    `exit` ends the run; Ctrl-D, and the end of lines from a pipe, leave it as it is.
    """

    LEAVING = "exit ends the run; Ctrl-D leaves it"

    def attach(self, run_dir: Path) -> None:
        """Carry out lines until they or the run end."""
        try:
            self._read_lines(run_dir)
        except RunOverError:
            self._show(f"{OVER}\n")
            self._complain_of_the_rest()

    def _greet(self) -> None:
        """Show what the run does, and what was injected before."""
        self.onecmd("status")

    def onecmd(self, line: str) -> bool:
        """See `Shell`; the end of the lines does not end the run."""
        return line == "EOF" or super().onecmd(line)

    def _ask(self, line: str) -> Message:
        """Also say when it was done, which `status` does itself: the prompt does not know it."""
        said = super()._ask(line)
        if said["done"] and "t_s" in said and line != "status":
            what = "the run was told to end" if line == "exit" else "done"
            self._show(f"{what} at {said['t_s']:.3f} s\n")
        return said


def _run_front_end(scenario: Scenario, sock: socket.socket, ctrl_c_is_ignored: bool) -> NoReturn:
    """Run the front end in the forked process; never returns. Ignored signals stay ignored."""
    code = 1
    try:
        if not ctrl_c_is_ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        Shell(scenario, Channel(sock)).run()
        code = 0
    except (KeyboardInterrupt, BrokenPipeError):
        code = 0  # the user, or the reader of the output, has had enough
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
