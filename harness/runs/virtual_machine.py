"""The virtual machine of `vagrant/`: Vagrant starts and stops it and knows its address.

Its runs are runs on another machine (`harness.runs.remote`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from trunkline.harness.config.paths import VAGRANT
from trunkline.harness.runs.remote import RemoteError
from trunkline.harness.runs.remote.client import Host
from trunkline.harness.scenario.settings import Scenario

FOLDER = VAGRANT
MACHINE = "trunkline"
"""The machine's name in the Vagrantfile."""

SSH_CONFIG = FOLDER / ".vagrant" / "ssh-config"


def run_vagrant(*words: str) -> None:
    """Run a command of Vagrant, which prints to the terminal. Raises RemoteError."""
    code = _run(["vagrant", *words])
    if code:
        raise RemoteError(f"`vagrant {' '.join(words)}` ended with {code}")


def find_host(scenario: Scenario | None = None) -> Host:
    """The address of the machine and the command of Trunkline on it. Raises RemoteError.

    A scenario with the host backend needs root, so its command begins with sudo.
    """
    _check()
    found = subprocess.run(
        ["vagrant", "ssh-config", MACHINE], cwd=FOLDER, capture_output=True, text=True
    )
    if found.returncode:
        said = found.stderr.strip() or found.stdout.strip()
        raise RemoteError(f"the virtual machine is not running: trunkline vm up\n{said}")
    SSH_CONFIG.parent.mkdir(exist_ok=True)
    SSH_CONFIG.write_text(found.stdout)
    as_root = scenario is not None and scenario.backend == "host"
    return Host(MACHINE, "sudo -n trunkline" if as_root else "trunkline", SSH_CONFIG)


def open_terminal(words: Sequence[str]) -> int:
    """Run a command, or a login shell, on the machine at this terminal; return its exit code."""
    config = find_host().config_file
    return _run(["ssh", "-t", "-F", str(config), MACHINE, *words])


def _run(command: Sequence[str]) -> int:
    _check()
    process = subprocess.Popen(command, cwd=FOLDER)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal sent it to the child too, which decides how to end
            continue


def _check() -> None:
    if not (FOLDER / "Vagrantfile").exists():
        raise RemoteError(f"{FOLDER} is missing: `trunkline vm` needs a checkout of Trunkline")
    if shutil.which("vagrant") is None:
        raise RemoteError(
            "Vagrant is not installed: apt-get install vagrant vagrant-libvirt, or see "
            "https://developer.hashicorp.com/vagrant/install"
        )
