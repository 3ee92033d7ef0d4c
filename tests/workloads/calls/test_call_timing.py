"""What times the calls of torch.distributed: with PyTorch's Gloo on this host, and with fakes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trunkline.workloads.calls import call_timing

CALLS = str(Path(call_timing.__file__).parent)

PROGRAM = """
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
tensor = torch.ones(1000)
dist.all_reduce(tensor)
work = dist.all_reduce(tensor, async_op=True)
work.wait()
with torch.inference_mode():
    dist.broadcast(torch.ones(10), 1)
dist.all_gather([torch.zeros(5), torch.zeros(5)], torch.ones(5))
if rank == 0:
    dist.send(tensor, 1)
    dist.isend(tensor, 1).wait()
else:
    dist.recv(tensor)
    dist.irecv(tensor, 0).wait()
dist.barrier()
alone = dist.new_group([1])
if rank == 1:
    dist.all_reduce(torch.ones(1), group=alone)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 1, bias=False))
print("the model is ready", flush=True)
model(torch.ones(2, 100)).sum().backward()
dist.all_reduce(torch.ones(3), async_op=True)  # Gloo waits for it when Python ends
if rank == 0:
    sys.stdin.read()  # Gloo may abort if its peer ends before it
"""


def run(folder: Path, program: str, reports: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a program as Trunkline starts it with `time_calls`."""
    (folder / "program.py").write_text(program)
    path = [CALLS, *([variables.pop("PYTHONPATH")] if "PYTHONPATH" in variables else [])]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path),
        "TRUNKLINE_REPORTS": str(reports),
        call_timing.WANTED: "1",
        **variables,
    }
    command = [sys.executable, str(folder / "program.py")]
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(program: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = program.communicate(timeout=120)
    return program.returncode, output, errors


def make_reports(folder: Path, name: str = "reports") -> Path:
    (folder / name).touch()
    return folder / name


def read(reports: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in reports.read_text().splitlines()]


def test_all_calls_are_timed_also_those_that_ddp_makes_in_cpp(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    files = [make_reports(tmp_path, f"reports{rank}") for rank in range(2)]
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    programs = [
        run(tmp_path, PROGRAM, file, RANK=str(rank), **place) for rank, file in enumerate(files)
    ]
    ends = [finish(each) for each in reversed(programs)]  # rank 0 ends when its input does
    assert [code for code, _, _ in ends] == [0, 0], ends
    for rank, file in enumerate(files):
        said = read(file)
        begun = [each for each in said if each["event"] == "call_started"]
        ended = {each["call"]: each for each in said if each["event"] == "call_finished"}
        assert [each["call"] for each in begun] == list(range(len(begun)))
        assert ended.keys() == set(range(len(begun)))
        for each in begun:
            assert ended[each["call"]]["monotonic_ns"] >= each["monotonic_ns"]
            assert not ended[each["call"]]["failed"]
        pair = ("recv", "send")[rank == 0]
        told = [(each["name"], each["bytes"], each["peer"], each["blocks"]) for each in begun]
        assert told[:7] == [
            ("all_reduce", 4000, None, True),
            ("all_reduce", 4000, None, False),
            ("broadcast", 40, 1, True),
            ("all_gather", 40, None, True),
            (pair, 4000, 1 if rank == 0 else None, True),
            (pair, 4000, 1 - rank, False),
            ("barrier", 0, None, True),
        ]
        of_ddp = [each for each in told[7:-1] if each[:2] == ("all_reduce", 400)]
        assert of_ddp == [("all_reduce", 400, None, False)]
        assert told[-1] == ("all_reduce", 12, None, False)
        assert {tuple(each["ranks"]) for each in begun} == ({(0, 1)}, {(0, 1), (1,)})[rank]
        assert {(each["rank"], each["thread"]) for each in begun} == {(rank, 0)}


def test_a_program_without_torch_runs_as_it_would_with_a_sitecustomize_of_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('mine', __name__)\n")
    program = f"import sys\nassert {CALLS!r} not in sys.path\nprint('torch' in sys.modules)\n"
    reports = make_reports(tmp_path)
    own = str(tmp_path / "site")
    done = finish(run(tmp_path, program, reports, PYTHONPATH=own))
    assert done == (0, "mine sitecustomize\nFalse\n", "")
    assert read(reports) == []


def test_a_torch_that_cannot_be_timed_is_reported_once_and_works(tmp_path: Path) -> None:
    (tmp_path / "fake" / "torch").mkdir(parents=True)
    (tmp_path / "fake" / "torch" / "__init__.py").write_text("VERSION = 'fake'\n")
    program = "import torch\nprint(torch.VERSION, torch.__spec__.loader.is_package('torch'))\n"
    reports = make_reports(tmp_path)
    done = finish(run(tmp_path, program, reports, PYTHONPATH=str(tmp_path / "fake")))
    assert done == (0, "fake True\n", "")
    (said,) = read(reports)
    assert said["event"] == "timing_stopped"
    assert said["reason"].startswith("this PyTorch's calls cannot be timed: AttributeError: ")


def test_reports_that_cannot_be_written_do_not_fail_the_program(tmp_path: Path) -> None:
    (tmp_path / "fake" / "torch").mkdir(parents=True)
    (tmp_path / "fake" / "torch" / "__init__.py").write_text("")
    program = "import torch\nprint('done')\n"
    own, nowhere = str(tmp_path / "fake"), tmp_path / "nowhere" / "reports"
    code, output, errors = finish(run(tmp_path, program, nowhere, PYTHONPATH=own))
    assert (code, output) == (0, "done\n")
    assert errors.startswith("trunkline: calls are not timed: [Errno 2] No such file")


def test_a_missing_torch_is_missing_as_before(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.path[:] = [each for each in sys.path if 'packages' not in each]\n"
        "try:\n    import torch\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = finish(run(tmp_path, program, make_reports(tmp_path)))
    assert done == (0, "No module named 'torch'\n", "")


class FakeTensor:
    """A tensor of some bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return 1


class FakeTorch:
    """As much of torch as counting bytes needs."""

    Tensor = FakeTensor


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (FakeTensor(5), 5),
        ([[FakeTensor(5), FakeTensor(6)], [FakeTensor(1)]], 12),
        (None, 0),
        (3, 0),
    ],
)
def test_bytes_are_those_of_all_tensors_of_an_argument(value: object, size: int) -> None:
    assert call_timing._count(FakeTorch, value) == size


def test_after_the_limit_no_call_is_timed_and_the_process_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = make_reports(tmp_path)
    monkeypatch.setenv("TRUNKLINE_REPORTS", str(reports))
    monkeypatch.setattr(call_timing, "_state", call_timing.State())
    monkeypatch.setattr(call_timing, "CALLS_LIMIT", 0)
    assert call_timing._begin(FakeTorch, "barrier", {}) is None
    assert call_timing._begin(FakeTorch, "barrier", {}) is None
    (said,) = read(reports)
    assert said["reason"] == "only the first 0 calls of a process are timed"


def test_a_call_ends_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = make_reports(tmp_path)
    monkeypatch.setenv("TRUNKLINE_REPORTS", str(reports))
    call = call_timing.Call(7, 3)
    call_timing._finish(call, False, 10)
    call_timing._finish(call, True, 20)
    assert read(reports) == [
        {"event": "call_finished", "monotonic_ns": 10, "process": 7, "call": 3, "failed": False}
    ]
