"""A real SLURM on the loopback interface: munged, slurmctld and slurmd as ordinary children.

One node has four processors, whatever the machine has. The partition `short` allows a minute.
Everything is below one folder, and these three processes end with the context, as do the jobs.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
IS_THERE = os.geteuid() == 0 and all(shutil.which(each, path=SEARCHED) for each in PROGRAMS)
WAIT_S = 120

OWN_SHARED_MEMORY = ("unshare", "--mount", "sh", "-c",
                     'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")  # fmt: skip
"""Before a command: the semaphores of jobs that are killed end with the node."""

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=normal Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=1 State=UP
"""


@dataclass
class SlurmMachine:
    """A controller and a node; `env` lets the commands of SLURM find them."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        # munged trusts no folder that others may write, so neither /tmp nor what is below it.
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        ports = []
        with ExitStack() as open_ports:
            for _ in range(2):
                server = open_ports.enter_context(socket.create_server(("127.0.0.1", 0)))
                ports.append(server.getsockname()[1])
        configuration = self.folder / "slurm.conf"
        configuration.write_text(
            CONFIGURATION.format(
                host=socket.gethostname(), folder=self.folder, controller=ports[0], node=ports[1]
            )
        )
        self.env = {**self.env, "SLURM_CONF": str(configuration)}
        try:
            self._start(
                *("munged", "--foreground", "--force", f"--key-file={key}"),
                f"--socket={self.folder}/munge.socket",
                *(f"--{each}-file={self.folder}/munge.{each}" for each in ("pid", "log", "seed")),
            )
            self._wait(lambda: (self.folder / "munge.socket").exists())
            self._start("slurmctld", "-D", "-f", configuration)
            self._start("slurmd", "-D", "-f", configuration, before=OWN_SHARED_MEMORY)
            self._wait(lambda: "idle" in self.says("sinfo", "--noheader", "--format=%T"))
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.says("scancel", "--user=root")
        self._wait(lambda: not self.says("squeue", "--noheader"))
        self.stack.close()

    def says(self, *words: str | Path) -> str:
        """The output of a command; it may fail while the controller starts."""
        return subprocess.run(
            list(map(str, words)), env={**os.environ, **self.env}, capture_output=True, text=True
        ).stdout.strip()

    def kill(self, job: str) -> None:
        """Kill all processes of a job at once, as if its machine had lost power."""
        mine = {f"SLURM_JOB_ID={job}", f"SLURM_CONF={self.env['SLURM_CONF']}"}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mine <= {*(path / "environ").read_text().split("\0")}:
                    os.kill(int(path.name), signal.SIGKILL)

    def _start(self, program: str, *words: str | Path, before: Sequence[str] = ()) -> None:
        path = shutil.which(program, path=SEARCHED)
        assert path
        with (self.folder / f"{program}.output").open("wb") as output:
            process = subprocess.Popen(
                [*before, path, *map(str, words)],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)

    def _wait(self, holds: object) -> None:
        end_s = time.monotonic() + WAIT_S
        while not holds():  # type: ignore[operator]
            assert time.monotonic() < end_s, sorted(self.folder.glob("*.output"))
            time.sleep(0.1)
