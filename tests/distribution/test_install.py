"""What the installation of packages prints."""

import subprocess

import install
import pytest


def test_pip_is_quiet_but_for_its_errors(monkeypatch, capfd):
    asked = []

    def carry_out(command, **_):
        asked.append(command)
        return subprocess.run(["sh", "-c", "echo ERROR: no such file >&2; exit 1"], check=True)

    run = subprocess.run
    monkeypatch.setattr(install.subprocess, "run", lambda command, **named: (
        carry_out(command) if "pip" in command else run(command, **named)
    ))  # fmt: skip
    with pytest.raises(subprocess.CalledProcessError):
        install._install_locked(["run", "dev"], ["--no-cache-dir"])
    assert {"--quiet", "--no-cache-dir"} <= {*asked[0]}
    out, err = capfd.readouterr()
    assert out == "pip installs the packages of locks/run.txt, locks/dev.txt\n"
    assert err == "ERROR: no such file\n"
