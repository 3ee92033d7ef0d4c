"""A cluster of machines that SSH reaches: the first one has the scheduler, and all have workers.

First all machines are tried: whether SSH reaches them, and whether they have what is needed. An
error names each machine that fails, with its own reason. Schedulers and workers end with their
connections (`while_connected`), so nothing stays, however this command ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncssh
import dask
from distributed import Security, SpecCluster
from distributed.deploy.spec import ProcessInterface

from trunkline.harness.runs.cluster import ClusterError
from trunkline.harness.runs.cluster.cluster_file import LOOPBACK, Ssh
from trunkline.harness.runs.cluster.dask_settings import DASHBOARD, HERE, ONE_RUN, read_tls

CONNECT_S = 30.0
"""How long a machine may take to answer."""

START_S = 120.0
"""How long a scheduler or a worker may take to start."""

END_S = 15.0
"""How long they may take to end: more than `while_connected` gives them."""

IDLE = "60s"
"""When a scheduler ends by itself, if the machine with this command is lost without a word."""

LAST_LINES = 20
NEEDED = "import sys, distributed, trunkline; [open(file).close() for file in sys.argv[1:]]"
"""What a machine needs to be able to do."""

WRAPPER = "trunkline.harness.runs.cluster.while_connected"


def start(
    spec: Ssh, stack: contextlib.ExitStack, tell: Callable[[str], None]
) -> tuple[Any, SshMachines]:
    """Start the scheduler and the workers; they end with `stack`. Raises ClusterError."""
    place: dict[str, Any] = {"interface": spec.interface} if spec.interface else {}
    if {*spec.hosts} <= {*LOOPBACK}:
        place = {"host": HERE}
    security: Security | None = None
    if spec.tls:
        # The schedulers and workers there inherit the configuration: it has paths, no keys.
        roles = {
            f"distributed.comm.tls.{role}.{part}": getattr(spec.tls, part)
            for role in ("scheduler", "worker", "client")
            for part in ("cert", "key")
        }
        tls = {"distributed.comm.tls.ca-file": spec.tls.ca, **roles}
        stack.enter_context(dask.config.set({"distributed.comm.require-encryption": True, **tls}))
        security = read_tls(spec.tls)
        place["protocol"] = "tls://"
    machines = SshMachines(spec, tell)
    machines.check()
    worker = {
        "spec": machines,
        "options": {**ONE_RUN, "dashboard_address": DASHBOARD, **place},
    }
    scheduler = {"port": 0, "dashboard_address": DASHBOARD, "idle_timeout": IDLE, **place}
    try:
        cluster = SpecCluster(
            {
                number: {"cls": _Workers, "options": {"host": host, **worker}}
                for number, host in enumerate(spec.hosts)
            },
            {
                "cls": _Scheduler,
                "options": {"host": spec.hosts[0], "spec": machines, "options": scheduler},
            },
            name="ssh",
            security=security,
        )
    except Exception as error:
        if machines.problems:
            raise machines.describe_problems() from error
        raise
    return stack.enter_context(cluster), machines


@dataclass(slots=True)
class SshMachines:
    """The machines, and what went wrong on each of them."""

    spec: Ssh
    tell: Callable[[str], None]
    problems: dict[str, str] = field(default_factory=dict)
    _workers: list[_Workers] = field(default_factory=list)

    def __call__(self) -> None:
        """Tell of machines whose workers have ended. Raises ClusterError if all have."""
        for each in self._workers:
            if each.has_ended and each.host not in self.problems:
                self.problems[each.host] = each.describe_end()
                self.tell(f"{each.host}: its workers have ended: {self.problems[each.host]}")
        if self._workers and all(each.has_ended for each in self._workers):
            raise self.describe_problems()

    def check(self) -> None:
        """Try what is needed of all machines. Raises ClusterError that names each that fails."""
        asyncio.run(self._check())
        if self.problems:
            raise self.describe_problems()

    def describe_problems(self) -> ClusterError:
        """The error that names each machine with its reason, in the order of the file."""
        hosts = [host for host in dict.fromkeys(self.spec.hosts) if host in self.problems]
        return ClusterError("; ".join(f"{host}: {self.problems[host]}" for host in hosts))

    async def connect(self, host: str) -> asyncssh.SSHClientConnection:
        """Connect to a machine. Raises OSError, asyncssh.Error."""
        given = {"config": [self.spec.ssh_config]} if self.spec.ssh_config else {}
        async with asyncio.timeout(CONNECT_S):
            return await asyncssh.connect(host, **given)

    @property
    def python(self) -> str:
        """Python there."""
        return self.spec.python or sys.executable

    def add(self, workers: _Workers) -> None:
        """These workers have started."""
        self._workers.append(workers)

    async def note(self, host: str, action: Coroutine[Any, Any, None]) -> None:
        """Do something with a machine. If that fails, note why, and raise the error again."""
        try:
            await action
        except TimeoutError:
            self.problems[host] = "it does not answer in time"
            raise
        except (OSError, ValueError, asyncssh.Error, _StartError) as error:
            self.problems[host] = " ".join(str(error).split()) or type(error).__name__
            raise

    async def _check(self) -> None:
        hosts = dict.fromkeys(self.spec.hosts)
        checks = [self.note(host, self._check_machine(host)) for host in hosts]
        for found in await asyncio.gather(*checks, return_exceptions=True):
            if isinstance(found, BaseException) and not self.problems:
                raise found

    async def _check_machine(self, host: str) -> None:
        tls = self.spec.tls
        files = [tls.ca, tls.cert, tls.key] if tls else []
        async with await self.connect(host) as connection, asyncio.timeout(START_S):
            done = await connection.run(shlex.join([self.python, "-c", NEEDED, *files]))
        if done.exit_status:
            lines = str(done.stderr).strip().splitlines() or [f"{self.python} failed"]
            raise _StartError(lines[-1])


class _StartError(Exception):
    """A program did not start on a machine; the text is the last line that it wrote."""


class _Process(ProcessInterface):  # type: ignore[misc]
    """What SSH has started on a machine."""

    def __init__(self, host: str, spec: SshMachines, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.host, self.machines, self.options = host, spec, options
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[str] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or SSH has lost it."""
        return self._process is not None and self._process.is_closing()

    def describe_end(self) -> str:
        """The last line that it wrote."""
        return self._lines[-1] if self._lines else "the connection is lost"

    async def launch(self, words: Sequence[str], wanted: str, count: int = 1) -> str:
        """Start a process of Dask; wait until it says what is wanted so often; the last line.

        Raises OSError, asyncssh.Error, TimeoutError, _StartError.
        """
        python = self.machines.python
        inherited = dask.config.serialize(dask.config.global_config)
        command = [
            *("env", f"DASK_INTERNAL_INHERIT_CONFIG={inherited}"),
            *(python, "-m", WRAPPER),
            *(python, "-m", "distributed.cli.dask_spec", *words),
        ]
        self._connection = await self.machines.connect(self.host)
        self._process = await self._connection.create_process(shlex.join(command))
        async with asyncio.timeout(START_S):
            async for line in self._process.stderr:
                self._note(line)
                count -= wanted in line
                if not count:
                    self._reader = asyncio.create_task(self._read())
                    return str(line)
        raise _StartError(self.describe_end())

    async def close(self) -> None:
        """End it, and wait until it has ended there."""
        if self._reader:
            self._reader.cancel()
        if self._process and self._connection:
            with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
                self._process.stdin.write_eof()
                async with asyncio.timeout(END_S):
                    await self._process.wait()
        if self._connection:
            self._connection.close()
        await super().close()

    async def _read(self) -> None:
        assert self._process
        async for line in self._process.stderr:
            self._note(line)

    def _note(self, line: str) -> None:
        if line.strip():
            self._lines.append(" ".join(line.split()))


class _Scheduler(_Process):
    """The scheduler."""

    async def start(self) -> None:
        await self.machines.note(self.host, self._launch())
        await super().start()

    async def _launch(self) -> None:
        spec = {"cls": "distributed.Scheduler", "opts": self.options}
        line = await self.launch(["--spec", json.dumps(spec)], "Scheduler at")
        self.address = line.split("Scheduler at:")[1].strip()


class _Workers(_Process):
    """The workers of a machine."""

    def __init__(self, scheduler: str, name: object, **given: Any) -> None:
        super().__init__(**given)
        self.scheduler, self.name = scheduler, name

    async def start(self) -> None:
        await self.machines.note(self.host, self._launch())
        self.machines.add(self)
        await super().start()

    async def _launch(self) -> None:
        each = {"cls": "distributed.Nanny", "opts": self.options}
        runs = self.machines.spec.runs
        spec = json.dumps(dict.fromkeys(range(runs), each))
        await self.launch([self.scheduler, "--spec", spec], "worker at", runs)
