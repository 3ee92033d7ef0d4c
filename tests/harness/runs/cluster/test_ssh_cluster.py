"""An SSH cluster of this machine: `sshd` starts the scheduler and the workers, with TLS."""

import contextlib
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import far
import pandas as pd
import pytest
from dask_machines import WAIT_S, Machines, machines, read_trials, wait_until

pytest.importorskip("asyncssh")
pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(
    not far.SSHD or not shutil.which("openssl"), reason="needs sshd and openssl"
)

FILE = """\
kind: ssh
hosts: {hosts}
runs: 2
ssh_config: {folder}/config
interface: lo
tls: {{ca: {folder}/cert.pem, cert: {folder}/cert.pem, key: {folder}/key.pem}}
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


@contextlib.contextmanager
def servers(here: Machines, certificate: Path, **machines: Mapping[str, str]) -> Iterator[None]:
    """An SSH server for each machine, with its variables, and the files of a cluster of them."""
    folder = here.folder
    for name in ("cert.pem", "key.pem"):
        shutil.copy(certificate / name, folder)
    ours = {key: value for key, value in here.env.items() if key.startswith(("FAKE", "DASK"))}
    config = folder / "config"
    with contextlib.ExitStack() as stack:
        for name, env in machines.items():
            server = far.Server(folder / name, env={**ours, **env})
            stack.enter_context(server)
            with config.open("a") as file:
                own = server.config.read_text().replace("Host *", f"Host {name}")
                file.write(f"{own}  Port {server.port}\n  HostName 127.0.0.1\n")
        (folder / "ssh.yaml").write_text(
            FILE.format(hosts=f"[{', '.join(machines)}]", folder=folder)
        )
        yield


def make_certificate(folder: Path) -> None:
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "365",
        "-subj",
        "/CN=trunkline",
    ]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True)


def test_a_killed_command_leaves_nothing_there_and_continues(tmp_path, certificate):
    with machines(tmp_path, FAKE_S="0.7") as here, servers(here, certificate, a={}):
        done = here.compare("--on-cluster", "ssh.yaml")
        wait_until(lambda: here.count("end") >= 3 or done.poll() is not None)
        assert done.poll() is None, here.read(done)
        assert any("tls://127.0.0.1:" in command for command in list_daemons(tmp_path))
        done.send_signal(signal.SIGKILL)
        done.wait()
        wait_until(lambda: not here.under_way() and not list_daemons(tmp_path))
        done = here.compare("--on-cluster", "ssh.yaml")
        assert done.wait(WAIT_S) == 1, here.read(done)
        assert not list_daemons(tmp_path)
        ended = Counter(words[1] for words in here.log if words[0] == "end")
        assert set(ended.values()) == {1}
        assert "Traceback" not in here.read(done)
        table = read_trials(tmp_path)
        here.env["FAKE_S"] = "0"
        done = here.compare("--out", "sequential")
        assert done.wait(WAIT_S) == 1
        pd.testing.assert_frame_equal(table, read_trials(tmp_path, "sequential"))


def test_machines_that_cannot_be_used_are_all_named_before_anything_starts(tmp_path, certificate):
    with machines(tmp_path) as here, servers(here, certificate, a={}):
        with (tmp_path / "config").open("a") as config:
            config.write("Host b\n  HostName 127.0.0.1\n  Port 9\n")
        file = tmp_path / "ssh.yaml"
        file.write_text(file.read_text().replace("[a]", "[a, b, nowhere.invalid]"))
        done = here.compare("--on-cluster", "ssh.yaml")
        assert done.wait(WAIT_S) == 70, here.read(done)
        said = here.read(done).splitlines()[-1]
        assert said.startswith(
            "trunkline: the cluster of kind ssh: cannot be used: b: [Errno 111] "
        )
        assert "; nowhere.invalid: [Errno -2] Name or service not known" in said
        assert "a:" not in said
        assert not list_daemons(tmp_path)


def test_if_one_machine_s_workers_do_not_start_none_stay_on_the_others(tmp_path, certificate):
    unfit = {"DASK_DISTRIBUTED__NANNY__PRELOAD": "not_there"}
    with machines(tmp_path) as here, servers(here, certificate, a={}, b=unfit):
        done = here.compare("--on-cluster", "ssh.yaml")
        assert done.wait(WAIT_S) == 70, here.read(done)
        said = here.read(done).splitlines()[-1]
        why = "b: ModuleNotFoundError: No module named 'not_there'"
        assert said == f"trunkline: the cluster of kind ssh: cannot be used: {why}"
        assert not list_daemons(tmp_path)
        assert not (tmp_path / "log").exists()


def list_daemons(folder: Path) -> list[str]:
    """The schedulers and workers that `sshd` started with our files."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_text()
            mine = str(folder) in (path / "environ").read_text()
        except OSError:
            continue
        if "dask_spec" in command and mine:
            found.append(command)
    return found
