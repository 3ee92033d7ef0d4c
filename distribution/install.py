"""Installs what Trunkline needs into this Python's environment, in the versions of `locks/`.

    .venv/bin/python distribution/install.py [dev] [docs] [--torch-index URL] [--pip-flags FLAGS]

Every file's hash is checked. torch comes first, as a build for CPUs if pip finds one: in
`--torch-index`, or where pip is configured to look. Only the other build needs libraries for GPUs.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from lock import EXTRAS, LOCKS, read_locked

GIGABYTES = """\
torch: pip finds no build for CPUs here, so it takes the default one, whose libraries for GPUs are
gigabytes in size. Trunkline does not use them. For builds for CPUs, press Ctrl-C now, and add
TORCH_INDEX=URL to `make`, with the index for Linux, pip and CPU that pytorch.org shows.
"""
NO_HASH = """\
torch: locks/torch-cpu.txt has no hash of the build for CPUs and this Python. It is taken as the
index has it."""


def main() -> int:
    """Install; return the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(EXTRAS)}")
    parser.add_argument("--torch-index", default="", metavar="URL")
    parser.add_argument(
        "--pip-flags", default="", metavar="FLAGS", help="more flags for pip install"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.extras) - set(EXTRAS):
        parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(EXTRAS)}")
    flags = shlex.split(arguments.pip_flags)
    try:
        _install_torch(arguments.torch_index, flags)
        _install_locked(["run", *arguments.extras], flags)
    except subprocess.CalledProcessError as failed:
        print(
            f"install.py: {shlex.join(failed.cmd)} ended with code {failed.returncode}",
            file=sys.stderr,
        )
        return failed.returncode
    return 0


def _install_torch(index: str, flags: Sequence[str]) -> None:
    locked = read_locked(LOCKS / "torch.txt")["torch"]
    flags = [*flags, *([f"--extra-index-url={index}"] if index else [])]
    cpu_build = f"{locked}+cpu"
    if cpu_build in _list_versions("torch", index):
        _install_locked(["torch-cpu"], flags)  # empty if there is no hash for this Python
        if _installed("torch") != cpu_build:
            print(NO_HASH, file=sys.stderr)
            _pip_install(["--no-deps", f"torch=={cpu_build}"], flags)
    elif index:
        sys.exit(f"install.py: {index} has no build torch {cpu_build} for this Python")
    else:
        print(GIGABYTES, file=sys.stderr, flush=True)
        _install_locked(["torch", "torch-libraries"], flags)


def _install_locked(names: Sequence[str], flags: Sequence[str]) -> None:
    files = [f"--requirement={LOCKS / name}.txt" for name in names]
    print(
        f"pip installs the packages of {', '.join(f'locks/{each}.txt' for each in names)}",
        flush=True,
    )
    _pip_install(["--no-deps", "--require-hashes", *files], flags)


def _pip_install(words: Sequence[str], flags: Sequence[str]) -> None:
    """Install quietly; pip still prints errors. PIP_FLAGS=-vv says as much as pip does alone."""
    quiet = ["--disable-pip-version-check", "--quiet", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *quiet]
    subprocess.run([*command, *flags, *words], stdin=subprocess.DEVNULL, check=True)


def _list_versions(package: str, index: str) -> set[str]:
    """The versions for this Python that pip finds; empty if it finds none."""
    where = [f"--extra-index-url={index}"] if index else []
    command = [sys.executable, "-m", "pip", "index", "versions", *where, package]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in asked.stdout.splitlines() if line.startswith("Available versions:")]
    return {word.strip(",") for line in lines for word in line.split()[2:]}


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
