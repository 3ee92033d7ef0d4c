"""`trunkline vm` with a Vagrant of our own, whose machine is a real OpenSSH server."""

from __future__ import annotations

import os
import shutil

import far
import pytest

from trunkline.harness.commands import main
from trunkline.harness.runs import virtual_machine
from trunkline.harness.runs.remote import RemoteError, ssh
from trunkline.harness.scenario.loading import load

pytestmark = pytest.mark.skipif(
    far.SSHD is None, reason="there is no OpenSSH server here: apt-get install openssh-server"
)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A checkout's `vagrant/` and a `vagrant` that notes what it is told; yields both's folder."""
    with far.Server(tmp_path / "far") as server:
        folder = tmp_path / "vagrant"
        folder.mkdir()
        (folder / "Vagrantfile").touch()
        config = (
            f"Host trunkline\n  HostName 127.0.0.1\n  Port {server.port}\n"
            "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n"
            f"  IdentityFile {server.home}/.ssh/id_ed25519\n  IdentitiesOnly yes\n"
        )
        (tmp_path / "config").write_text(config)
        (tmp_path / "told").touch()
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "vagrant"
        program.write_text(
            f"#!/bin/sh\necho $PWD: $* >> {tmp_path}/told\n"
            f"case $1 in ssh-config) cat {tmp_path}/config ;; halt) exit 7 ;; esac\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(virtual_machine, "FOLDER", folder)
        monkeypatch.setattr(virtual_machine, "SSH_CONFIG", folder / ".vagrant" / "ssh-config")
        yield tmp_path


def test_the_machine_is_reached_as_vagrant_says_and_as_root_where_a_scenario_needs_it(machine):
    file = machine / "s.yaml"
    workload = "{kind: synthetic, model: 1 MB}"
    rest = "scheme: allreduce\nstop: {tasks: 1}\n"
    file.write_text(f"topology: internet2\nworkload: {workload}\n{rest}")
    assert virtual_machine.find_host(load(file)).command == "trunkline"
    host = virtual_machine.find_host(load(file, ["backend=host", "clock=real"]))
    assert host.command == "sudo -n trunkline"
    with ssh.start(ssh.Address.parse(host.text), "echo reached", host.config_file) as program:
        assert program.wire.read() == b"reached\n"


def test_up_and_down_are_vagrants(machine, capsys):
    folder = machine / "vagrant"
    assert main.main(["vm", "up", "--provider", "libvirt"]) == 0
    assert main.main(["vm", "down", "--destroy"]) == 0
    assert (machine / "told").read_text().splitlines() == [
        f"{folder}: up --no-provision --provider=libvirt",
        f"{folder}: rsync",
        f"{folder}: provision",
        f"{folder}: destroy --force",
    ]
    assert main.main(["vm", "down"]) == 70
    assert "`vagrant halt` ended with 7" in capsys.readouterr().err


def test_what_is_missing_is_said(machine, monkeypatch):
    (machine / "bin" / "vagrant").write_text("#!/bin/sh\necho not created >&2\nexit 1\n")
    with pytest.raises(RemoteError, match="is not running: trunkline vm up\nnot created"):
        virtual_machine.find_host()
    (machine / "bin" / "vagrant").unlink()
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(RemoteError, match="Vagrant is not installed"):
        virtual_machine.find_host()
    shutil.rmtree(machine / "vagrant")
    with pytest.raises(RemoteError, match="needs a checkout"):
        virtual_machine.find_host()
