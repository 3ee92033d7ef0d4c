"""Builds the embedded kernel once from the distribution's kernel source, and caches it per user.

The key of a kernel is a hash of everything that determines it: the options in `um.config`, the
patches, the name of the source and the arguments of make. If the package `trunkline-kernel` is
installed and has the kernel with this key, that one is used and nothing is built.

A build runs under a lock in a temporary folder beside its destination. The kernel then moves there
in one step, so that no process sees a half-built kernel. Its checksum lies beside it, in the format
of `sha256sum`. A kernel that differs from its checksum is damaged and never started.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trunkline.harness.kernel import KernelError, prebuilt
from trunkline.harness.kernel.probes import probe_processor, require

CONFIG = Path(__file__).with_name("um.config")
PATCHES = tuple(
    Path(__file__).with_name(f"{name}.patch")
    for name in (
        "seeded-random",
        "same-times",
        "live-changes",
        "registers-of-any-size",
        "fewer-stops",
        "many-links",
        "time-waited",
        "virtual-tsc",
        "site-time",
        "pages-around",
        "present-pages",
        "clock-reads",
        "without-tracing",
    )
)
SOURCE = Path("/usr/src/linux-source-6.12.tar.xz")
SOURCE_PACKAGE = "linux-source-6.12"

# Programs that a build needs, and their Debian packages.
TOOLS: Mapping[str, str] = {
    "bc": "bc",
    "bison": "bison",
    "flex": "flex",
    "gcc": "gcc",
    "make": "make",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
# Files whose absence shows that a package is missing.
HEADERS: Mapping[str, str] = {"/usr/include/stdio.h": "libc6-dev"}

# The number of object files of a build, for the display of progress.
OBJECTS = 678

MAKE_ARGUMENTS = (
    "ARCH=um",
    "KBUILD_BUILD_TIMESTAMP=2025-01-01",
    "KBUILD_BUILD_USER=trunkline",
    "KBUILD_BUILD_HOST=trunkline",
    # The kernel is linked below 2 GiB, so addresses of 32 bits suffice. The compiler may use its
    # knowledge of memcpy and similar functions. Both are defaults of other architectures.
    "KCFLAGS=-mcmodel=small -fbuiltin",
)

# Parts of the source that a User-Mode Linux build does not read. Without them, unpacking takes half
# the time.
NOT_UNPACKED = (
    "*/Documentation/*/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/testing/*",
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a build: `percent` (0 to 100) and the present step in a few words."""

    percent: int
    doing: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel that is used, whether it came in a package, and a sentence that says why."""

    path: Path
    prebuilt: bool
    why: str


@dataclass(frozen=True, slots=True)
class Status:
    """The kernel that is used: its path, its version or its problem, and why it is this one.

    `missing_packages` are the Debian packages that a build needs and that are missing; there are
    none if nothing is built.
    """

    path: Path
    version: str | None
    problem: str | None
    missing_packages: tuple[str, ...]
    why: str


def key() -> str:
    """The key of the kernel that this Trunkline needs: 16 hexadecimal digits."""
    texts = [file.read_text() for file in (CONFIG, *PATCHES)]
    recipe = "\n".join((*texts, SOURCE.name, *MAKE_ARGUMENTS))
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def cached_path() -> Path:
    """The path of the kernel that this user builds, built or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "trunkline" / "kernel" / key() / "linux"


def path() -> Path:
    """The path of the kernel that is used: of the package, or else the user's, built or not."""
    return choose().path


def choose() -> Choice:
    """The kernel of the package, if it is whole and has the present key, or else the user's."""
    found = prebuilt.find()
    if found is None:
        why = f"from this user's cache: the package {prebuilt.PACKAGE} is not installed"
        return Choice(cached_path(), False, why)
    package = f"the package {prebuilt.PACKAGE} {found.version}"
    if found.key != key():
        problem = f"is for another Trunkline: its kernel's key is {found.key}, not {key()}"
    elif (damage := find_problem(found.kernel)) is not None:
        problem = f"has a kernel that is {damage}"
    else:
        return Choice(found.kernel, True, f"from {package}")
    return Choice(cached_path(), False, f"from this user's cache: {package} {problem}")


def status() -> Status:
    """Finds out whether the kernel is built and whole, and which packages a build would need."""
    chosen = choose()
    problem = find_problem(chosen.path)
    version = None if problem else read_version(chosen.path)
    missing = () if chosen.prebuilt else missing_packages()
    return Status(chosen.path, version, problem, missing, chosen.why)


def find_problem(kernel: Path) -> str | None:
    """Why a kernel cannot be used, as words after "the embedded kernel is"; None if it can.

    Reads the whole file, which takes about 5 ms.
    """
    try:
        if not kernel.exists():
            return "not built"
        checksum = checksum_file(kernel)
        if not checksum.exists():
            return "without a checksum, because an older version built it"
        if _describe(kernel) != checksum.read_text(errors="replace"):
            return "damaged: it differs from its checksum"
    except OSError as error:
        return f"not readable: {error}"
    return None if read_version(kernel) else "not executable here"


def read_version(kernel: Path) -> str | None:
    """The version of a kernel; None if the file does not exist or cannot be executed."""
    try:
        asked = subprocess.run([kernel, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return asked.stdout.strip() or None


def missing_packages() -> tuple[str, ...]:
    """The Debian packages that a build needs and that this machine lacks."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    missing += [package for header, package in HEADERS.items() if not Path(header).exists()]
    if not SOURCE.exists():
        missing.append(SOURCE_PACKAGE)
    return tuple(missing)


def ensure(
    try_out: Callable[[Path], None], progress: Callable[[Progress], None] | None = None
) -> Path:
    """Returns the kernel's path; builds the kernel first if it is not cached (about 3 minutes).

    Nothing is built if a package has the kernel. A damaged kernel is built again, and one without a
    checksum.

    Args:
        try_out: boots a kernel that was built, before it is put in its place; raises KernelError if
            it does not work (`boot.try_out`).
        progress: called a few times a second during a build.

    Raises:
        KernelError: the source or tools are missing, or the build failed, or what it built does not
            boot here.
    """
    require(probe_processor)
    kernel = path()
    if find_problem(kernel) is not None:
        build(kernel, try_out, progress)
    return kernel


def build(
    kernel: Path,
    try_out: Callable[[Path], None],
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Builds a kernel at this path, unless another process has just built it there.

    The arguments and errors are those of `ensure`.
    """
    report = progress or (lambda _: None)
    try:
        kernel.parent.mkdir(parents=True, exist_ok=True)
        with _lock(kernel.parent / "lock", report):
            if find_problem(kernel) is not None:
                _build(kernel, try_out, report)
    except OSError as error:
        remedy = "a folder that can be written and has room, in the variable XDG_CACHE_HOME"
        raise KernelError(f"cannot build the embedded kernel: {error}; remedy: {remedy}") from error


@contextlib.contextmanager
def _lock(file: Path, report: Callable[[Progress], None]) -> Iterator[None]:
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress(0, "waiting for another build of the same kernel"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(
    kernel: Path, try_out: Callable[[Path], None], report: Callable[[Progress], None]
) -> None:
    missing = missing_packages()
    if missing:
        package = f"; {choose().why}" if prebuilt.find() else ""
        raise KernelError(
            f"cannot build the embedded kernel: missing {' '.join(missing)}{package}; "
            f"remedy: sudo apt-get install {' '.join(missing)}"
        )
    for abandoned in kernel.parent.glob("build-*"):  # we hold the lock, so no build uses them
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(dir=kernel.parent, prefix="build-") as folder:
        tree = Path(folder)
        report(Progress(0, f"unpacking {SOURCE.name}"))
        excludes = [f"--exclude={pattern}" for pattern in NOT_UNPACKED]
        _run(["tar", "-xf", str(SOURCE), "--strip-components=1", *excludes], tree)
        report(Progress(5, "configuring"))
        for patch in PATCHES:
            _run(["patch", "--strip=1", f"--input={patch}"], tree)
        configuration = f"KCONFIG_ALLCONFIG={CONFIG}"
        _run(["make", *MAKE_ARGUMENTS, "allnoconfig", configuration], tree)
        _check_options(tree / ".config")
        jobs = f"-j{len(os.sched_getaffinity(0))}"
        done = 0

        def compiled(line: str) -> None:
            nonlocal done
            words = line.split()
            if len(words) == 2 and words[0] in ("CC", "AS"):
                done += 1
                report(Progress(min(99, 5 + 94 * done // OBJECTS), f"compiling {words[1]}"))

        _run(["make", *MAKE_ARGUMENTS, jobs, "linux"], tree, compiled)
        _run(["strip", "linux"], tree)
        built = tree / kernel.name
        report(Progress(99, "booting it once"))
        try_out(built)
        checksum_file(built).write_text(_describe(built))
        checksum_file(built).rename(checksum_file(kernel))
        built.rename(kernel)
    report(Progress(100, "done"))


def checksum_file(kernel: Path) -> Path:
    """The file beside a kernel that holds its checksum."""
    return kernel.with_name(f"{kernel.name}.sha256")


def _describe(kernel: Path) -> str:
    """The line that `sha256sum` prints for a kernel."""
    with kernel.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {kernel.name}\n"


def _check_options(configured: Path) -> None:
    """Raise KernelError if make has dropped an option: unknown, or its dependencies are missing."""
    lines = CONFIG.read_text().splitlines()
    wanted = {line for line in lines if line.startswith(("CONFIG_", "# CONFIG_"))}
    dropped = wanted - set(configured.read_text().splitlines())
    if dropped:
        raise KernelError(f"the kernel source does not take {', '.join(sorted(dropped))}")


def _run(command: list[str], folder: Path, on_line: Callable[[str], None] | None = None) -> None:
    """Runs one step of the build; its processes end when this process ends, for any reason."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last_lines: deque[str] = deque(maxlen=20)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            last_lines.append(line)
            if on_line is not None:
                on_line(line)
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    finally:
        process.stdout.close()
    if code != 0:
        raise KernelError(
            f"building the embedded kernel failed: {' '.join(command)} "
            f"ended with code {code}:\n{''.join(last_lines)}"
        )
