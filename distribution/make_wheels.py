"""Makes the wheels `trunkline` and `trunkline-kernel`, or makes both twice and compares the bytes.

    python distribution/make_wheels.py            writes both into dist/
    python distribution/make_wheels.py --twice    builds the kernel twice, too, in other folders

Without `--twice`, the kernel is the one of this user's cache, which is built if it is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import kernel_wheel
import wheel_file

from trunkline.harness.kernel import KernelError, boot, build

ROOT = Path(__file__).resolve().parents[1]
PACKED = ("src", "agents", "harness", "scenarios", "topologies", "workloads")
FILES = ("pyproject.toml", "README.md", "LICENSE")
NOT_PACKED = ("__pycache__", "*.pyc", "*.egg-info", ".*")


def main() -> int:
    """Make the wheels; return 1 if the kernel cannot be packed or two builds differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--twice", action="store_true", help="build all twice and compare")
    arguments = parser.parse_args()
    try:
        if arguments.twice:
            return _compare()
        arguments.out.mkdir(parents=True, exist_ok=True)
        kernel = build.cached_path()
        if build.find_problem(kernel) is not None:
            build.build(kernel, boot.try_out)
        for wheel in make_both(kernel, arguments.out):
            print(wheel)
    except (KernelError, kernel_wheel.CannotPackError, OSError) as error:
        print(f"make_wheels.py: {error}", file=sys.stderr)
        return 1
    return 0


def make_both(kernel: Path, out: Path) -> tuple[Path, Path]:
    """Write the wheels into the existing folder `out`; return their paths.

    Raises CannotPackError, or OSError.
    """
    return make_trunkline(out), kernel_wheel.make(kernel, read_version(), out)


def make_trunkline(out: Path) -> Path:
    """Write the wheel `trunkline` into the existing folder `out`; return its path.

    It is made from a copy, because setuptools also packs what an older build has left.
    """
    with tempfile.TemporaryDirectory(prefix="trunkline-wheel-") as folder:
        tree, made = Path(folder, "tree"), Path(folder, "made")
        tree.mkdir()
        for name in FILES:
            shutil.copyfile(ROOT / name, tree / name)
        for name in PACKED:
            ignore = shutil.ignore_patterns(*NOT_PACKED)
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore)
        options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
        command = [sys.executable, "-m", "pip", "wheel", *options, f"--wheel-dir={made}", str(tree)]
        subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, check=True)
        (wheel,) = made.iterdir()
        wheel_file.write(out / wheel.name, wheel_file.read(wheel))
    return out / wheel.name


def read_version() -> str:
    """Trunkline's version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _compare() -> int:
    """Build kernel and wheels in two folders of different length; print the hashes."""
    hashes: list[dict[str, str]] = []
    for name in ("one", "another-one-with-a-longer-name"):
        with tempfile.TemporaryDirectory(prefix=f"trunkline-{name}-") as folder:
            kernel, out = Path(folder, "kernel", "linux"), Path(folder, "dist")
            out.mkdir()
            print(f"building in {folder}", flush=True)
            build.build(kernel, boot.try_out)
            made = (kernel, *make_both(kernel, out))
            hashes.append({path.name: _hash(path) for path in made})
    for name, digest in hashes[0].items():
        equal = "equal" if hashes[1].get(name) == digest else "DIFFERENT"
        print(f"{equal}  {digest}  {name}")
    return 0 if hashes[0] == hashes[1] else 1


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
