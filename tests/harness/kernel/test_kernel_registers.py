"""The guest keeps the registers of its threads, whatever processor it meets."""

import errno
import json
import signal
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("registers.c")
TILES = 1 << 18


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("registers") / "registers"
    compiler = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run([*compiler, "-o", built, SOURCE], check=True)
    return built


@pytest.fixture(scope="module")
def of_host(program: Path) -> dict:
    found = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    if not found["features"]:
        pytest.skip("this processor has no XSAVE, so no registers beyond SSE's")
    return found


@pytest.fixture(scope="module")
def of_guest(program: Path, of_host: dict, embedded) -> dict:
    completed = embedded.run([str(program)], visible=[program.parent])
    assert completed.code == 0, completed.output
    return json.loads(completed.output)


def test_threads_keep_all_registers_over_two_thousand_switches(of_guest: dict) -> None:
    assert (of_guest["switches"], of_guest["broken_by_switches"]) == (2000, 0)


def test_threads_keep_all_registers_over_a_thousand_signals(of_guest: dict) -> None:
    assert (of_guest["signals"], of_guest["broken_by_signals"]) == (1000, 0)


def test_the_guest_has_the_registers_that_the_host_gives_without_asking(
    of_host: dict, of_guest: dict
) -> None:
    assert (of_guest["features"], of_guest["bytes"]) == (of_host["features"], of_host["bytes"])


def test_registers_that_need_a_permission_are_refused_and_not_lost(of_guest: dict) -> None:
    needs_permission = of_guest["denied"] != 0
    assert of_guest["errno"] == (errno.EINVAL if needs_permission else 0)
    has_tiles = bool(of_guest["denied"] & TILES)
    assert of_guest["tiles"] == (signal.SIGILL if has_tiles else 0)
