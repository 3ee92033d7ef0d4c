"""The kernel of the package trunkline-kernel is used if it is whole and has the present key."""

import hashlib
import sys

import pytest

from trunkline.harness.commands import main
from trunkline.harness.kernel import KernelError, boot, build

PROGRAM = b"#!/bin/sh\necho 6.12.117\n"
NO_VERSION = "the package trunkline-kernel without a version"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The kernel of an empty cache; no tool that builds one can be found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return build.cached_path()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that installs a package with a stand-in kernel; it returns the kernel's path."""

    def install(key, *, checksum_of=PROGRAM):
        folder = tmp_path / "site-packages" / "trunkline_kernel"
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "key").write_text(f"{key}\n")
        kernel = folder / "linux"
        kernel.write_bytes(PROGRAM)
        kernel.chmod(0o755)
        digest = hashlib.sha256(checksum_of).hexdigest()
        (folder / "linux.sha256").write_text(f"{digest}  linux\n")
        return kernel

    # A developer's own package would be found first, or have a version.
    monkeypatch.delitem(sys.modules, "trunkline_kernel", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages"), *sys.path])

    def no_version(name):
        raise build.prebuilt.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(build.prebuilt.importlib.metadata, "version", no_version)
    return install


def test_without_a_package_the_kernel_is_the_users(cache, monkeypatch):
    monkeypatch.setattr(build.prebuilt, "find", lambda: None)
    assert build.choose() == build.Choice(
        cache, False, "from this user's cache: the package trunkline-kernel is not installed"
    )


def test_a_package_with_the_present_key_is_used_and_nothing_is_built(
    cache, package, monkeypatch, capsys
):
    kernel = package(build.key())
    monkeypatch.setattr(build, "missing_packages", lambda: ("gcc",))
    assert build.choose() == build.Choice(kernel, True, f"from {NO_VERSION}")
    assert build.ensure(boot.try_out) == kernel
    assert not cache.parent.exists()
    assert main.main(["kernel", "status"]) == 0
    assert capsys.readouterr().out == f"6.12.117  {kernel}\nfrom {NO_VERSION}\n"
    assert main.main(["kernel", "build"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{kernel}\n"
    assert f"nothing to build: the kernel is from {NO_VERSION}\n" in said.err


def test_a_package_with_another_key_is_not_used_and_status_says_why(cache, package, capsys):
    package("0123456789abcdef")
    assert build.path() == cache
    assert main.main(["kernel", "status"]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        f"not built  {cache}",
        f"from this user's cache: {NO_VERSION} is for another Trunkline: its kernel's key is "
        f"0123456789abcdef, not {build.key()}",
        "remedy: trunkline kernel build",
    ]


def test_a_damaged_kernel_of_a_package_is_not_used_and_status_says_why(cache, package):
    package(build.key(), checksum_of=b"other")
    assert build.choose() == build.Choice(
        cache,
        False,
        f"from this user's cache: {NO_VERSION} has a kernel that is damaged: it differs from its "
        "checksum",
    )


def test_who_cannot_build_learns_why_the_package_is_not_used(cache, package, monkeypatch):
    package("0123456789abcdef")
    monkeypatch.setattr(build, "missing_packages", lambda: ("gcc",))
    with pytest.raises(
        KernelError, match=r"missing gcc; from this user's cache: .*is 0123456789abcdef, not "
    ):
        build.ensure(boot.try_out)
