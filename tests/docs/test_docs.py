"""What the documentation shows is right: scenarios are read, commands parsed, some carried out.

Every page is a session in one folder: a block whose first line is a comment with a file's name
(`# mine.yaml`) is that file for all that follows on the page.
"""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import pytest
from inside import run_all
from matplotlib import pyplot
from sessions import TYPED, Fence, carry_out, find_commands, find_fences
from three_sites import LOG, SCENARIO

from trunkline import plan as plans
from trunkline.agents.control.replay import replay
from trunkline.agents.events import event_reading
from trunkline.agents.policies.policy import Ended, Ready, Tick
from trunkline.harness.commands import main
from trunkline.harness.commands.verbs import find_verbs
from trunkline.harness.config import document
from trunkline.harness.report import outputs
from trunkline.harness.runs.cluster import cluster_file
from trunkline.harness.scenario import loading, planning
from trunkline.harness.session import program_output
from trunkline.harness.study import grid, model_figures, papers
from trunkline.plan import PlanRequest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
OWN = ROOT / "docs" / "own.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

CARRIED_OUT = ("compare", "completion", "list", "report", "schema", "show", "validate")
"""Commands that are cheap, comparisons as `--dry-run`; of the others the arguments are parsed, and
their scenarios read."""

OTHERS = (".", "eval", "git", "make", "openssl", "pip", "podman", "pytest", "python", "python3")
"""Other programs that pages show."""

ENDS = (">", "<", "|", "&&")

PLACEHOLDER = re.compile(r"[A-Z]{2,}")
"""A word that stands for something of the reader's, as in the texts of `--help`."""

BASE = """\
topology: {builder: full_mesh, sites: 9}
workload: {kind: synthetic, model: 50 MB}
stop: {rounds: 1}
"""
"""What a fragment of a scenario is put into."""


def fences(page: Path) -> Iterator[Fence]:
    return find_fences(page.read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with its tables and its page."""
    run_dir = tmp_path_factory.mktemp("finished") / "20260101-000000"
    run_dir.mkdir()
    (run_dir / "scenario.yaml").write_text(SCENARIO.read_text())
    (run_dir / "resolved.yaml").write_text(SCENARIO.read_text() + "outputs: {plots: false}\n")
    (run_dir / "events.jsonl").write_text(LOG.read_text())
    outputs.build(run_dir)
    return run_dir


@pytest.fixture
def place(tmp_path: Path, finished: Path) -> Path:
    """A folder that looks to the commands like a checkout in which something has been run."""
    for name in ("scenarios", "topologies", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "uplink.csv").write_text("0,10\n5,20\n")
    run_dir = tmp_path / "runs" / "quickstart" / finished.name
    shutil.copytree(finished, run_dir)
    (run_dir.parent / "latest").symlink_to(run_dir.name)
    charged = tmp_path / "runs" / "mine" / "latest"
    charged.mkdir(parents=True)
    (charged / "charges.txt").touch()
    return tmp_path


def test_no_block_is_of_a_kind_that_nothing_checks() -> None:
    kinds = {fence.kind for page in PAGES for fence in fences(page)}
    assert kinds <= {"console", "yaml", "python", "sh", "text", "toctree", ""}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_right(page: Path, place: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(place)
    for fence in fences(page):
        try:
            check(fence, place, capsys)
        except (Exception, SystemExit) as error:
            said = capsys.readouterr().err
            pytest.fail(f"{page.relative_to(ROOT)}:{fence.line}: {error!r}\n{said}")


def check(fence: Fence, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if fence.file:
        path = place / fence.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fence.text)
    if fence.kind == "yaml" and re.search(r"^kind: ", fence.text, re.MULTILINE):
        path = place / "cluster.yml"
        path.write_text(fence.text.replace("/home/me/", f"{place}/"))
        make_certificate(place)
        cluster_file.read(str(path))
    elif fence.kind == "yaml":
        check_scenario(fence.text, sorted(place.glob("*.yaml")))
    elif fence.kind == "python" and not fence.file:
        exec(compile(fence.text, "example", "exec"), {})
    elif fence.kind == "sh":
        check_reports(fence.text)
    elif fence.kind == "console":
        for line, shown in find_commands(fence.text):
            capsys.readouterr()
            carried_out = check_line(shlex.split(line, comments=True), bool(shown))
            if shown and carried_out:
                assert "".join(capsys.readouterr()) == shown


def make_certificate(place: Path) -> None:
    """The files of TLS that the page names, by the command that it has."""
    page = (ROOT / "docs" / "cluster.md").read_text()
    [command] = re.findall(r"^\$ (openssl .*)$", page, re.MULTILINE)
    subprocess.run(shlex.split(command), cwd=place, check=True, capture_output=True)


def check_scenario(text: str, files: list[Path]) -> None:
    """A whole scenario as it is; a part of one in the page's own, or else in a small one."""
    data = document.read(text, "example").data
    if "workload" not in data:
        base = files[-1].read_text() if files else BASE
        text = document.write({**document.read(base, "base").data, **data})
    is_program = data.get("workload", {}).get("kind") == "program"
    loading.parse(text, "scenarios/example.yaml" if is_program else "example.yaml")


def check_reports(text: str) -> None:
    """Lines of shell that report to `TRUNKLINE_REPORTS`."""
    env = {"PATH": os.environ["PATH"], "TRUNKLINE_REPORTS": "/dev/stdout"}
    said = subprocess.run(["bash", "-ec", text], env=env, capture_output=True, check=True).stdout
    assert said
    for number, line in enumerate(said.splitlines(), 1):
        program_output.report(line, "n1", 0, number)


def check_line(words: list[str], may_fail: bool) -> bool:
    """One command line: of ours the arguments and scenarios, of others the files; if it was run."""
    words = words[words[0] == "sudo" :]
    if words[0] != "trunkline":
        assert words[0] in OTHERS, words
        files = [word for word in words[1:] if word.endswith((".py", ".sh"))]
        assert all((ROOT / file).exists() for file in files), files
        return False
    words = words[: min([words.index(end) for end in ENDS if end in words], default=len(words))]
    if words[1] == "compare":
        words.append("--dry-run")
    arguments = main.make_parser().parse_args(words[1:])
    if any(PLACEHOLDER.fullmatch(word) for word in words):
        return False
    if words[1] in CARRIED_OUT:
        code = main.main(words[1:])
        assert not code or may_fail, words
        return True
    if words[1] == "reproduce" and arguments.figure:
        figure = papers.find_figures()[arguments.figure]
        if isinstance(figure, papers.ModelFigure):
            model_figures.plan(figure, grid.read_axes(arguments.vary), 1, arguments.set)
        else:
            loading.load(ROOT / "scenarios" / figure.scenario, arguments.set)
    elif "file" in arguments and arguments.file != "broken.yaml":
        loading.load(arguments.file, getattr(arguments, "set", ()))
    return False


def test_what_help_shows_are_lines_that_are_understood(capsys) -> None:
    shown = {"trunkline": main.EXAMPLES}
    shown |= {name: getattr(module, "EPILOG", "") for name, module in find_verbs().items()}
    found = 0
    for name, text in shown.items():
        for line in re.findall(r"^ *(trunkline (?:.*\\\n)*.*)$", text, re.MULTILINE):
            code, _, _ = re.sub(r"\\\n", " ", line).partition("  ")
            words = shlex.split(re.split(r" (?:[<>|]|&&) ", code)[0], comments=True)
            try:
                main.make_parser().parse_args(words[1:])
            except SystemExit:
                pytest.fail(f"{name} --help: {line}: {capsys.readouterr().err}")
            found += 1
    assert found > 30


def test_the_tutorials_runs_and_its_outage_by_hand_print_what_it_shows(embedded, tmp_path) -> None:
    text = TUTORIAL.read_text()
    # At which moment a session counts bytes depends on when its lines are read.
    found, shown = (
        re.sub("^Mbit/s .*$", "", each, flags=re.MULTILINE)
        for each in (carry_out(text, tmp_path), text)
    )
    assert found == shown
    broken = tmp_path / "broken.yaml"
    assert [entry.fault.VERB for entry in loading.load(broken).timeline] == ["outage", "mend"]


def test_sessions_carry_out_what_has_output_and_type_what_stands_at_prompts(tmp_path) -> None:
    page = """```yaml
# x.yaml
topology: {builder: full_mesh, sites: 2}
workload: {kind: synthetic}
scheme: {name: allreduce}
stop: {tasks: 1, tusks: 2}
```

```console
$ trunkline show x.yaml
an older message
$ trunkline run x.yaml
$ other show x.yaml
```
"""
    said = "x.yaml:5: stop.tusks: 2: unknown key: did you mean tasks? expected one of "
    found = carry_out(page, tmp_path)
    assert found.startswith(page.partition("an older")[0] + said)
    assert found.endswith("\n$ trunkline run x.yaml\n$ other show x.yaml\n```\n")
    assert TYPED.findall("0 s> step 2 s\nsaid\n16.07 s> exit\n") == ["step 2 s", "exit"]


def test_no_file_has_both_sides_of_a_merge() -> None:
    found = subprocess.run(
        ["git", "grep", "-lE", "^(<{7}|>{7}) "],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, "")


def test_the_demo_ends_with_what_to_do_next() -> None:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    steps = subprocess.run(
        ["make", "--just-print", "demo"],
        cwd=ROOT,
        env=ours,  # the tests may run under a make, whose flags and level would be inherited
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    said = subprocess.run(
        steps[steps.rindex("printf") :], shell=True, capture_output=True, text=True, check=True
    ).stdout
    assert "\nWhat next:\n" in said
    assert all((ROOT / page).is_file() for page in re.findall(r"docs/\S+", said))
    (scenario,) = re.findall(r"trunkline shell (\S+)", said)
    assert (ROOT / "scenarios" / f"{scenario}.yaml").is_file()


def test_the_page_of_ones_own_files_has_every_field_of_a_plans_request() -> None:
    section = OWN.read_text().partition("## What a plan gets")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert rows == [each.name for each in fields(PlanRequest)]


def test_the_plan_of_ones_own_is_right_and_adds_at_the_hub() -> None:
    """n2 has the fastest slowest link."""
    (text,) = (fence.text for fence in fences(OWN) if fence.file == "hub.py")
    names: dict[str, Any] = {}
    exec(text, names)
    group = "n1", "n2", "n3"
    rates = {pair: 9.0 if "n2" in pair else 3.0 for pair in permutations(group, 2)}
    delays = dict.fromkeys(rates, 5.0)
    plan = names["build"](PlanRequest(group, group, rates, delays, 8, random.Random(1)))
    plans.check(plan, rates)
    assert [block.aggregator for block in plan.blocks] == ["n2"]


def test_the_workload_and_policies_of_ones_own_do_what_the_page_says(embedded, tmp_path) -> None:
    """The page's runs: without a policy of its own, with one, and with two that know time."""
    shown = {}
    for fence in fences(OWN):
        if fence.file:
            (tmp_path / fence.file).write_text(fence.text)
        for line, text in find_commands(fence.text) if fence.kind == "console" else ():
            arguments = main.make_parser().parse_args(shlex.split(line)[1:])
            if "set" in arguments and "runs" in arguments:
                shown[f"run{len(shown)}"] = text
                run_dir = tmp_path / f"run{len(shown) - 1}"
                (run_dir / "log").mkdir(parents=True)
                changes = (*arguments.set, "outputs.plots=false")
                read = loading.load(tmp_path / arguments.file, changes)
                (run_dir / "resolved.yaml").write_text(loading.resolve(read))
    done = embedded.call(run_all, str(tmp_path), [*shown], visible=[tmp_path])
    assert done == {"codes": dict.fromkeys(shown, 0), "left": []}
    for name, text in shown.items():
        verdict = outputs.build(tmp_path / name)
        assert verdict.outcome == "pass", verdict.problems
        said = re.findall(r"^accuracy +([\d.]+) % after ([\d.]+) s\b", text, re.MULTILINE)
        rows = pd.read_csv(tmp_path / name / "tables" / "accuracy.csv")
        ended = [*zip(map(float, rows["accuracy_percent"]), rows["t_s"], strict=True)]
        found = ended[-1:]
        assert len(found) == len(said)
        # Microseconds, which differ between versions, decide which of two pushes is first.
        for (percent, t_s), (said_percent, said_s) in zip(found, said, strict=True):
            assert percent == pytest.approx(float(said_percent), abs=3)
            assert t_s == pytest.approx(float(said_s), rel=0.2)
    timed = []
    for name in shown:
        scenario = loading.load(tmp_path / name / "resolved.yaml")
        if scenario.scheme.policy.kind in ("deadline.py", "turns.py"):
            lines = (tmp_path / name / "events.jsonl").read_text().splitlines()
            log = event_reading.read(lines)
            answers = replay(log, partial(planning.create_policy, scenario))
            timed.append(scenario.scheme.policy.kind)
            assert {Tick, Ended, Ready} <= {type(answer.event) for answer in answers}
            assert all(answer.is_same for answer in answers)
    assert timed == ["deadline.py", "turns.py"]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "docs").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_the_cells_of_a_notebook_can_be_carried_out(file: Path, place: Path, monkeypatch) -> None:
    matplotlib.use("Agg")
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    for cell in json.loads(file.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    pyplot.close("all")
