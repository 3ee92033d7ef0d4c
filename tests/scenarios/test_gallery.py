"""The gallery: libraries of others. Each one runs where its wheel is installed."""

import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from command_line import command

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "scenarios" / "gallery"
PAGE = (ROOT / "docs" / "gallery.md").read_text()

NEEDS = {
    "diloco_steps": "torchft",  # torch alone: with the others
    "flower_fedavg": "flwr",
    "go_ping_pong": "torchft",  # and Go
    "hivemind_averaging": "hivemind",
    "hivemind_timeouts": "hivemind",
    "mpi_allreduce": "mpi4py",
    "nvflare_fedavg": "nvflare",
    "torchft_diloco": "torchft",
    "torchft_timeouts": "torchft",
    "torchrun_elastic": "torchft",  # torch alone, but it takes two minutes: with the others
}
"""The wheel whose presence says that an entry shall be tried: pip install -e '.[gallery]'."""


def skip_unless_installed(wheel: str) -> None:
    try:
        metadata.version(wheel)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{wheel} is not installed: pip install -e '.[gallery]'")


@pytest.mark.parametrize("name", NEEDS)
def test_a_library_gets_done_what_its_scenario_expects(name: str, tmp_path: Path) -> None:
    skip_unless_installed(NEEDS[name])
    words = ["run", str(GALLERY / f"{name}.yaml")]
    if name.startswith("go_"):
        if shutil.which("go") is None:
            pytest.skip("there is no Go compiler here")
        built, source = tmp_path / name, ROOT / "scenarios" / "programs" / f"{name}.go"
        subprocess.run(["go", "build", "-o", str(built), str(source)], check=True, timeout=300)
        words += ["--set", f"workload.command[0]={built}"]
    process = command(tmp_path, *words)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, output + errors


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_run_in_which_nothing_happens_would_fail_and_the_page_has_its_command(path: Path) -> None:
    scenario = yaml.safe_load(path.read_text())
    assert scenario["name"] == path.stem and scenario["expect"] and scenario["description"]
    assert f"trunkline run scenarios/gallery/{path.name}" in PAGE
    assert path.stem in NEEDS
