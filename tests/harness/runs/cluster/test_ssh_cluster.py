"""An SSH cluster of this machine: `sshd` starts the scheduler and the workers, with TLS."""

import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import far
import pandas as pd
import pytest
from dask_machines import WAIT_S, machines, read_trials, wait_until

pytest.importorskip("asyncssh")
pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(
    not far.SSHD or not shutil.which("openssl"), reason="needs sshd and openssl"
)

FILE = """\
kind: ssh
hosts: [127.0.0.1]
runs: 2
ssh_config: {config}
tls: {{ca: {folder}/cert.pem, cert: {folder}/cert.pem, key: {folder}/key.pem}}
"""


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


def test_a_killed_command_leaves_nothing_there_and_continues(tmp_path):
    with machines(tmp_path) as here:
        env = {key: value for key, value in here.env.items() if key.startswith(("FAKE", "DASK"))}
        with far.Server(tmp_path / "ssh", env=env) as server:
            make_certificate(tmp_path)
            config = tmp_path / "config"
            config.write_text(f"{server.config.read_text()}  Port {server.port}\n")
            (tmp_path / "ssh.yaml").write_text(FILE.format(config=config, folder=tmp_path))
            done = here.compare("--out", "sequential")
            assert done.wait(WAIT_S) == 1
            (tmp_path / "log").unlink()
            done = here.compare("--on-cluster", "ssh.yaml")
            wait_until(lambda: here.count("end") >= 3 or done.poll() is not None)
            assert done.poll() is None, here.read(done)
            assert any("tls://127.0.0.1:" in command for command in list_daemons(tmp_path))
            done.send_signal(signal.SIGKILL)
            done.wait()
            wait_until(lambda: not here.under_way())
            done = here.compare("--on-cluster", "ssh.yaml")
            assert done.wait(WAIT_S) == 1, here.read(done)
            expected = read_trials(tmp_path, "sequential")
            pd.testing.assert_frame_equal(read_trials(tmp_path), expected)
            ended = Counter(words[1] for words in here.log if words[0] == "end")
            assert set(ended.values()) == {1}
            assert "Traceback" not in here.read(done)
            wait_until(lambda: not list_daemons(tmp_path))


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
