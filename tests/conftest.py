"""What many tests share: running code inside the embedded kernel, and folders that are made once.

The kernel is a requirement of the test suite: it is built if it is not in the cache, and a machine
that cannot build it fails the tests that need it.
"""

import fcntl
import gc
import inspect
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import hypothesis
import pytest

from trunkline.agents.wire import chunk_memory
from trunkline.harness.kernel import boot, build

ROOT = Path(__file__).parents[1]

# A shell's background job ignores Ctrl-C, and nohup a hang-up. All that the tests start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine fails no property.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "first failure",  # for planted bugs: a failure is enough, no smaller one is looked for
    hypothesis.settings.get_profile("patient"),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("patient")

# Properties of executors make thousands of pools of small chunks. With pieces of a mebibyte they
# would take four times as long; these still hold several chunks.
chunk_memory.SLAB_BYTES = 1 << 14


gc.disable()  # what is imported and collected stays: looking for garbage took a quarter of the time


def pytest_collection_finish() -> None:
    """Look for garbage less often: modules and tests stay, and looking took a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


CALL = """
import importlib, json, sys
sys.path[:0] = [{tests!r}, {folder!r}]
value = getattr(importlib.import_module({module!r}), {function!r})(*json.loads({arguments!r}))
print("\\n" + json.dumps(value))
"""


@dataclass(frozen=True, slots=True)
class Completed:
    code: int
    output: str


class Embedded:
    """Runs code inside the embedded kernel; every call boots a guest of its own (about 1 s)."""

    def run(
        self,
        argv: list[str],
        *,
        clock: Literal["virtual", "real"] = "virtual",
        timeout_s: float = 600,
        **options: Any,
    ) -> Completed:
        """Runs a program; `options` are those of `boot.run`."""
        chunks: list[bytes] = []
        code = boot.run(argv, clock=clock, timeout_s=timeout_s, on_output=chunks.append, **options)
        return Completed(code, b"".join(chunks).decode())

    def script(self, source: str, *arguments: str, **options: Any) -> Completed:
        """Runs a small Python program, with `arguments` in `sys.argv`, from the project's root."""
        return self.run([sys.executable, "-c", source, *arguments], **{"cwd": ROOT, **options})

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a module-level function of a test file; arguments and result travel as JSON.

        An exception or non-zero exit inside fails the test, with everything that was printed.
        """
        file = Path(inspect.getfile(function))
        source = CALL.format(
            tests=str(Path(__file__).parent),
            folder=str(file.parent),
            module=file.stem,
            function=function.__name__,
            arguments=json.dumps(arguments),
        )
        completed = self.script(source, **options)
        assert completed.code == 0, f"exit code {completed.code} inside:\n{completed.output}"
        return json.loads(completed.output.rstrip().rsplit("\n", 1)[-1])


@pytest.fixture(scope="session")
def embedded() -> Embedded:
    build.ensure(boot.try_out)
    return Embedded()


MakeOnce = Callable[[Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Gives the folder that a function has filled, once for all tests and processes of pytest.

    Tests only read there. A function that fails is called again by the next test.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    shared.mkdir(exist_ok=True)

    def make(fill: Callable[[Path], None]) -> Path:
        home = shared / f"{fill.__module__}.{fill.__qualname__}".replace("<locals>.", "")
        with (shared / f"{home.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = home / "done"
            if not done.exists():
                shutil.rmtree(home, ignore_errors=True)
                home.mkdir()
                fill(home)
                done.touch()
        return home

    return make
