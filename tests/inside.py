"""What tests of whole runs do inside the embedded kernel, where every import is dear."""

import contextlib
import gc
import importlib
import io
import multiprocessing
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from trunkline.harness.processes.fork import fork
from trunkline.harness.scenario.loading import parse
from trunkline.harness.session import program_children, run_session
from trunkline.workloads import training

INTERRUPTED = 130

SOLVER, TORCH = "scipy.optimize", "torch"
NEEDS = {
    SOLVER: re.compile(r"^ +plan: (crew|opr|blink)$", re.MULTILINE),
    TORCH: re.compile(r"^ +(kind: training$|preload: \[torch)", re.MULTILINE),
}
"""What a resolved scenario says whose plan solves linear programs, or that imports torch."""

ANY = """
topology: {builder: full_mesh, sites: 2, rates: 1 Mbit/s, delays: 1 ms}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {tasks: 1}
"""
"""A scenario whose reading imports all kinds."""


def leftovers() -> list[str]:
    """Processes in the guest beside this one and its parents."""
    mine = {os.getpid(), os.getppid(), 1}
    others = [p for p in Path("/proc").iterdir() if p.name.isdigit() and int(p.name) not in mine]
    commands = [(path / "cmdline").read_text().replace("\0", " ") for path in others]
    return [command for command in commands if command]  # kernel threads have none


def prepare(modules: Iterable[str] = ()) -> None:
    """Import once what every session would import, and freeze it: a page that is written is dear.

    That sessions can do without, tests of `trunkline run` show, such as those of the same seed.
    """
    parse(ANY, "any.yaml")
    for module in modules:
        importlib.import_module(module)
        if module == TORCH:
            training.preload()
    gc.collect()
    gc.freeze()


def run_all(home: str, names: list[str]) -> dict:
    """Run each folder's session; the codes, and the processes that are left.

    Sessions that need fewer modules come first: every agent that is forked pays for the pages of
    all modules.
    """
    codes = {}
    needs = {name: _find_needs(Path(home, name, "resolved.yaml").read_text()) for name in names}
    for modules in sorted(set(needs.values())):
        prepare(modules)
        codes |= {name: _run(home, name) for name in names if needs[name] == modules}
    return {"codes": codes, "left": leftovers()}


def _find_needs(resolved: str) -> tuple[str, ...]:
    """The modules that the run of a scenario imports beside those of all runs."""
    return tuple(module for module, said in NEEDS.items() if said.search(resolved))


def _run(home: str, name: str) -> int:
    """Run a session in a process of its own, as `trunkline run` does, because it has own mounts."""
    process = fork(lambda: run_session.main(Path(home) / name))
    code = process.wait()
    process.end()
    return code


def run_each(home: str, names: list[str]) -> dict:
    """Run each folder's session; code, seconds of virtual time, what is left and said, by name.

    Programs may print 10 000 bytes.
    """
    program_children.OUTPUT_LIMIT_BYTES = 10_000
    done = {}
    for name in names:
        start, said = time.monotonic(), Path(os.environ["TMPDIR"], "said")
        with said.open("w") as output, contextlib.redirect_stdout(output):
            code = _run(home, name)
        took = round(time.monotonic() - start, 1)
        done[name] = [code, took, leftovers(), said.read_text().splitlines()]
    return done


def run_programs(home: str, names: list[str], torch: list[str], ended: dict[str, int]) -> dict:
    """`run_each`, also for those with torch; then send each of `ended` its signal meanwhile."""
    prepare()
    done = run_each(home, names)
    # DistributedDataParallel imports the last of them, which takes as long as all of torch.
    prepare(["torch.distributed", "torch.nn.parallel", "torch._dynamo"])
    done |= run_each(home, torch)
    for name, number in ended.items():
        process = multiprocessing.get_context("fork").Process(target=_end, args=(home, name))
        process.start()
        while not any("sleep 1000" in each for each in leftovers()):
            time.sleep(0.1)
        os.kill(process.pid or 0, number)
        process.join()
        code = process.exitcode
        time.sleep(1)
        done[name] = [code, 0.0, leftovers(), []]
    return done


def _end(home: str, name: str) -> None:
    """Be a session that is ended."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            run_session.main(Path(home) / name)
        except KeyboardInterrupt:
            os._exit(INTERRUPTED)
