"""Options of a sweep that do not go together are refused before anything is planned."""

import shlex
from pathlib import Path

import pytest

from trunkline.harness.commands import main
from trunkline.harness.commands.verbs import compare
from trunkline.harness.study import comparison_runs

SLURM = "kind: slurm\nwalltime: 5 min\n"
NEEDS_SLURM = "expected --on-cluster FILE of kind slurm with it, which says what a job gets"
COMPARE, REPRODUCE = ("compare", "quickstart"), ("reproduce", "crew/4")


@pytest.fixture(autouse=True)
def plan_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slurm.yaml").write_text(SLURM)
    monkeypatch.setattr(comparison_runs, "plan", lambda *_, **__: pytest.fail("it was planned"))


@pytest.mark.parametrize("command", [COMPARE, REPRODUCE])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--sbatch a.sh", f"--sbatch a.sh: {NEEDS_SLURM}"),
        ("--sbatch a.sh --on-cluster local", f"--sbatch a.sh: {NEEDS_SLURM}"),
        (
            "--sbatch a.sh --on-cluster slurm.yaml --share 1/2",
            "--sbatch a.sh: expected without --share",
        ),
        ("--share 1/2 --on-cluster local", "--share 1/2: expected without --on-cluster"),
    ],
)
def test_shares_and_scripts_are_for_each_other_s_absence(
    command: tuple[str, ...], words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*command, *words.split()]) == 64
    assert capsys.readouterr().err == f"trunkline: {said}\n"


@pytest.mark.parametrize("words", ["--sbatch a.sh --on-cluster slurm.yaml", "--share 2/3"])
def test_what_carries_out_no_runs_has_no_shares(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*REPRODUCE, *words.split(), "--fluid"]) == 64
    given = " ".join(words.split()[:2])
    assert capsys.readouterr().err == f"trunkline: {given}: expected without --fluid\n"
    assert not Path("a.sh").exists()


@pytest.mark.parametrize(
    ("words", "described"),
    [
        ("compare quickstart", "compare quickstart --trials 3"),
        (
            "compare a.yaml --vary 'timeline=[],[{at: 5 s, do: heal}]' --set scheme.p=3 --seed 4",
            "compare a.yaml --set scheme.p=3 --vary 'timeline=[],[{at: 5 s, do: heal}]' --seed 4 "
            "--trials 3",
        ),
        (
            "compare a.yaml --trials 2 --beside b.yaml --beside-prediction --out x --jobs 2",
            "compare a.yaml --beside b.yaml --trials 2 --beside-prediction --out x",
        ),
        ("reproduce crew/4 --trials 5 --quiet", "reproduce crew/4 --trials 5"),
    ],
)
def test_the_command_of_a_comparison_has_all_that_its_results_depend_on(
    words: str, described: str
) -> None:
    argv = shlex.split(words)
    arguments = main.make_parser().parse_args(argv)
    start = [argv[0], arguments.file if argv[0] == "compare" else arguments.figure]
    made = compare.describe_command(start, arguments, arguments.trials)
    assert made == f"trunkline {described}"
