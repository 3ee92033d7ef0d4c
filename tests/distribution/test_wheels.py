"""The wheels hold all that a run needs, and what the kernel's licence asks for."""

import hashlib

import kernel_wheel
import make_wheels
import pytest
from wheel_file import Entry, read, write

from trunkline.harness.kernel import build

INFO = "x-1.dist-info"


def test_a_wheels_bytes_depend_on_its_content_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    files = {f"{INFO}/WHEEL": Entry(b"Tag: py3-none-any\n"), "x/run": Entry(b"#!/bin/sh\n", True)}
    write(tmp_path / "one.whl", files)
    write(tmp_path / "two.whl", dict(reversed(files.items())))
    assert (tmp_path / "one.whl").read_bytes() == (tmp_path / "two.whl").read_bytes()
    found = read(tmp_path / "one.whl")
    assert list(found) == [f"{INFO}/WHEEL", "x/run", f"{INFO}/RECORD"]
    assert found["x/run"] == Entry(b"#!/bin/sh\n", True)
    assert found[f"{INFO}/RECORD"].content.decode().splitlines() == [
        f"{INFO}/WHEEL,sha256=Xz6xRUOhuxyJEPz936JeseOI9YzAY2mlubdXscPIfhA,18",
        "x/run,sha256=qAdtPSjSHgIBKyDq99v3VAmmJ3E0Q5Al8oLjaOMwWr8,10",
        f"{INFO}/RECORD,,",
    ]


def test_the_wheel_of_trunkline_has_scenarios_data_pages_and_patches(tmp_path):
    wheel = make_wheels.make_trunkline(tmp_path)
    names = set(read(wheel))
    root = make_wheels.ROOT
    wanted = {
        str(file.relative_to(root))
        for folder in make_wheels.PACKED
        if folder != "src"
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {f"trunkline/{name}" for name in wanted} <= names
    assert {"trunkline/plan.py", "trunkline/py.typed"} <= names
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_wheel_of_the_kernel_has_it_with_source_offer_and_licence(embedded, tmp_path):
    kernel = build.cached_path()
    if build.find_problem(kernel) is not None:
        pytest.skip("this user has a kernel of a package, and has built none")
    wheel = kernel_wheel.make(kernel, "1.2.3", tmp_path)
    key = build.key()
    assert wheel.name.startswith(f"trunkline_kernel-1.2.3+k{key}-py3-none-manylinux_2_")
    files = read(wheel)
    assert files["trunkline_kernel/linux"] == Entry(kernel.read_bytes(), executable=True)
    assert files["trunkline_kernel/key"].content.decode() == f"{key}\n"
    digest = hashlib.sha256(kernel.read_bytes()).hexdigest()
    assert files["trunkline_kernel/linux.sha256"].content.decode() == f"{digest}  linux\n"
    for file in (build.CONFIG, *build.PATCHES):
        assert files[f"trunkline_kernel/source/{file.name}"].content == file.read_bytes()
    about = files["trunkline_kernel/SOURCE.md"].content.decode()
    assert f"{build.SOURCE_PACKAGE}`, version `6.12." in about
    assert "For at least three years" in about
    assert "{" not in about
    metadata = files[f"trunkline_kernel-1.2.3+k{key}.dist-info/METADATA"].content.decode()
    assert "\nLicense-Expression: GPL-2.0-only\n" in metadata
    licence = files[f"trunkline_kernel-1.2.3+k{key}.dist-info/licenses/GPL-2.0.txt"].content
    assert b"Version 2, June 1991" in licence


def test_a_kernel_of_another_release_than_the_installed_source_is_not_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "find_problem", lambda kernel: None)
    monkeypatch.setattr(build, "read_version", lambda kernel: "6.12.1")
    with pytest.raises(
        kernel_wheel.CannotPackError, match=r"^the kernel is Linux 6\.12\.1, but the"
    ):
        kernel_wheel.make(tmp_path / "linux", "1.2.3", tmp_path)
