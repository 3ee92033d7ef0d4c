"""What the outside makes of what a session says."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from trunkline.harness.commands import main
from trunkline.harness.kernel import KernelError, stall_watch
from trunkline.harness.live.live_state import Progress
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.record.run_folder import StoreError
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import CannotRunError, load

SCENARIO = Path(__file__).parents[3] / "scenarios" / "internet2_ring.yaml"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a scenario whose session says these bytes and exits with this code."""

    def run(said, code, times_s=(), warning=None, events=None):
        def boot(command, *, on_output, on_time, **options):
            if events is not None:
                Path(command[-1], "events.jsonl").write_text(events)
            for byte in said:
                on_output(bytes([byte]))
            for clock_s in times_s:
                on_time(clock_s * 10**9, warning)
            if isinstance(code, BaseException):
                raise code
            return code

        monkeypatch.setattr(runner.boot, "run", boot)
        heard = []
        scenario = load(SCENARIO, ("outputs.plots=false",))  # figures take seconds
        return runner.run(scenario, SCENARIO, tmp_path, heard.append), heard

    return run


def test_progress_is_passed_on_and_anything_else_goes_to_a_log(run):
    said = b'{"message": "hello"}\nTraceback: oh\n{"progress": {"rounds": 3}}\n[1]\n'
    result, heard = run(said, 0)
    assert heard[:2] == [Progress(message="hello"), Progress(rounds=3)]
    steps = ["judging the run", "making the tables", "writing the page"]
    assert heard[2:] == [Progress(rounds=3, message=step) for step in steps]
    assert (result.run_dir / "log" / "session.log").read_text() == "Traceback: oh\n[1]\n"


def test_time_goes_on_in_the_progress_of_programs_that_report_nothing(run):
    said = b'{"message": "hello"}\n{"progress": {"virtual_s": 0.5}}\n'
    _, heard = run(said, 0, times_s=(7, 8, 10))
    assert [now.virtual_s for now in heard[:5]] == [0.0, 0.5, 0.5, 1.5, 3.5]


def test_a_message_is_shown_until_the_next_one_and_has_no_time(run):
    _, heard = run(b'{"message": "hello"}\n', 0, times_s=(7, 8))
    assert heard[:3] == [Progress(message="hello")] * 3


def test_a_warning_why_the_clock_stands_still_is_shown(run):
    _, heard = run(b'{"progress": {"rounds": 3}}\n', 0, times_s=(7,), warning="it computes")
    assert heard[:2] == [Progress(rounds=3), Progress(rounds=3, message="it computes")]


SPIN = """
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [python3, -c, "while True: pass"]}
outputs: {plots: false}
"""


def test_a_program_that_spins_ends_the_run_with_code_70_and_a_warning_before(
    embedded, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(stall_watch, "MIN_STALL_S", 6.0)  # starting the run takes 2 s
    monkeypatch.setattr(stall_watch, "MIN_STALL_BOOTS", 10)
    (tmp_path / "spin.yaml").write_text(SPIN)
    command = ["run", str(tmp_path / "spin.yaml"), "--runs", str(tmp_path / "runs")]
    assert main.main(command) == 70
    said = capsys.readouterr().err
    assert "no process waits while one computes: " in said
    assert "trunkline: the virtual clock stood still at 1." in said
    assert re.search(r"it was process \d+, python3?, at n1; remedy: for programs", said)


@pytest.mark.parametrize("code", [9, KernelError("it crashed"), KeyboardInterrupt()])
def test_latest_is_the_last_run_with_events_however_it_ended(run, tmp_path, code):
    run(b"", 0)
    events = '{"event": "x"}\n' if isinstance(code, BaseException) else None
    with contextlib.suppress(KernelError, KeyboardInterrupt):
        run(b"", code, events=events)
    home = tmp_path / "internet2_ring"
    newest = sorted(each for each in home.iterdir() if not each.is_symlink())[-1]
    assert len(list(home.iterdir())) == 3
    assert (home / "latest").resolve() == newest.resolve()


@pytest.mark.parametrize("error", [KernelError("it cannot boot"), KeyboardInterrupt()])
def test_a_run_that_ends_before_its_first_event_leaves_nothing(run, tmp_path, error):
    with pytest.raises(type(error)):
        run(b"", error)
    assert list(tmp_path.iterdir()) == []


def test_if_the_guest_fails_after_the_session_said_why_both_are_told(run):
    with pytest.raises(KernelError, match=r"^n2 took 600 MB; the guest ran out of memory$"):
        run(b'{"error": "n2 took 600 MB"}\n', KernelError("the guest ran out of memory"))


def test_a_run_that_is_interrupted_before_it_begins_leaves_the_latest_as_it_was(
    run, monkeypatch, tmp_path
):
    def interrupt(_):
        raise KeyboardInterrupt

    run(b"", 0)
    home = tmp_path / "internet2_ring"
    before = sorted(home.iterdir()), (home / "latest").readlink()
    monkeypatch.setattr(runner, "resolve", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(b"", 0)
    assert (sorted(home.iterdir()), (home / "latest").readlink()) == before


def test_what_the_machine_lacks_is_said_before_a_folder_is_made(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(KernelError, match=r"^programs: grep not found in /nonexistent:.*apt-get"):
        run(b"", 0)
    assert list(tmp_path.iterdir()) == []


def test_without_the_right_to_build_networks_a_run_on_the_host_makes_no_folder(
    monkeypatch, tmp_path
):
    def refuse():
        raise NetworkError("it may not", remedy="run as root")

    monkeypatch.setattr(runner, "check_rights", refuse)
    scenario = load(SCENARIO, ("backend=host", "clock=real"))
    with pytest.raises(NetworkError, match="it may not; remedy: run as root"):
        runner.run(scenario, SCENARIO, tmp_path, lambda now: None)
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_kept_and_the_run_is_judged_all_the_same(run):
    result, _ = run(b'{"error": "n2 was killed"}\n', 1)
    assert (result.error, result.verdict.outcome) == ("n2 was killed", "fail")


def test_a_run_without_space_for_its_results_names_the_command_that_writes_them(run, monkeypatch):
    def refuse(run_dir, on_step):
        raise StoreError(f"{run_dir}/tables: cannot be written: No space left on device")

    monkeypatch.setattr(runner, "judge_run", refuse)
    with pytest.raises(StoreError, match=r"No space left.*\n.*: trunkline report .*internet2_ring"):
        run(b"", 0)


def test_a_session_that_dies_silently_is_an_error(run):
    result, _ = run(b"", 9)
    assert result.error == f"the session ended with code 9; see {result.run_dir}/log/session.log"


def test_a_network_that_cannot_be_built_is_no_verdict_but_a_refusal(run):
    with pytest.raises(CannotRunError, match="this kernel lacks netem"):
        run(b'{"refused": "this kernel lacks netem"}\n', 1)
