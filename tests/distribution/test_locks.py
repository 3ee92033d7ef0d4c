"""The lock files give versions that pyproject.toml allows, with hashes, and name no place."""

import re
import tomllib

import pytest
from lock import EXTRAS, LOCKS, ROOT, read_blocks, read_locked
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trunkline.harness.export.exported_files import PACKAGES
from trunkline.harness.runs import doctor

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRA_REQUIREMENTS = PROJECT["optional-dependencies"]
FILES = sorted(LOCKS.glob("*.txt"))


def test_every_extra_of_the_main_install_has_a_lock_file():
    not_installed_here = {"gallery", *PACKAGES}
    assert set(EXTRAS) == set(EXTRA_REQUIREMENTS) - not_installed_here
    names = ["cluster", "dev", "docs", "run", "torch", "torch-cpu", "torch-libraries"]
    assert sorted(file.stem for file in FILES) == names


def test_every_format_that_needs_a_package_has_an_extra_with_it():
    for name, package in PACKAGES.items():
        assert [Requirement(text).name for text in EXTRA_REQUIREMENTS[name]] == [package]


def test_the_gallery_names_exact_versions():
    """It has no lock file: its libraries want older versions of what a run needs."""
    assert all("==" in text for text in EXTRA_REQUIREMENTS["gallery"])


@pytest.mark.parametrize("name", ["run", *EXTRAS])
def test_every_requirement_is_locked_in_a_version_that_it_allows(name):
    wanted = PROJECT["dependencies"] if name == "run" else EXTRA_REQUIREMENTS[name]
    locked = read_locked(LOCKS / "run.txt") | read_locked(LOCKS / "torch.txt")
    if name != "run":
        locked |= read_locked(LOCKS / f"{name}.txt")
    for text in wanted:
        requirement = Requirement(text)
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_locked_package_has_a_hash_and_no_line_names_a_place(file):
    text = file.read_text()
    for block in read_blocks(text):
        assert re.fullmatch(r"\S+==\S+( ; [^\\]*)?( \\\n    --hash=sha256:[0-9a-f]{64})+", block)
    assert not re.search(r"://|/\w+/|--index|--find-links", text)


def test_builds_of_torch_for_cpus_are_those_of_the_locked_version():
    version = read_locked(LOCKS / "torch.txt")["torch"]
    builds = read_blocks((LOCKS / "torch-cpu.txt").read_text())
    assert builds
    assert all(build.startswith(f"torch=={version}+cpu ; ") for build in builds)


def test_libraries_for_gpus_are_in_one_file_alone():
    for name in ("run", *EXTRAS):
        assert not re.search(
            r"^(torch|triton|nvidia|cuda)", (LOCKS / f"{name}.txt").read_text(), re.M
        )


def test_doctor_knows_the_locked_versions():
    locked = read_locked(LOCKS / "run.txt") | read_locked(LOCKS / "torch.txt")
    assert {name: locked[name] for name in doctor.TESTED} == doctor.TESTED
