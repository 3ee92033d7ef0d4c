"""The client of runs on other machines: it sends a run, follows it, fetches it, and cleans up."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.live.live_state import Progress
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.record import run_folder
from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.runs import provenance
from trunkline.harness.runs.remote import PROTOCOL, BrokenError, RemoteError, jobs, ssh
from trunkline.harness.runs.remote.jobs import Request
from trunkline.harness.runs.remote.protocol import Message, Wire
from trunkline.harness.runs.remote.ssh import Address
from trunkline.harness.runs.runner import RunResult
from trunkline.harness.runs.user_checks import judge_run
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.harness.scenario.settings import Scenario

COMMAND = "trunkline"
"""The default command of Trunkline on the other machine."""

FOLDER_OPTIONS = ("data", "folder")
"""Options of workloads that name a folder; for a user's own workload only the last one counts."""

PACKAGED = Path("/usr")
"""Folders below it come from packages on both machines, so they are not sent."""

MAX_BYTES = 1 << 28
MAX_FILES = 10_000

_GREETING = b'{"trunkline":'
"""How the server's first line begins."""

Show = Callable[[Scenario, Progress], None]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Host:
    """Another machine: its address, the command of Trunkline on it, the SSH configuration."""

    text: str
    command: str = COMMAND
    config_file: Path | None = None

    @property
    def attach(self) -> str:
        """The command line that picks up a run there, without the run's name."""
        command = ["--remote-command", self.command] if self.command != COMMAND else []
        config = ["--ssh-config", str(self.config_file)] if self.config_file else []
        return shlex.join(["trunkline", "attach", *command, *config, self.text])


def run(
    host: Host, scenario: Scenario, source: Path, runs_dir: Path, show: Show, tell: Tell
) -> RunResult:
    """Carry out a scenario on another machine, and fetch its run folder.

    `source` is the scenario's file, `show` gets progress, `tell` gets messages for the user. If the
    connection breaks, the run continues there; after any other error nothing of it is left there.
    Raises RemoteError and StoreError.
    """
    _check_writable(scenario)
    contents = {
        option: _list_contents(option, folder, runs_dir)
        for option, folder in _find_folders(scenario).items()
    }
    with _create_folder(runs_dir, scenario.name) as here, _connect(host) as remote:
        if remote.greeting.get("code") != provenance.hash_code(provenance.SESSION):
            tell(f"{host.text} has other code of Trunkline than this machine: the run uses that")
        request = Request(scenario.name, resolve(scenario), str(source.absolute()), (*contents,))
        name = remote.start(request, source, contents)
        tell(f"{name} runs on {host.text}")
        return remote.finish(name, here, scenario, show, tell)


def attach(host: Host, name: str | None, runs_dir: Path, show: Show, tell: Tell) -> RunResult:
    """Pick up a run on another machine, running or finished; without a name, the only one.

    It continues, and raises, as `run` does.
    """
    with _connect(host) as remote:
        name = name or remote.only_run()
        request = remote.request(name)
        scenario = parse(request.resolved, request.file)
        with _create_folder(runs_dir, scenario.name) as here:
            return remote.finish(name, here, scenario, show, tell)


@dataclass(slots=True)
class _ServerConnection:
    """An open connection to the server, after its greeting."""

    host: Host
    wire: Wire
    greeting: Message

    def only_run(self) -> str:
        """The name of the only run there. Raises RemoteError if there is none or several."""
        names = self.greeting["runs"]
        if len(names) == 1:
            return str(names[0])
        if names:
            raise RemoteError(f"{self.host.text}: name one of the runs: {', '.join(names)}")
        raise RemoteError(
            f"{self.host.text} has no run of yours. Fetched runs are here: trunkline list runs. "
            f"Start a new run with: trunkline run FILE --on {self.host.text}"
        )

    def request(self, name: str) -> Request:
        """The request that started a run there. Raises RemoteError."""
        self.wire.send({"ask": "request", "run": name})
        return Request.of_json(self.receive().get("request"))

    def start(
        self, request: Request, source: Path, contents: Mapping[str, Sequence[tuple[str, Path]]]
    ) -> str:
        """Send a run, which begins at once, and return its name. Raises RemoteError."""
        try:
            self.wire.send({"ask": "start", "request": request.to_json()})
            named = [
                (f"{jobs.FILES}/{option}/{name}", path)
                for option, files in contents.items()
                for name, path in files
            ]
            self.wire.send_files([(jobs.SOURCE, source), *named])
        except BrokenError as error:
            raise RemoteError(f"{self.host.text}: the connection broke: {error}") from None
        except OSError as error:
            raise RemoteError(f"{error.filename}: cannot be read: {error.strerror}") from None
        try:
            return str(self.receive()["run"])
        except BrokenError as error:
            raise RemoteError(
                f"{self.host.text}: the connection broke: {error}\n"
                f"The run may have started; check with: {self.host.attach}"
            ) from None

    def finish(
        self, name: str, here: RunFolder, scenario: Scenario, show: Show, tell: Tell
    ) -> RunResult:
        """Follow a run to its end and fetch it; see `run`."""
        pick_up = f"{self.host.attach} {shlex.quote(name)}"
        try:
            over = self._follow(name, scenario, show)
        except BrokenError as error:
            raise RemoteError(
                f"{self.host.text}: the connection broke: {error}\n"
                f"The run continues there; pick it up with: {pick_up}"
            ) from None
        except KeyboardInterrupt:
            self._end(name, pick_up)
            raise
        if "refused" in over:
            self._remove(name)
            raise RemoteError(f"{self.host.text}: {over['refused']}")
        show(scenario, Progress(message=f"fetching the results from {self.host.text}"))
        try:
            verdict = self._fetch(name, over["run_dir"], here)
            here.write_text("resolved.yaml", resolve(scenario))  # with this machine's paths
            if scenario.overrides:  # the other machine got the resolved scenario
                about = here.read_json("environment.json", missing={})
                here.write_json("environment.json", {**about, "overrides": scenario.overrides})
            if any(each.kind == "check" for each in scenario.expect):  # they are on this machine
                verdict = judge_run(here.path)
            self._remove(name)
        except BrokenError as error:
            raise RemoteError(
                f"{self.host.text}: the connection broke: {error}\n"
                f"The run is over; fetch it with: {pick_up}"
            ) from None
        except StoreError as error:
            raise StoreError(f"{error}\nThe run is over; fetch it with: {pick_up}") from None
        except KeyboardInterrupt:
            tell(f"the run is over; fetch it with: {pick_up}")
            raise
        return RunResult(verdict, here.path, over["error"])

    def receive(self) -> Message:
        """The next message but signs of life. Raises RemoteError with the server's reason."""
        while True:
            message, _ = self.wire.receive()
            if "refused" in message:
                raise RemoteError(f"{self.host.text}: {message['refused']}")
            if "alive" not in message:
                return message

    def _follow(self, name: str, scenario: Scenario, show: Show) -> Message:
        self.wire.send({"ask": "follow", "run": name})
        while True:
            message = self.receive()
            if "over" in message:
                over: Message = message["over"]
                return over
            show(scenario, Progress(**message["progress"]))

    def _fetch(self, name: str, run_dir: str, here: RunFolder) -> Verdict:
        self.wire.send({"ask": "fetch", "run": name, "run_dir": run_dir})
        try:
            self.wire.receive_files(here.path)
        except OSError as error:
            raise StoreError(
                f"{error.filename or here.path}: cannot be written: {error.strerror or error}"
            ) from None
        return Verdict.of_json(json.loads(here.read_text("verdict.json")))

    def _remove(self, name: str) -> None:
        self.wire.send({"ask": "remove", "run": name})
        self.receive()

    def _end(self, name: str, pick_up: str) -> None:
        """End a run over a second connection: Ctrl-C may have cut a message on the first one."""
        try:
            with _start_server(self.host) as remote:
                remote._remove(name)
        except RemoteError as error:
            text = f"{error}\nThe run may continue there; pick it up with: {pick_up}"
            raise RemoteError(text) from None


@contextlib.contextmanager
def _connect(host: Host) -> Iterator[_ServerConnection]:
    """Connect to a machine and start the server there. Raises RemoteError."""
    try:
        with _start_server(host) as remote:
            yield remote
    except BrokenError as error:
        raise RemoteError(f"{host.text}: the connection broke: {error}") from None


@contextlib.contextmanager
def _start_server(host: Host) -> Iterator[_ServerConnection]:
    """Start the server and check its version. Raises RemoteError with what to do."""
    address = Address.parse(host.text)
    with ssh.start(address, f"{host.command} remote", host.config_file) as program:
        try:
            program.wire.skip_to(_GREETING)
            greeting, _ = program.wire.receive()
            program.on_first_message()
        except BrokenError as error:
            code, said = program.wait()
            if code == ssh.FAILED:
                raise RemoteError(ssh.explain(address, said, host.config_file)) from None
            raise RemoteError(_explain_no_trunkline(host, code, said, str(error))) from None
        ours, theirs = run_folder.version("trunkline"), greeting.get("trunkline")
        if theirs != ours or greeting.get("protocol") != PROTOCOL:
            raise RemoteError(
                f"{host.text} has Trunkline {theirs} (protocol {greeting.get('protocol')}), this "
                f"machine has {ours} (protocol {PROTOCOL}): install the same version on both"
            )
        yield _ServerConnection(host, program.wire, greeting)


@contextlib.contextmanager
def _create_folder(runs_dir: Path, scenario: str) -> Iterator[RunFolder]:
    """A new run folder, which is removed again if the context raises."""
    folder = RunFolder.create(runs_dir.resolve(), scenario, datetime.now())
    try:
        folder.write_json("environment.json", {"owner": Owner.me().tag})
        yield folder
        folder.be_latest()
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.path.parent.rmdir()
        raise


def _find_folders(scenario: Scenario) -> dict[str, Path]:
    """The folders that a workload's options name, by option."""
    workload = scenario.workload
    names = FOLDER_OPTIONS[-1:] if workload.kind in scenario.code else FOLDER_OPTIONS
    given = {option: workload.options.get(option) for option in names}
    named = {option: Path(name) for option, name in given.items() if isinstance(name, str)}
    return {option: at for option, at in named.items() if not at.is_relative_to(PACKAGED)}


def _check_writable(scenario: Scenario) -> None:
    """Raise RemoteError if the run is to write folders that are not sent with it."""
    sent = _find_folders(scenario).values()
    for folder in map(Path, scenario.files.writable):
        if not any(folder.is_relative_to(each) for each in sent):
            raise RemoteError(
                f"files.writable: {folder}: expected folders in workload.folder with --on"
            )


def _list_contents(option: str, folder: Path, runs_dir: Path) -> list[tuple[str, Path]]:
    """The files of a workload's folder. Raises RemoteError if it is missing or too large."""
    where = f"workload.{option}: {folder}"
    if not folder.is_dir():
        raise RemoteError(f"{where}: there is no such folder")
    found, size = [], 0
    for at, inside, names in os.walk(folder):
        inside[:] = [
            name
            for name in inside
            if not _is_extra(name) and Path(at, name).resolve() != runs_dir.resolve()
        ]
        for path in (Path(at, name) for name in names if not _is_extra(name)):
            if path.is_file():
                found.append((path.relative_to(folder).as_posix(), path))
                size += path.stat().st_size
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise RemoteError(
                f"{where}: expected at most {MAX_FILES} files and {MAX_BYTES >> 20} MB, because "
                "the whole folder is sent: use a folder that has only what the programs need"
            )
    return sorted(found)


def _is_extra(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _explain_no_trunkline(host: Host, code: int, said: str, error: str) -> str:
    called = f"`{host.command} remote`"
    remedy = (
        "Install Trunkline there, or give its path: --remote-command "
        "/path/to/trunkline/.venv/bin/trunkline"
    )
    if code < 0:
        return f"{host.text}: {called} did not answer: {said or error}"
    if code == 127:
        return f"{host.text}: there is no {host.command!r} there ({said})\n{remedy}"
    if "invalid choice: 'remote'" in said:
        return f"{host.text}: its Trunkline is too old: install this machine's version there"
    return f"{host.text}: {called} ended with {code}: {said or error}\n{remedy}"
