"""SSH connections to other machines, by the system's `ssh`.

So a user's whole configuration holds: keys, agents, jumps, proxy commands, Kerberos, FIDO keys,
shared connections. On a terminal `ssh` may ask its questions, such as for a passphrase. Without
an `ssh` command, paramiko connects (`paramiko_ssh.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trunkline.harness.config.document import shorten
from trunkline.harness.runs.remote import RemoteError
from trunkline.harness.runs.remote.paramiko_ssh import ChannelProgram, open_channel
from trunkline.harness.runs.remote.protocol import Wire

ANSWER_S = 120
"""The timeout of the connection and of an exit, which may need the other machine's processor; it is
OpenSSH's own limit for a login (LoginGraceTime)."""

START_S = 300.0
"""The timeout of a program's first output: an emulated processor needed over 90 s during a run."""

SILENCE_S = 90.0
"""The connection counts as broken after this time without output; signs of life come every 5 s."""

KEEPALIVE_S = 15  # firewalls may drop connections that are silent for minutes
END_S = 5.0
"""What `ssh` gets to restore the terminal, if it was asking something."""

FAILED = 255
"""The exit code of `ssh` if there is no connection."""

DEFAULT_PORT = 22
PORTS = range(1, 1 << 16)
OWN = ("setpriv", "--pdeathsig", "TERM", "env", "--ignore-signal=INT", "--ignore-signal=HUP")
"""`ssh` ends with us, but Ctrl-C is for us alone: a run is ended over another connection."""

_ADDRESS = re.compile(
    r"(?:([^@\s-][^@\s]*)@)?(?:\[([\w:.%]+)\]|([^:@\[\]\s-][^:@\[\]\s]*))(?::([0-9]{1,5}))?"
)

MOST_LETTERS = 63
"""The longest label of a host's name (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Address:
    """`[user@]host[:port]`; missing parts come from the SSH configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address; an IPv6 address is in brackets. Raises RemoteError."""
        found = _ADDRESS.fullmatch(text)
        labels = (found[3] or "v6").removesuffix(".").split(".") if found else [""]
        named = all(0 < len(label) <= MOST_LETTERS for label in labels)
        if found is None or not named or (found[4] and int(found[4]) not in PORTS):
            raise RemoteError(
                f"{shorten(text)!r} is not an address: expected [USER@]HOST[:PORT] with a port "
                f"of 1 to 65535; no part begins with a dash, and each part of HOST between dots "
                f"has 1 to {MOST_LETTERS} characters"
            )
        return cls(found[2] or found[3], found[1], int(found[4]) if found[4] else None)

    def words(self, config_file: Path | None) -> list[str]:
        """The arguments of `ssh` that name the machine; `config_file` replaces the usual ones."""
        config = ["-F", str(config_file)] if config_file else []
        port = ["-p", str(self.port)] if self.port else []
        user = ["-l", self.user] if self.user else []
        return [*config, *port, *user, self.host]


@dataclass(slots=True)
class Program:
    """A program on another machine, and the wire to it."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    timeout_s: float = START_S
    wire: Wire = field(init=False)

    def __post_init__(self) -> None:
        self.wire = Wire(self._read, self._write)

    def on_first_message(self) -> None:
        """Shorten the timeout: from now on the program sends signs of life."""
        self.timeout_s = SILENCE_S

    def wait(self) -> tuple[int, str]:
        """Exit code and error output, after its output has ended; the code is -1 if unknown."""
        try:
            code = self.process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            code = -1
        self.errors.seek(0)
        return code, self.errors.read().decode(errors="replace").replace("\r", "").strip()

    def _read(self) -> bytes:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], self.timeout_s)[0]:
            raise TimeoutError
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()


@contextlib.contextmanager
def start(
    address: Address, command: str, config_file: Path | None = None
) -> Iterator[Program | ChannelProgram]:
    """Start a program on another machine with the user's shell there.

    Without a connection the program ends with FAILED. Raises RemoteError if the configuration does
    not exist; without an `ssh` command, also if there is a configuration or no connection.
    """
    if config_file is not None and not config_file.is_file():
        raise RemoteError(f"{config_file}: this SSH configuration does not exist")
    if shutil.which("ssh") is None:
        with _start_without_ssh(address, command, config_file) as plain:
            yield plain
        return
    options = {
        "ConnectTimeout": ANSWER_S,
        "ServerAliveInterval": KEEPALIVE_S,
        "ServerAliveCountMax": round(SILENCE_S / KEEPALIVE_S),
        "BatchMode": "no" if sys.stdin.isatty() else "yes",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
    }
    words = [f"-o{name}={value}" for name, value in options.items()]
    pipe = subprocess.PIPE
    # A pipe for errors would stay open as long as a shared connection (ControlPersist).
    with tempfile.TemporaryFile() as errors:
        program = [*OWN, "ssh", "-T", *words, *address.words(config_file), command]
        process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=errors)
        try:
            yield Program(process, errors)
        finally:
            _end(process)


@contextlib.contextmanager
def _start_without_ssh(
    address: Address, command: str, config_file: Path | None
) -> Iterator[ChannelProgram]:
    own = config_file or Path.home() / ".ssh" / "config"
    if own.exists():
        raise RemoteError(
            f"{own}: only the ssh command knows SSH configurations, and there is none here: "
            "apt-get install openssh-client"
        )
    port = address.port or DEFAULT_PORT
    with open_channel(address.host, port, address.user, command, ANSWER_S, KEEPALIVE_S) as channel:
        yield ChannelProgram(channel, START_S, SILENCE_S, ANSWER_S)


def explain(address: Address, said: str, config_file: Path | None) -> str:
    """Why there is no connection, in the words of `ssh`, and how to try it by hand."""
    by_hand = shlex.join(["ssh", *address.words(config_file), "true"])
    return (
        f"{address.host}: no SSH connection: {said or 'ssh does not say why'}\n"
        f"Try it by hand, which also asks about unknown host keys: {by_hand}"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End `ssh` and reap it; what was not sent yet is lost."""
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
