"""A stranger finds a file by its name, and its folder at a glance."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("agents", "harness", "topologies", "workloads")

PLUG_INS = {
    "agents/plans",
    "agents/policies",
    "harness/commands/verbs",
    "harness/study/papers",
    "topologies",
    "workloads",
}
"""Folders whose files have the names that users write, found by them."""

GROWING = PLUG_INS - {"topologies"}
"""Folders with a file for each plan, policy and the like, of which there may be any number."""

MOST_FILES = 15
MOST_LINES = 450
MOST_LINES_OF_FUNCTION = 70

PUBLIC = {
    "": {"open_run"},
    "topology": {"Link", "LinkOverride", "Site", "Topology", "TopologyError", "mininet_topo"},
    "plan": {
        *("Block", "Chunks", "Directed", "Edge", "Plan", "PlanError", "PlanRequest"),
        *("check", "estimate", "routes", "split", "star"),
    },
    "policy": {
        *(
            "Compared",
            "Decision",
            "Ended",
            "Event",
            "Exclude",
            "Joined",
            "Left",
            "Lost",
            "PartialReduce",
            "Policy",
        ),
        *("Ready", "Proceed", "Sides", "Start", "Tick", "Traits", "Wake", "average", "weighted"),
    },
    "workload": {
        *("Base", "Branch", "Evaluation", "LayeredModel", "OptionError", "Vector", "Workload"),
        *("compute_time", "synthetic"),
    },
    "program": {"compute", "computing", "report", "sync"},
}
"""What users' files import: a name that goes breaks somebody's file."""


def modules() -> list[Path]:
    found = (path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if path.name != "__init__.py")


def is_plug_in(path: Path) -> bool:
    return str(path.parent) in PLUG_INS


def count_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    text = ast.get_docstring(function, clean=False)
    return 0 if text is None else len(text.splitlines())


def test_no_two_files_have_the_same_name() -> None:
    names = Counter(path.name for path in modules() if not is_plug_in(path))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_folder_has_more_files_than_one_can_survey() -> None:
    sizes = Counter(str(path.parent) for path in modules() if str(path.parent) not in GROWING)
    assert {folder: count for folder, count in sizes.items() if count > MOST_FILES} == {}


def test_no_file_has_more_lines_than_one_can_survey() -> None:
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in modules()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_function_has_more_lines_than_one_can_survey() -> None:
    lines = {
        f"{path}: {node.name}": (node.end_lineno or 0) - node.lineno + 1 - count_docstring(node)
        for path in modules()
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES_OF_FUNCTION} == {}


def test_test_files_have_distinct_names_in_folders_that_mirror_the_code() -> None:
    tests = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    assert len({path.name for path in tests}) == len(tests)
    folders = {path.parent for path in tests}
    assert {
        f for f in folders if not (ROOT / f).is_dir() and not (ROOT / "src" / f).is_dir()
    } == set()


def test_the_command_needs_no_file_of_the_current_folder(tmp_path: Path) -> None:
    files = [str(path) for path in sorted((ROOT / "scenarios").glob("*.yaml"))]
    command = [sys.executable, "-P", "-m", "trunkline.harness.commands.main", "validate", *files]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_name_files_that_are_there(page: Path) -> None:
    folders = "|".join((*FOLDERS, "benchmarks", "scenarios", "src", "tests", "vagrant"))
    named = re.findall(rf"`((?:{folders})/[\w/.-]+\.\w+)`", page.read_text())
    placeholders = {name for name in named if re.search(r"NAME|PAPER", name)}
    assert {name for name in {*named} - placeholders if not (ROOT / name).exists()} == set()


def test_the_readme_is_short_and_its_lines_can_be_read_in_an_editor() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    long = [line for line in lines if len(line) > 160 and not line.startswith(("|", "columns:"))]
    assert long == []


def test_contributing_names_what_the_code_has() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    code = [path for top in (*FOLDERS, "docs", "tests") for path in (ROOT / top).rglob("*.py")]
    known = {word for path in code for word in re.findall(r"\w+", path.read_text())}
    known |= set(re.findall(r"\w+", (ROOT / "Makefile").read_text()))
    assert {*re.findall(r"`([a-z_A-Z]\w*)`", text)} - known == set()


def test_contributing_names_the_files_that_have_what_it_names() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    file = rf"`((?:{'|'.join(FOLDERS)})/[a-z_/0-9]+\.py)`"
    found = [pair[::-1] for pair in re.findall(rf"`(\w+)` (?:in|of) {file}", text)]
    for place, about in re.findall(rf"- {file}: ([^.;]*)", text):
        found += [(place, name) for name in re.findall(r"`(_\w+|[A-Z]\w+)`", about)]
    wrong = [
        (place, name)
        for place, name in found
        if not re.search(rf"\b{name}\b", (ROOT / place).read_text())
    ]
    assert (len(found) > 20, wrong) == (True, [])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_has_its_names(name: str) -> None:
    module = importlib.import_module(f"trunkline.{name}".rstrip("."))
    assert set(module.__all__) == PUBLIC[name]
    assert all(hasattr(module, each) for each in module.__all__)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_examples_in_the_docs_import_public_modules_only(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    imported = re.findall(r"^\s*(?:from|import) (trunkline\S*)", "".join(blocks), re.MULTILINE)
    assert {name for name in imported if name.partition(".")[2] not in PUBLIC} == set()
