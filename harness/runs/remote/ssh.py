"""SSH connections to other machines; the only importer of paramiko.

These keywords of OpenSSH's configuration are supported: HostName, HostKeyAlias, Port, User,
IdentityFile, IdentitiesOnly, IdentityAgent none, ProxyJump, UserKnownHostsFile,
StrictHostKeyChecking no, Compression, and Include. Host keys must be known. Users log in with keys
only: files without a passphrase, and keys of an agent.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import re
import shlex
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey
from paramiko.pkey import UnknownKeyType

from trunkline.harness.config.document import shorten
from trunkline.harness.runs.remote import RemoteError
from trunkline.harness.runs.remote.protocol import Wire

PORT = 22
REACH_S = 20.0
"""The timeout of TCP's connection: the other kernel answers fast even on a busy machine."""

ANSWER_S = 120.0
"""The timeout of each later step, which needs the other machine's processor; it is OpenSSH's own
limit for a login (LoginGraceTime)."""

START_S = 300.0
"""The timeout of a program's first output: an emulated processor needed over 90 s during a run."""

SILENCE_S = 90.0
"""The connection counts as broken after this time without output; signs of life come every 5 s."""

KEEPALIVE_S = 15  # firewalls may drop connections that are silent for minutes
MAX_JUMPS = 8
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")

_ADDRESS = re.compile(
    r"(?:([^@\s-][^@\s]*)@)?(?:\[([\w:.%]+)\]|([^:@\[\]\s-][^:@\[\]\s]*))(?::([0-9]{1,5}))?"
)

MOST_LETTERS = 63
"""The longest label of a host's name (RFC 1035)."""

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"


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
        if found is None or not named or not 0 < int(found[4] or PORT) < 1 << 16:
            raise RemoteError(
                f"{shorten(text)!r} is not an address: expected [USER@]HOST[:PORT] with a port "
                f"of 1 to 65535; no part begins with a dash, and each part of HOST between dots "
                f"has 1 to {MOST_LETTERS} characters"
            )
        return cls(found[2] or found[3], found[1], int(found[4]) if found[4] else None)


@dataclass(frozen=True, slots=True)
class Target:
    """The machine to connect to, with its options from the SSH configuration."""

    host: str
    port: int
    user: str
    key_name: str
    """The name under which known_hosts has its key."""

    options: dict[str, Any]
    config_file: Path | None

    @property
    def command(self) -> str:
        """The OpenSSH command that connects to it, for messages to the user."""
        config = ["-F", str(self.config_file)] if self.config_file else []
        port = ["-p", str(self.port)] if self.port != PORT else []
        return shlex.join(["ssh", *config, *port, f"{self.user}@{self.host}", "true"])


@dataclass(slots=True)
class Connection:
    """A connection to one machine, which carries any number of programs."""

    target: Target
    client: paramiko.SSHClient

    @contextlib.contextmanager
    def start(self, command: str) -> Iterator[Program]:
        """Start a program there with the user's shell. Raises RemoteError."""
        transport = self.client.get_transport()
        try:
            if transport is None:
                raise EOFError
            channel = transport.open_session(timeout=ANSWER_S)
            channel.settimeout(START_S)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise RemoteError(
                f"{self.target.host}: {command!r} cannot be started: {error}"
            ) from None
        with contextlib.closing(channel):
            yield Program(channel)


@dataclass(slots=True)
class Program:
    """A program on another machine, and the wire to it."""

    channel: paramiko.Channel
    wire: Wire = field(init=False)

    def __post_init__(self) -> None:
        self.wire = Wire(lambda: self.channel.recv(1 << 16), self.channel.sendall)

    def on_first_message(self) -> None:
        """Shorten the timeout: from now on the program sends signs of life."""
        self.channel.settimeout(SILENCE_S)

    def wait(self) -> tuple[int, str]:
        """Exit code and error output, after its output has ended; the code is -1 if unknown."""
        said = b""
        with contextlib.suppress(OSError):
            while data := self.channel.recv_stderr(1 << 16):
                said += data
        exited = self.channel.status_event.wait(ANSWER_S)
        code = self.channel.recv_exit_status() if exited else -1
        return code, said.decode(errors="replace").strip()


@contextlib.contextmanager
def connect(address: Address, config_file: Path | None = None) -> Iterator[Connection]:
    """Connect to a machine, through other machines if the configuration says so (ProxyJump).

    `config_file` replaces the user's and the system's SSH configuration. Raises RemoteError.
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)  # errors are raised anyway
    config = _read_config(config_file)
    with contextlib.ExitStack() as hops:
        yield _connect_with_jumps(address, config, config_file, hops, 0)


def _connect_with_jumps(
    address: Address,
    config: paramiko.SSHConfig,
    config_file: Path | None,
    hops: contextlib.ExitStack,
    depth: int,
) -> Connection:
    target = _resolve_target(address, config, config_file)
    if depth > MAX_JUMPS:
        raise RemoteError(f"{target.host}: more than {MAX_JUMPS} jumps (ProxyJump) lead there")
    jumps = target.options.get("proxyjump", "none")
    if "proxycommand" in target.options and target.options["proxycommand"] not in (None, "none"):
        raise RemoteError(
            f"{target.host}: your SSH configuration has a ProxyCommand for it, which is not "
            "supported: use ProxyJump"
        )
    via: Connection | None = None
    for jump in jumps.split(",") if jumps != "none" else ():
        hop = Address.parse(jump.strip())
        if via is None:
            via = _connect_with_jumps(hop, config, config_file, hops, depth + 1)
        else:
            via = _connect_through(via, _resolve_target(hop, config, config_file), hops)
    return _connect_through(via, target, hops)


def _connect_through(
    via: Connection | None, target: Target, hops: contextlib.ExitStack
) -> Connection:
    """Log in to a machine, through the connection `via` if there is one."""
    if via is None:
        return _log_in(target, hops.enter_context(_open_socket(target)), hops)
    transport = via.client.get_transport()
    assert transport is not None
    try:
        channel = transport.open_channel(
            "direct-tcpip", (target.host, target.port), ("127.0.0.1", 0), timeout=ANSWER_S
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        where = f"{target.host}:{target.port}"
        raise RemoteError(f"{where}: not reached through {via.target.host}: {error}") from None
    return _log_in(target, channel, hops)


def _open_socket(target: Target) -> socket.socket:
    try:
        return socket.create_connection((target.host, target.port), REACH_S)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RemoteError(f"{target.host}:{target.port}: cannot be reached: {reason}") from None


def _log_in(target: Target, sock: Any, hops: contextlib.ExitStack) -> Connection:
    client = hops.enter_context(contextlib.closing(paramiko.SSHClient()))
    for file in _list_known_hosts(target):
        with contextlib.suppress(OSError):
            client.load_system_host_keys(file)
    client.set_missing_host_key_policy(_HostKeyPolicy(target))
    keys = hops.enter_context(contextlib.closing(_Keys(target)))
    began_s = time.monotonic()
    try:
        client.connect(
            target.key_name,
            PORT,  # unused: `sock` is connected, and `key_name` has a special port
            target.user,
            sock=sock,
            timeout=ANSWER_S,
            banner_timeout=ANSWER_S,
            auth_timeout=ANSWER_S,
            transport_factory=_Transport,
            compress=target.options.get("compression", "no").lower() == "yes",
            auth_strategy=keys,
        )
    except paramiko.BadHostKeyException as error:
        raise RemoteError(_describe_changed_key(target, error)) from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        is_refusal = isinstance(error, paramiko.AuthenticationException)
        if is_refusal and "Authentication timeout" not in str(error):
            raise RemoteError(keys.explain_refusal()) from None
        reason: object = error or "it closed the connection"
        if is_refusal or time.monotonic() - began_s >= ANSWER_S:
            reason = f"it did not answer within {ANSWER_S:g} s; is that machine overloaded?"
        raise RemoteError(f"{target.host}:{target.port}: no SSH connection: {reason}") from None
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(KEEPALIVE_S)
    return Connection(target, client)


class _Transport(paramiko.Transport):
    """Allows the key exchange as much time as all other steps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.handshake_timeout = ANSWER_S


class _HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Accepts an unknown host key only with StrictHostKeyChecking no."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        if self.target.options.get("stricthostkeychecking", "").lower() in ("no", "off"):
            return
        raise RemoteError(
            f"{hostname}: the key of this host is unknown: {key.get_name()} "
            f"{key.fingerprint}\nIf it is the right key, accept it with: {self.target.command}"
        )


def _describe_changed_key(target: Target, error: paramiko.BadHostKeyException) -> str:
    forget = shlex.join(["ssh-keygen", "-R", target.key_name])
    return (
        f"THE HOST KEY OF {target.key_name} HAS CHANGED. The known key is "
        f"{error.expected_key.get_name()} {error.expected_key.fingerprint}, the new key is "
        f"{error.key.get_name()} {error.key.fingerprint}.\nAn attacker may intercept the "
        "connection, or the host was reinstalled. Nothing was sent.\n"
        f"If you know why the key changed: {forget}, then: {target.command}"
    )


class _Keys(AuthStrategy):
    """The keys to log in with: the configured files, those of an agent, the usual files."""

    def __init__(self, target: Target) -> None:
        super().__init__(ssh_config=None)  # type: ignore[arg-type]  # the base class only stores it
        self.target = target
        self.tried: list[str] = []
        self.locked: list[Path] = []
        self.unfit: list[str] = []
        self._agent: paramiko.Agent | None = None

    def close(self) -> None:
        """Disconnect from the agent."""
        if self._agent is not None:
            self._agent.close()

    def get_sources(self) -> Iterator[AuthSource]:
        options = self.target.options
        named = [Path(name).expanduser() for name in options.get("identityfile", ())]
        only = options.get("identitiesonly", "no").lower() == "yes"
        usual = [Path.home() / ".ssh" / name for name in DEFAULT_KEYS]
        for path in named:
            yield from self._try_file(path, must_exist=True)
        if options.get("identityagent", "").lower() != "none":
            wanted = {_read_public_key(path) for path in (named or usual)} if only else None
            self._agent = paramiko.Agent()
            for key in self._agent.get_keys():
                if wanted is None or key.get_base64() in wanted:
                    self.tried.append(f"the agent's {key.comment or key.get_name()}")
                    yield InMemoryPrivateKey(self.target.user, key)
        if not named:
            for path in usual:
                yield from self._try_file(path, must_exist=False)

    def explain_refusal(self) -> str:
        """Why no key was accepted, and what to do."""
        user, where = self.target.user, f"{self.target.host}:{self.target.port}"
        lines = [f"{where}: {user} cannot log in with a key"]
        lines += [f"refused: {', '.join(self.tried)}"] if self.tried else ["no key was found"]
        lines += self.unfit
        for path in self.locked:
            lines.append(f"{path} has a passphrase: add it to an agent first: ssh-add {path}")
        if not self.locked:
            copy = self.target.command.replace("ssh ", "ssh-copy-id ", 1).removesuffix(" true")
            lines.append(f"install one of your keys there: {copy}")
        return "\n".join(lines)

    def _try_file(self, path: Path, must_exist: bool) -> Iterator[AuthSource]:
        try:
            key = paramiko.PKey.from_path(path)
        except TypeError:  # what cryptography raises for a key with a passphrase
            self.locked.append(path)
            return
        except FileNotFoundError:
            self.unfit += [f"{path} does not exist"] if must_exist else []
            return
        except (OSError, ValueError, paramiko.SSHException, UnknownKeyType) as error:
            self.unfit.append(f"{path} cannot be used: {str(error).partition(chr(10))[0]}")
            return
        self.tried.append(str(path))
        yield InMemoryPrivateKey(self.target.user, key)


def _read_public_key(path: Path) -> str:
    """The public key from the `.pub` file beside a key; empty if there is none."""
    try:
        return path.with_name(f"{path.name}.pub").read_text().split()[1]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def _resolve_target(
    address: Address, config: paramiko.SSHConfig, config_file: Path | None
) -> Target:
    try:
        options = dict(config.lookup(address.host))
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ImportError) as error:
        raise RemoteError(f"{address.host}: your SSH configuration: {error}") from None
    host = options["hostname"]
    port = address.port or int(options.get("port", PORT))
    user = address.user or options.get("user") or getpass.getuser()
    named = host if port == PORT else f"[{host}]:{port}"
    return Target(host, port, user, options.get("hostkeyalias", named), options, config_file)


def _list_known_hosts(target: Target) -> list[str]:
    default = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
    mine = target.options.get("userknownhostsfile", default)
    return [*(str(Path(name).expanduser()) for name in shlex.split(mine)), SYSTEM_KNOWN_HOSTS]


def _read_config(config_file: Path | None) -> paramiko.SSHConfig:
    """Read the SSH configuration. As in OpenSSH, the first of several values counts."""
    if config_file is not None and not config_file.is_file():
        raise RemoteError(f"{config_file}: this SSH configuration does not exist")
    home = Path.home() / ".ssh"
    files = [config_file] if config_file else [home / "config", SYSTEM_CONFIG]
    lines: list[str] = []
    for file in files:
        lines += ["Host *", *_read_lines(file, file.parent if file == SYSTEM_CONFIG else home, 0)]
    try:
        return paramiko.SSHConfig.from_text("\n".join(lines))
    except (paramiko.ConfigParseError, ValueError) as error:
        raise RemoteError(f"your SSH configuration: {error}") from None


def _read_lines(file: Path, folder: Path, depth: int) -> Iterator[str]:
    """The lines of a file and of the files it includes; unreadable files count as empty."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    block = "Host *"
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() == "include" and depth < MAX_JUMPS:
            for pattern in shlex.split(rest):
                path = folder / Path(pattern).expanduser()  # an absolute path replaces `folder`
                for found in sorted(Path("/").glob(str(path.relative_to("/")))):
                    yield from _read_lines(found, folder, depth + 1)
                    yield block  # a Host block of the included file ends with that file
            continue
        block = line if word.lower() in ("host", "match") else block
        yield line
