"""What `--on-cluster` may say, and what it refuses before anything starts."""

from pathlib import Path

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.runs.cluster.cluster_file import Address, Local, Slurm, Ssh, Tls, read

SLURM = """\
kind: slurm
jobs: 10
runs: 4
memory: 2 GB
walltime: 4 h
queue: normal
directives: [--qos=low]
"""


def certificate(folder: Path) -> None:
    """Write cert.pem and key.pem."""
    security = pytest.importorskip("distributed").Security
    made = security.temporary().get_tls_config_for_role("worker")
    (folder / "cert.pem").write_text(made["cert"])
    (folder / "key.pem").write_text(made["key"])


@pytest.fixture
def read_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read_text(text):
        (tmp_path / "site.yaml").write_text(text)
        return read("site.yaml")

    return read_text


def test_words_and_addresses_need_no_file():
    assert read("local") == Local()
    assert read("tls://head:8786") == Address("tls://head:8786")


def test_each_kind_has_options_of_its_own(read_text):
    slurm = Slurm(14400.0, 10, 4, 2 * 10**9, "normal", directives=("--qos=low",))
    assert read_text(SLURM) == slurm
    certificate(Path())
    tls = Tls("cert.pem", "cert.pem", "key.pem")
    ssh = "{kind: ssh, hosts: [a, b], tls: {ca: cert.pem, cert: cert.pem, key: key.pem}}"
    assert read_text(ssh) == Ssh(("a", "b"), tls=tls)
    assert read_text("{kind: ssh, hosts: [localhost]}") == Ssh(("localhost",))
    assert read_text("{kind: local, runs: 3}") == Local(3)


FORMS = (
    "expected local, an address such as tls://host:8786, or a file whose kind is one of "
    "local, address, ssh, slurm"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://a:1", "--on-cluster: http://a:1: expected tcp://HOST:PORT or tls://HOST:PORT"),
        ("tls://a", "--on-cluster: tls://a: expected tcp://HOST:PORT or tls://HOST:PORT"),
        ("none.yaml", f"--on-cluster: none.yaml: No such file or directory; {FORMS}"),
    ],
)
def test_a_value_that_is_neither_is_refused(text, said):
    with pytest.raises(ScenarioErrors) as refused:
        read(text)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "site.yaml:1: []: expected a mapping with kind, such as kind: slurm"),
        (
            "kind: slrum",
            "site.yaml:1: kind: slrum: did you mean slurm? expected one of local, address, ssh, "
            "slurm",
        ),
        ("kind: slurm", "site.yaml:1: walltime: missing: a value is required here"),
        (
            "kind: slurm\nwalltime: 4",
            "site.yaml:2: walltime: 4: a unit is missing: expected a time such as 50 s "
            "(units: us, ms, s, min, h)",
        ),
        (
            "kind: slurm\nwalltime: 4 h\ndirectives: [--qos=low, --comment=it's]",
            "site.yaml:3: directives[1]: --comment=it's: expected quotes in pairs, as after "
            "#SBATCH: No closing quotation",
        ),
        ("kind: local\nruns: 0", "site.yaml:2: runs: 0: expected 1 or more"),
        (
            "kind: local\ncores: 2",
            "site.yaml:2: cores: 2: unknown key: expected runs",
        ),
        (
            "kind: ssh\nhosts: [a]",
            "site.yaml:1: tls: missing: expected ca, cert and key (docs/cluster.md has the "
            "commands), or unencrypted: true, by which anyone who reaches a port executes code as "
            "you",
        ),
    ],
)
def test_a_file_is_checked_as_a_whole(read_text, text, said):
    with pytest.raises(ScenarioErrors) as refused:
        read_text(text)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "start",
    ["kind: ssh\nhosts: [a]", "kind: address\naddress: tls://a:1"],
)
@pytest.mark.parametrize(
    ("tls", "said"),
    [
        (
            "{ca: no/ca.pem, cert: cert.pem, key: key}",
            [
                "site.yaml:3: tls.ca: no/ca.pem: No such file or directory",
                "site.yaml:3: tls.key: key: No such file or directory",
            ],
        ),
        (
            "{ca: key.pem, cert: cert.pem, key: other/key.pem}",
            [
                "site.yaml:3: tls.ca: key.pem: expected a certificate in PEM",
                "site.yaml:3: tls.key: other/key.pem: expected the private key of tls.cert, in PEM "
                "and without a password",
            ],
        ),
    ],
)
def test_files_of_tls_are_read_before_anything_starts(read_text, start, tls, said):
    certificate(Path())
    Path("other").mkdir()
    certificate(Path("other"))
    with pytest.raises(ScenarioErrors) as refused:
        read_text(f"{start}\ntls: {tls}\n")
    assert str(refused.value).splitlines() == said
