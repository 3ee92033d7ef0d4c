"""The guest boots on other processors, and runs there write the log that they write here.

Each processor is emulated by QEMU (see `emulated_machine`). That takes minutes, so these tests run
only by `make machines`.
"""

from __future__ import annotations

import compileall
import os
import sys
from pathlib import Path

import emulated_machine
import pytest

from trunkline.harness.kernel import build
from trunkline.harness.runs import reference_logs

ROOT = Path(__file__).parents[3]
LIMIT_S = 1500.0
RUN = """
export HOME={home} PATH={path} XDG_CACHE_HOME={cache} PYTHONPATH={root}/src
cd {root}
exec {python} -m trunkline.harness.commands.main run scenarios/reference/agents.yaml --quiet \\
    --runs /tmp/results/runs
"""

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def machine(embedded) -> Path:
    for folder in ("agents", "harness", "topologies", "workloads"):
        compileall.compile_dir(ROOT / folder, quiet=1)  # there it would take minutes
    cache = build.cached_path().parents[2]
    cache.mkdir(parents=True, exist_ok=True)
    try:
        return emulated_machine.prepare(cache)
    except emulated_machine.NotHereError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("processor", ["Nehalem", "Haswell", "EPYC"])
def test_an_emulated_processor_gives_the_log_of_this_one(machine, processor, tmp_path):
    command = RUN.format(
        home=Path.home(),
        path=os.environ["PATH"],
        cache=build.cached_path().parents[3],
        root=ROOT,
        python=sys.executable,
    )
    code, output = emulated_machine.run(machine, processor, command, tmp_path, LIMIT_S)
    assert code == 0, output
    (log,) = tmp_path.glob("runs/agents/2*/events.jsonl")
    known = reference_logs.read_hashes("agents")
    assert reference_logs.find_difference(log.read_text().splitlines(), known) is None


TRACE = """
for scope in 0 1 2 3; do
    echo $scope >/proc/sys/kernel/yama/ptrace_scope
    for who in '' 'setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace'; do
        PYTHONPATH={path} $who {python} -c \\
            'from trunkline.harness.kernel import probes; print(probes.probe_tracing().found)'
    done
done
"""
WORKS = "ptrace works; 512 bytes of registers, features 0x0"
ONLY_ROOT = "Yama allows it to administrators only (sys/kernel/yama/ptrace_scope is 2)"
FORBIDDEN = "Yama forbids it (sys/kernel/yama/ptrace_scope is 3)"


def test_what_yama_forbids_is_named(machine, tmp_path):
    """For root and for root without the capability to trace; a value of 3 cannot be taken back."""
    command = TRACE.format(path=ROOT / "src", python=sys.executable)
    _, output = emulated_machine.run(machine, "Nehalem", command, tmp_path, LIMIT_S)
    assert output.splitlines() == [
        *(WORKS for _ in range(5)),
        f"PTRACE_TRACEME is refused (EPERM); {ONLY_ROOT}",
        f"PTRACE_TRACEME is refused (EPERM); {FORBIDDEN}",
        f"PTRACE_TRACEME is refused (EPERM); {FORBIDDEN}",
    ]
