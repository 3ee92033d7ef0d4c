"""Writes the lock files in `locks/`: versions and hashes of all that `make venv` installs.

    python distribution/lock.py [--upgrade] [--torch VERSION] [--torch-index URL]

| file | what |
| --- | --- |
| `run.txt` | what a run needs, besides torch |
| `dev.txt`, `docs.txt` | what tests and checks need besides, and what the documentation needs |
| `cluster.txt` | what `--on-cluster` needs besides |
| `torch.txt` | torch as the package index has it |
| `torch-libraries.txt` | what that build of torch needs besides `run.txt`: libraries for GPUs |
| `torch-cpu.txt` | builds of torch for CPUs, one line for each that was found, with its hash |

`uv` resolves for Python 3.11 to 3.13 at once. Without `--upgrade`, versions stay if they can.
Builds for CPUs are found at `--torch-index`, or where pip is configured to look. Those of the
locked version that the file has already stay in it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
PYTHONS = ("3.11", "3.12", "3.13")
HEADER = "# Written by `make lock`.\n"
EXTRAS = ("cluster", "dev", "docs")
RESOLVED = ("run", *EXTRAS, "torch", "torch-libraries")
TORCH_OR_GPU = re.compile(r"torch==|triton==|nvidia-|cuda-")


def main() -> int:
    """Write all lock files; end with the exit code of a program that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--torch", metavar="VERSION", help="the version of torch; the locked one")
    parser.add_argument("--torch-index", metavar="URL", help="an index with builds for CPUs")
    arguments = parser.parse_args()
    LOCKS.mkdir(exist_ok=True)
    torch = arguments.torch or read_locked(LOCKS / "torch.txt")["torch"]
    try:
        _resolve(torch, arguments.upgrade)
        _lock_cpu_builds(torch, arguments.torch_index)
    except subprocess.CalledProcessError as failed:
        print(
            f"lock.py: {' '.join(failed.cmd)} ended with code {failed.returncode}", file=sys.stderr
        )
        return failed.returncode
    return 0


def read_blocks(text: str) -> list[str]:
    """The requirements of a lock file, each with its hashes."""
    bare = "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("#"))
    return [block for block in re.split(r"\n(?=\S)", bare.strip()) if block]


def read_locked(file: Path) -> dict[str, str]:
    """The versions in a lock file by name; of a name with several, the last one."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ +]+)", file.read_text(), flags=re.MULTILINE))


def _resolve(torch: str, upgrade: bool) -> None:
    """Write all files but `torch-cpu.txt`; all of them agree on one resolution."""
    with tempfile.TemporaryDirectory(prefix="trunkline-lock-") as folder:
        wanted, everything = Path(folder, "wanted.txt"), Path(folder, "everything.txt")
        wanted.write_text(f"torch=={torch}\n")
        files = [] if upgrade else [LOCKS / f"{name}.txt" for name in RESOLVED]
        known = {b for file in files if file.exists() for b in read_blocks(file.read_text())}
        everything.write_text("\n".join(sorted(known)))  # uv prefers the versions of its output
        _compile(everything, wanted, *EXTRAS)
        parts = {}
        for name in ("run", *EXTRAS):
            part = Path(folder, f"{name}.txt")
            _compile(part, everything, *({name} & set(EXTRAS)))
            parts[name] = read_blocks(part.read_text())
    for name, blocks in parts.items():
        others = () if name == "run" else parts["run"]
        _write(name, [b for b in blocks if b not in others and not TORCH_OR_GPU.match(b)])
    with_torch = [block for block in parts["run"] if TORCH_OR_GPU.match(block)]
    _write("torch", [block for block in with_torch if block.startswith("torch==")])
    _write("torch-libraries", [b for b in with_torch if not b.startswith("torch==")])


def _compile(out: Path, constraints: Path, *extras: str) -> None:
    options = ["--universal", "--python-version", PYTHONS[0], "--fork-strategy", "fewest"]
    options += ["--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    options += [f"--extra={extra}" for extra in extras]
    files = ["--constraint", str(constraints), "--output-file", str(out), "pyproject.toml"]
    command = [sys.executable, "-m", "uv", "pip", "compile", *options, *files]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def _lock_cpu_builds(version: str, index: str | None) -> None:
    """Add the builds for CPUs that pip finds to `torch-cpu.txt`; drop those of other versions."""
    file = LOCKS / "torch-cpu.txt"
    old = read_blocks(file.read_text()) if file.exists() else []
    builds = {block for block in old if block.startswith(f"torch=={version}+cpu ")}
    for python in PYTHONS:
        found = _find_build(f"torch=={version}", python, index)
        if found is not None and "+cpu" in found[0]:
            marker = f"python_version == '{python}' and platform_machine == '{platform.machine()}'"
            builds.add(f"torch=={found[0]} ; {marker} \\\n    --hash=sha256:{found[1]}")
        else:
            print(f"lock.py: pip finds no build of torch {version} for CPUs and Python {python}")
    _write("torch-cpu", sorted(builds))


def _find_build(requirement: str, python: str, index: str | None) -> tuple[str, str] | None:
    """The version and the SHA-256 of the file that pip would install; None if there is none."""
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--quiet"]
    options += [f"--python-version={python}", "--target=.", "--report=-"]
    options += [f"--extra-index-url={index}"] if index else []
    command = [sys.executable, "-m", "pip", "install", *options, requirement]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode:
        return None
    (build,) = json.loads(asked.stdout)["install"]
    return build["metadata"]["version"], build["download_info"]["archive_info"]["hashes"]["sha256"]


def _write(name: str, blocks: list[str]) -> None:
    (LOCKS / f"{name}.txt").write_text(HEADER + "".join(f"{block}\n" for block in blocks))


if __name__ == "__main__":
    sys.exit(main())
