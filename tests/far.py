"""A real OpenSSH server as an ordinary child process, and the files of those who talk to it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
PRIVILEGE_SEPARATION = Path("/run/sshd")


def make_key(path: Path, passphrase: str = "") -> Path:
    """A new key pair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", path.name, "-f", path]
    subprocess.run(words, check=True)
    return path


@dataclass
class Server:
    """`sshd` on a free port of the loopback interface; it knows the key `home/.ssh/id_ed25519`.

    `home` is the home folder of the near side, `state` where the far side keeps its runs.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def config(self) -> Path:
        """The near side's SSH configuration: `ssh` would take that of this user's real home."""
        return self.folder / "ssh_config"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        assert SSHD
        make_key(self.folder / "host_key")
        key = make_key(self.home / ".ssh" / "id_ed25519")
        shutil.copy(key.with_suffix(".pub"), self.folder / "authorized_keys")
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self.config.write_text(
            f"Include {self.home}/.ssh/config\nHost *\n"
            f"  IdentityFile {self.home}/.ssh/id_ed25519\n"
            f"  UserKnownHostsFile {self.home}/.ssh/known_hosts\n"
            "  GlobalKnownHostsFile /dev/null\n"
        )
        self.start()
        self.be_known()
        return self

    def start(self) -> None:
        """Start it, on another port than before."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        variables = {"XDG_STATE_HOME": self.state, "PYTHONPATH": ROOT / "src", **self.env}
        setenv = " ".join(f"{name}={value}" for name, value in variables.items())
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPidFile none\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\n"
            f"AllowTcpForwarding local\nSetEnv {setenv}\n"
        )
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", config], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:  # so it listens
            if b"listening on" in line:
                return
        raise AssertionError("sshd did not start")

    def be_known(self, key: str = "host_key") -> None:
        """Put its host key among those that the near side knows."""
        words = (self.folder / f"{key}.pub").read_text()
        (self.home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {words}")

    def cut(self) -> None:
        """Kill the processes that serve connections, as a broken network would."""
        for child in self._children():
            os.kill(child, signal.SIGKILL)

    def _children(self) -> list[int]:
        assert self.process is not None
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process is not None and self.process.stderr is not None
        self.cut()
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def trunkline(self, *words: str | Path, **options: object) -> subprocess.Popen[str]:
        """A command of Trunkline on the near side."""
        command = [sys.executable, "-m", "trunkline.harness.commands.main", *map(str, words)]
        env = {**os.environ, "HOME": str(self.home), "PYTHONPATH": str(ROOT / "src")}
        env.pop("SSH_AUTH_SOCK", None)
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**env, "XDG_CACHE_HOME": cache(), **options.pop("env", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def says(self, *words: str | Path) -> tuple[int, str, str]:
        """Exit code and output of such a command."""
        process = self.trunkline(*words)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err


def cache() -> str:
    """Where the embedded kernel is, for any home folder."""
    return os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
