"""Python programs that are forked from a process which has imported what they need.

Imports take most of the time of a short program.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.harness.processes.fork_server import ForkServer, ServedProcess, serve


@dataclass
class WarmProcess:
    """A program that was forked; what tests use of it is as in `subprocess.Popen`."""

    served: ServedProcess
    code: int | None = None

    @property
    def pid(self) -> int:
        return self.served.pid

    def poll(self) -> int | None:
        if self.code is None and self.served.await_end(0):
            self.code = self.served.wait()
        return self.code

    def wait(self, timeout: float = 600) -> int:
        if self.code is None and not self.served.await_end(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            self.served.send(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass
class WarmPython:
    """The process with these modules; it ends with ours."""

    modules: Sequence[str]
    server: ForkServer | None = field(default=None, init=False)

    def start(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], output: int
    ) -> WarmProcess:
        """Start `python WORDS` in a process group of its own, without input."""
        if self.server is None:
            command = [sys.executable, __file__, *self.modules]
            self.server = ForkServer(command, Path("/")).__enter__()
        given, request = os.pipe()
        try:
            process = self.server.fork(given, output)
        finally:
            os.close(given)
        with os.fdopen(request, "w") as pipe:
            json.dump({"words": list(words), "cwd": str(cwd), "env": dict(env)}, pipe)
        return WarmProcess(process)


def act() -> int:
    """Be the program that standard input asks for."""
    request = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None  # the new environment says where
    words = request["words"]
    with contextlib.suppress(KeyError):
        sys.modules["dask"].config.refresh()
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path[0] = request["cwd"]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(words)
            sys.path[0] = str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
        return 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)  # noqa: T201
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    for name in sys.argv[1:-1]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    serve(int(sys.argv[-1]), act)
