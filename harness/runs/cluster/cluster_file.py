"""`--on-cluster`: `local`, a scheduler's address, or a YAML file that says how to get a cluster.

The file's `kind` is one of KINDS; the fields of that class are its other keys. All is checked
before anything starts.
"""

from __future__ import annotations

import shlex
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from trunkline.harness.config import document, options
from trunkline.harness.config.document import Document, ScenarioErrors

Count = Annotated[int, Field(ge=1)]
LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of TLS, which have the same paths on all machines.

    Options:
        ca: the certificate of who signs the others.
        cert: the certificate of schedulers, workers and clients.
        key: its private key.
    """

    ca: str
    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class Local:
    """Workers on this machine.

    Options:
        runs: how many runs at once; by default as many as `--jobs` says.
    """

    runs: Count | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """A scheduler that runs already.

    Options:
        address: its address, such as tls://host:8786.
        tls: the files to reach it with; by default those of Dask's configuration.
    """

    address: Annotated[str, "*://*:*"]
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Ssh:
    """Workers on machines that SSH reaches; the first one also has the scheduler.

    Options:
        hosts: the names of the machines, as SSH knows them.
        runs: how many runs at once on each of them.
        python: Python there, of an environment with trunkline[cluster]; by default as here.
        ssh_config: the configuration of SSH; by default ~/.ssh/config.
        interface: the network interface that scheduler and workers use; by default all.
        tls: the files of TLS.
        unencrypted: whether to do without TLS; anyone who reaches a port then executes code there.
    """

    hosts: tuple[str, ...]
    runs: Count = 1
    python: str | None = None
    ssh_config: str | None = None
    interface: str | None = None
    tls: Tls | None = None
    unencrypted: bool = False


@dataclass(frozen=True, slots=True)
class Slurm:
    """Jobs of SLURM. The certificates of TLS are made for each command.

    Options:
        jobs: how many jobs.
        runs: how many runs at once in each of them, on a processor each.
        memory: the memory of each run.
        walltime: the time limit of a job; no run may take longer.
        queue: the partition.
        account: the account.
        interface: the network interface that the scheduler here and the workers use.
        directives: more options of sbatch, such as --qos=low, each as after #SBATCH.
        before: shell commands before the worker, such as module load python.
    """

    walltime_s: Annotated[float, Field(ge=60)]
    jobs: Count = 1
    runs: Count = 1
    memory_bytes: Annotated[int, Field(ge=10**6)] = 2 * 10**9
    queue: str | None = None
    account: str | None = None
    interface: str | None = None
    directives: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


Cluster = Local | Address | Ssh | Slurm
KINDS: Mapping[str, type[Any]] = {"local": Local, "address": Address, "ssh": Ssh, "slurm": Slurm}
FORMS = "expected local, an address such as tls://host:8786, or a file whose kind is one of "


def read(text: str) -> Cluster:
    """Read the value of `--on-cluster`. Raises ScenarioErrors with all problems of the file."""
    if text == "local":
        return Local()
    if "://" in text:
        found, refusals = options.check(options.make_type(Address), {"address": text})
        if refusals or text.partition("://")[0] not in ("tcp", "tls"):
            raise _refuse(text, "expected tcp://HOST:PORT or tls://HOST:PORT")
        return found  # type: ignore[no-any-return]
    try:
        content = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        raise _refuse(text, f"{why}; {FORMS}{', '.join(KINDS)}") from None
    return _read_file(document.read(content, text))


def _read_file(read: Document) -> Cluster:
    found = None
    if not read.problems and not isinstance(read.data, dict):
        read.refuse((), "expected a mapping with kind, such as kind: slurm")
    if not read.problems:
        kind = read.data.pop("kind", document.MISSING)
        if kind not in list(KINDS):
            read.refuse(("kind",), document.list_choices(KINDS, kind), document.show(kind))
        else:
            found, refusals = options.check(options.make_type(KINDS[kind]), read.data)
            for refusal in refusals:
                read.refuse(refusal.path, refusal.text)
    if isinstance(found, Slurm):
        _check_directives(found, read)
    if isinstance(found, Ssh):
        _check_ssh(found, read)
    if isinstance(found, Ssh | Address) and found.tls:
        _check_tls(found.tls, read)
    if read.problems:
        raise ScenarioErrors(read.problems)
    return found  # type: ignore[return-value]


def _check_directives(found: Slurm, read: Document) -> None:
    for number, line in enumerate(found.directives):
        try:
            shlex.split(line)
        except ValueError as error:
            read.refuse(
                ("directives", number), f"expected quotes in pairs, as after #SBATCH: {error}"
            )


def _check_ssh(found: Ssh, read: Document) -> None:
    if not found.hosts:
        read.refuse(("hosts",), "expected one machine or more")
    if not found.tls and not found.unencrypted and not {*found.hosts} <= {*LOOPBACK}:
        read.refuse(
            ("tls",),
            "expected ca, cert and key (docs/cluster.md has the commands), or unencrypted: true, "
            "by which anyone who reaches a port executes code as you",
        )


def _check_tls(files: Tls, read: Document) -> None:
    """Read the files: Dask would tell of a problem only in the middle of a start."""
    problems = len(read.problems)
    for part in ("ca", "cert", "key"):
        try:
            Path(getattr(files, part)).read_bytes()
        except OSError as error:
            read.refuse(("tls", part), error.strerror or type(error).__name__)
    if len(read.problems) > problems:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError:
        read.refuse(("tls", "ca"), "expected a certificate in PEM")
    try:
        context.load_cert_chain(files.cert, files.key, password="")  # so it asks for none
    except ssl.SSLError:
        read.refuse(
            ("tls", "key"), "expected the private key of tls.cert, in PEM and without a password"
        )


def _refuse(text: str, allowed: str) -> ScenarioErrors:
    return ScenarioErrors([document.Problem("--on-cluster", None, "", text, allowed)])
