"""SSH connections on machines without the `ssh` command; the only importer of paramiko.

This is enough for hosts that need no SSH configuration: the host's key is known, and a key of an
agent, or a usual file without a passphrase, opens it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import paramiko

from trunkline.harness.runs.remote import RemoteError
from trunkline.harness.runs.remote.protocol import Wire

INSTALL = "There is no ssh command here, which may know more: apt-get install openssh-client"


@dataclass(slots=True)
class ChannelProgram:
    """A program on another machine, and the wire to it, over a channel of paramiko.

    Attributes:
        start_s: the timeout of its first output.
        silence_s: the timeout of all further output.
        end_s: the timeout of its exit code.
    """

    channel: paramiko.Channel
    start_s: float
    silence_s: float
    end_s: float
    wire: Wire = field(init=False)

    def __post_init__(self) -> None:
        self.channel.settimeout(self.start_s)
        self.wire = Wire(lambda: self.channel.recv(1 << 16), self.channel.sendall)

    def on_first_message(self) -> None:
        """Shorten the timeout: from now on the program sends signs of life."""
        self.channel.settimeout(self.silence_s)

    def wait(self) -> tuple[int, str]:
        """Exit code and error output, after its output has ended; the code is -1 if unknown."""
        said = b""
        with contextlib.suppress(OSError):
            while data := self.channel.recv_stderr(1 << 16):
                said += data
        exited = self.channel.status_event.wait(self.end_s)
        code = self.channel.recv_exit_status() if exited else -1
        return code, said.decode(errors="replace").strip()


@contextlib.contextmanager
def open_channel(
    host: str, port: int, user: str | None, command: str, timeout_s: float, keepalive_s: int
) -> Iterator[paramiko.Channel]:
    """Log in and start a command with the user's shell there. Raises RemoteError."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)  # errors are raised anyway
    with contextlib.closing(paramiko.SSHClient()) as client:
        try:
            client.load_system_host_keys()
            client.connect(
                host,
                port,
                user,
                timeout=timeout_s,
                banner_timeout=timeout_s,
                auth_timeout=timeout_s,
                channel_timeout=timeout_s,
            )
            transport = client.get_transport()
            if transport is None:
                raise EOFError("the connection was closed")
            transport.set_keepalive(keepalive_s)
            channel = transport.open_session(timeout=timeout_s)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
            raise RemoteError(f"{host}:{port}: no SSH connection: {error}\n{INSTALL}") from None
        with contextlib.closing(channel):
            yield channel
