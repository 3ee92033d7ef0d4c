"""The guest boots on other processors, and runs there write the log that they write here.

Each processor is emulated by QEMU (see `emulated_machine`). That takes minutes, so these tests run
only by `make machines`. There only the session of a run is carried out, as `trunkline run` does it.
Verdict and tables would take minutes more, and there QEMU 7.2 fails: a `vpgatherqq` in numpy's
argsort for AVX2 ends with a general protection fault.
"""

import compileall
import os
import sys
from pathlib import Path

import emulated_machine
import pytest

from trunkline.harness.kernel import build
from trunkline.harness.runs import reference_logs
from trunkline.harness.scenario.loading import load, resolve

ROOT = Path(__file__).parents[3]
SCENARIO = "agents"
LIMIT_S = 1500.0
COMMAND = """
export HOME={home} PATH={path} XDG_CACHE_HOME={cache} PYTHONPATH={root}/src
cd {root}
exec {python} /tmp/results/session.py
"""
SESSION = """
import sys
from pathlib import Path
from trunkline.harness.config.paths import ROOT
from trunkline.harness.kernel import boot

folder = Path("/tmp/results/run")
command = [sys.executable, "-m", "trunkline.harness.session.run_session", str(folder)]
sys.exit(boot.run(command, seed={seed}, memory_mb={memory_mb}, cwd=ROOT, visible=[folder]))
"""

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def machine() -> Path:
    for folder in ("agents", "harness", "topologies", "workloads"):
        compileall.compile_dir(ROOT / folder, quiet=1)  # there it would take minutes
    cache = build.cached_path().parents[2]
    cache.mkdir(parents=True, exist_ok=True)
    try:
        return emulated_machine.prepare(cache)
    except emulated_machine.NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def log_here(embedded, tmp_path_factory) -> list[str]:
    outcome, lines = reference_logs.carry_out(SCENARIO, tmp_path_factory.mktemp("here"))
    assert outcome == "pass"
    return lines


@pytest.mark.parametrize("processor", ["Nehalem", "Haswell", "EPYC"])
def test_an_emulated_processor_gives_the_log_of_this_one(machine, log_here, processor, tmp_path):
    scenario = load(reference_logs.FOLDER / f"{SCENARIO}.yaml")
    (tmp_path / "run" / "log").mkdir(parents=True)
    (tmp_path / "run" / "resolved.yaml").write_text(resolve(scenario))
    memory_mb = scenario.limits.memory_bytes >> 20
    (tmp_path / "session.py").write_text(SESSION.format(seed=scenario.seed, memory_mb=memory_mb))
    command = COMMAND.format(
        home=Path.home(),
        path=os.environ["PATH"],
        cache=build.cached_path().parents[3],
        root=ROOT,
        python=sys.executable,
    )
    code, output = emulated_machine.run(machine, processor, command, tmp_path, LIMIT_S)
    assert code == 0, output
    log = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    assert reference_logs.find_difference(log, reference_logs.hash_lines(log_here)) is None
    assert log == log_here


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
