"""A small virtual machine with another processor, which sees this machine's files.

QEMU runs a Debian kernel that is taken from its package, not installed. Its first program is a
script in an initramfs that this module makes: it mounts this machine's root folder read-only by 9p,
lays a file system in memory over it, and runs one shell command there. Results come back in a
folder that is mounted read-write. Nothing of this machine is changed.

QEMU emulates the processor instruction by instruction (TCG), so it is another one indeed. All
takes 10 to 50 times as long as here. KVM would pass our own processor through. One emulated
processor suffices, because the kernel and the processes of a guest take turns.

With `instruction_ns`, the machine's clock counts its instructions, and jumps to the next timer
while its processor waits. So its real time does not depend on this machine's load: with 1 ns, it is
that of a machine with 1000 million instructions per second. While the machine waits for a file of
this machine, its clock jumps, too, so nothing that is timed may read one.

    python benchmarks/crosscheck/emulated_machine.py Nehalem 'cat /proc/cpuinfo'
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

QEMU = "qemu-system-x86_64"
BUSYBOX = Path("/bin/busybox")
TOOLS = {
    QEMU: "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "depmod": "kmod",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
"""Programs, and the Debian packages that have them."""

ENDED_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""A machine does not outlive the process that started it, even if that one is killed."""

KERNEL_PACKAGE = "linux-image-amd64"
MODULES = (
    *("virtio_pci", "9pnet_virtio", "9p", "overlay"),
    *("veth", "dummy", "sch_netem", "sch_tbf", "sch_ingress", "cls_matchall", "act_police"),
    "tcp_bbr",
)
MEMORY_MB = 6000
CONSOLE, OUTPUT = "console", "output"
SHOWN_CHARACTERS = 2000

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev
for module in {modules}; do modprobe $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
mount -t tmpfs -o size=90% memory /memory && mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
for folder in proc sys dev; do mount --move /$folder /root/$folder; done
mount -t tmpfs scratch /root/tmp && mkdir /root/dev/shm /root/tmp/results
mount -t tmpfs -o size=8g shared /root/dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results /root/tmp/results
ip link set lo up
chroot /root /bin/sh /tmp/results/command >/root/tmp/results/output 2>&1
echo $? >/root/tmp/results/code
sync
poweroff -f
"""


_running: set[subprocess.Popen[str]] = set()


@contextlib.contextmanager
def ended_at_exit() -> Iterator[None]:
    """End all machines of this process when this is left, by an error such as Ctrl-C, too."""
    try:
        yield
    finally:
        for machine in [*_running]:
            machine.kill()


class NotHereError(Exception):
    """QEMU, a tool or the kernel's package cannot be had here; the message says which."""


def prepare(cache: Path, package: str = KERNEL_PACKAGE) -> Path:
    """A folder with `vmlinuz` and `initramfs` of a package's kernel, made once.

    Raises:
        NotHereError: a tool is missing, or the kernel's package cannot be fetched.
    """
    missing = [package for tool, package in TOOLS.items() if not _find(tool)]
    if missing:
        raise NotHereError(f"missing Debian packages: {' '.join(missing)}")
    recipe = INIT + " ".join(MODULES) + (package if package != KERNEL_PACKAGE else "")
    made = cache / f"machine-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    if made.is_dir():
        return made
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        unpacked = _fetch_kernel(Path(folder), package)
        (image,) = unpacked.glob("boot/vmlinuz-*")
        (modules,) = unpacked.glob("lib/modules/*")
        new = Path(folder, "new")
        new.mkdir()
        shutil.copy(image, new / "vmlinuz")
        (new / "initramfs").write_bytes(_make_initramfs(unpacked, modules, Path(folder)))
        new.rename(made)
    return made


def run(
    machine: Path,
    processor: str,
    command: str,
    results: Path,
    timeout_s: float,
    *,
    instruction_ns: int | None = None,
) -> tuple[int, str]:
    """Run a shell command with another processor; its exit code and output.

    Args:
        machine: the folder that `prepare` has made.
        processor: the name of a model, as `qemu-system-x86_64 -cpu help` lists them.
        command: what /bin/sh does there, as root.
        results: an empty folder of this machine, which is /tmp/results there.
        timeout_s: the real time in seconds after which the machine is ended.
        instruction_ns: the nanoseconds that its clock counts for an instruction, a power of two
            (see above). By default, its clock is that of this machine.

    Raises:
        RuntimeError: the machine ended without a result; the message has the last lines of its
            console and of the command's output.
    """
    (results / "command").write_text(command)
    shares = [("host", "/", "on"), ("results", str(results), "off")]
    words = [*ENDED_WITH_US, QEMU]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    words += ["-serial", f"file:{results / CONSOLE}", "-m", str(MEMORY_MB), "-smp", "1"]
    words += ["-accel", "tcg", "-cpu", processor]
    words += ["-kernel", str(machine / "vmlinuz"), "-initrd", str(machine / "initramfs")]
    words += [
        "-append",
        "console=ttyS0 panic=-1" + (" tsc=reliable mitigations=off" if instruction_ns else ""),
    ]
    if instruction_ns:
        shift = instruction_ns.bit_length() - 1
        words += ["-icount", f"shift={shift},sleep=off", "-rtc", "base=utc,clock=vm"]
    for tag, path, read_only in shares:
        words += [
            "-virtfs",
            f"local,path={path},mount_tag={tag},security_model=none,"
            f"readonly={read_only},multidevs=remap",
        ]
    no = subprocess.DEVNULL
    with subprocess.Popen(words, text=True, stdin=no, stdout=no, stderr=subprocess.PIPE) as started:
        _running.add(started)
        try:
            _, errors = started.communicate(timeout=timeout_s)
            how = f"ended with code {started.returncode}: {errors}"
        except subprocess.TimeoutExpired:
            how = f"was ended after {timeout_s:.0f} s"
        finally:
            started.kill()
            _running.discard(started)
    if not (results / "code").exists():
        told = "".join(f"\nits {name}:\n{_read_end(results / name)}" for name in (CONSOLE, OUTPUT))
        raise RuntimeError(f"the emulated {processor} gave no result and {how}{told}")
    return int((results / "code").read_text()), (results / OUTPUT).read_text(errors="replace")


def _read_end(file: Path) -> str:
    return file.read_text(errors="replace")[-SHOWN_CHARACTERS:] if file.exists() else "nothing"


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:/bin")


def _fetch_kernel(folder: Path, package: str) -> Path:
    """Fetch and unpack the package of a kernel of Debian's; the folder with its files."""
    shown = subprocess.run(
        ["apt-cache", "depends", "--important", package],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    packages = [line.split()[1] for line in shown.splitlines() if "Depends: linux-image" in line]
    if not packages:
        raise NotHereError(f"the package {package} is not known: apt-get update")
    got = subprocess.run(
        ["apt-get", "download", packages[0]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = list(folder.glob("*.deb"))
    if not found:
        raise NotHereError(f"cannot fetch {packages[0]}: {got.stderr.strip()}")
    unpacked = folder / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", found[0], unpacked], check=True)
    return unpacked


def _make_initramfs(unpacked: Path, modules: Path, folder: Path) -> bytes:
    """A compressed archive with busybox, the modules that are needed, and the first program."""
    root = folder / "root"
    for name in ("bin", "proc", "sys", "dev", "host", "memory", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    subprocess.run([str(_find("depmod")), "-b", unpacked, modules.name], check=True)
    there = root / "lib/modules" / modules.name
    for file in ("modules.dep", *_needed(modules)):
        (there / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(modules / file, there / file)
    (root / "init").write_text(INIT.format(modules=" ".join(MODULES)))
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run(
        ["cpio", "--create", "--format=newc", "--quiet"],
        cwd=root,
        input=names.encode(),
        capture_output=True,
        check=True,
    ).stdout
    return gzip.compress(archive, 1)


def _needed(modules: Path) -> Iterable[str]:
    """The files of MODULES and of the modules that these need."""
    lines = (modules / "modules.dep").read_text().splitlines()
    needs = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    for file, others in needs.items():
        if Path(file).name.partition(".ko")[0] in MODULES:
            yield from (file, *others)


if __name__ == "__main__":
    cache = Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as results:
        code, output = run(prepare(cache), sys.argv[1], sys.argv[2], Path(results), 3600)
    sys.stdout.write(output)
    sys.exit(code)
