"""`vagrant/provision.sh` with stand-ins for the programs that change a machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_machine_gets_torch_from_the_index_that_make_uses(tmp_path):
    tools, checkout = tmp_path / "tools", tmp_path / "trunkline"
    (checkout / "vagrant").mkdir(parents=True)
    shutil.copy(ROOT / "debian-packages.txt", checkout)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    shutil.copy(ROOT / "Makefile", checkout)
    tools.mkdir()
    said = {
        "dpkg": "echo arm64",
        "id": "echo 0",
        "make": f'/usr/bin/make --just-print "$@" >> {tmp_path}/made',
    }
    for name in ("dpkg", "dpkg-query", "id", "make", "ln", "trunkline", "modprobe"):
        (tools / name).write_text(f"#!/bin/sh\n{said.get(name, ':')}\n")
        (tools / name).chmod(0o755)
    subprocess.run(
        [ROOT / "vagrant" / "provision.sh"],
        check=True,
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TORCH_INDEX": "https://x/cpu",
        },
    )
    made = (tmp_path / "made").read_text()
    assert "install.py --torch-index='https://x/cpu' --pip-flags='--quiet'\n" in made
    assert "TORCH_INDEX" in (ROOT / "vagrant" / "passed-on.txt").read_text().split()
