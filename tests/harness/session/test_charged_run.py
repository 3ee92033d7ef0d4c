"""A run of programs whose computing is charged, and runs with its charges on another network."""

import csv
from pathlib import Path

import pytest

from trunkline.harness.runs import runner
from trunkline.harness.runs.runner import RunResult
from trunkline.harness.scenario.loading import CannotRunError, load

RING = """
import os, socket, time
rank, sites = int(os.environ["RANK"]), os.environ["TRUNKLINE_ADDRESSES"].split(",")
server = socket.create_server((sites[rank], 7000))
time.sleep(3)
right = socket.create_connection((sites[1 - rank], 7000))
left, _ = server.accept()
for _ in range(3):
    begin_s = time.monotonic()
    for _ in range(300_000):
        pass
    print(time.monotonic() - begin_s, flush=True)
    right.sendall(bytes(30_000))
    left_over = 30_000
    while left_over:
        left_over -= len(left.recv(left_over))
"""

SCENARIO = """
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: DELAY}
outputs: {plots: false}
workload: {kind: program, command: [python3, ring.py], charge: CHARGE}
"""


def carry_out(folder: Path, name: str, delay: str, charge: str) -> RunResult:
    file = folder / f"{name}.yaml"
    file.write_text(SCENARIO.replace("DELAY", delay).replace("CHARGE", charge))
    return runner.run(load(str(file)), file, folder / "runs", lambda _: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, embedded) -> Path:
    made = tmp_path_factory.mktemp("charged")
    (made / "ring.py").write_text(RING)
    return made


@pytest.fixture(scope="module")
def recorded(folder: Path) -> RunResult:
    return carry_out(folder, "recorded", "10 ms", "{record: true, n2: {factor: 4}}")


@pytest.fixture(scope="module")
def replayed(folder: Path, recorded: RunResult) -> list[RunResult]:
    charge = f"{{replay: {recorded.run_dir}, n2: {{factor: 4}}}}"
    return [carry_out(folder, "replayed", "40 ms", charge) for _ in range(2)]


def read_seconds(result: RunResult, site: str) -> list[float]:
    return [*map(float, (result.run_dir / "log" / f"{site}.out").read_text().split())]


def test_computing_takes_time_by_the_factor_of_its_site(recorded: RunResult) -> None:
    assert recorded.verdict.outcome == "pass", recorded.verdict.problems
    with (recorded.run_dir / "tables/charges.csv").open() as file:
        rows = {row["site"]: row for row in csv.DictReader(file)}
    ratios = [float(row["charged_s"]) / float(row["processor_s"]) for row in rows.values()]
    assert ratios == pytest.approx([1.0, 4.0], rel=1e-3)
    assert min(read_seconds(recorded, "n2")) > 2 * min(read_seconds(recorded, "n1"))


def test_a_charged_run_says_that_it_does_not_repeat(recorded: RunResult) -> None:
    said = "Charged: does not repeat to the byte; the same loop took"
    assert recorded.verdict.remarks[0].startswith(said)
    check = next(c for c in recorded.verdict.checks if c.name == "computing was charged")
    assert check.detail == recorded.verdict.remarks[0]
    assert "Time of computing" in (recorded.run_dir / "report.html").read_text()


def test_the_same_charges_give_the_same_log_on_another_network(
    recorded: RunResult, replayed: list[RunResult]
) -> None:
    logs = [(each.run_dir / "events.jsonl").read_bytes() for each in replayed]
    assert [each.verdict.outcome for each in replayed] == ["pass", "pass"]
    assert logs[0] == logs[1]
    for site in ("n1", "n2"):
        assert read_seconds(replayed[0], site) == pytest.approx(
            read_seconds(recorded, site), abs=1e-3
        )


def test_a_run_without_charges_cannot_be_replayed(folder: Path) -> None:
    with pytest.raises(CannotRunError, match=r"charges.txt: No such file.*record: true"):
        carry_out(folder, "nothing", "10 ms", "{replay: ring.py.d}")
