"""Makes the wheel `trunkline-kernel`: the embedded kernel, and what its licence asks for.

The kernel is the one that `trunkline kernel build` has built. Beside it are the patches, the
configuration, the exact source package, how to rebuild it, the licence, and an offer of the source.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from wheel_file import Entry, write

from trunkline.harness.kernel import build, prebuilt

LICENCE = Path("/usr/share/common-licenses/GPL-2")
TEMPLATE = Path(__file__).with_name("SOURCE.md")
SUMMARY = "The embedded kernel of Trunkline: User-Mode Linux with patches, for x86-64"


class CannotPackError(Exception):
    """The kernel cannot be packed; the message says why, and the remedy."""


def make(kernel: Path, version: str, out: Path) -> Path:
    """Write the wheel of this kernel into the folder `out`; return its path.

    Args:
        kernel: the kernel with the present key, with its checksum beside it.
        version: that of Trunkline, such as 0.1.0.
        out: an existing folder.

    Raises:
        CannotPackError: the kernel is damaged, or its source package is not the installed one.
        OSError: a file cannot be read or written.
    """
    if problem := build.find_problem(kernel):
        raise CannotPackError(f"{kernel}: the kernel is {problem}; remedy: trunkline kernel build")
    release = build.read_version(kernel) or ""
    source = _find_source_version(release)
    key = build.key()
    full = f"{version}+k{key}"  # letters first: pip drops zeros before a version of digits alone
    info = f"{prebuilt.MODULE}-{full}.dist-info"
    tag = f"py3-none-manylinux_{_find_glibc(kernel)}_x86_64"
    words = {
        "release": release,
        "source": source,
        "package": build.SOURCE_PACKAGE,
        "compiler": _find_compiler(kernel),
        "patches": "\n".join(f"    patch --strip=1 < {patch.name}" for patch in build.PATCHES),
        "make": " ".join(f"'{word}'" if " " in word else word for word in build.MAKE_ARGUMENTS),
    }
    about = TEMPLATE.read_text().format_map(words)
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {prebuilt.PACKAGE}",
        f"Version: {full}",
        f"Summary: {SUMMARY}",
        "License-Expression: GPL-2.0-only",
        "License-File: GPL-2.0.txt",
        "Description-Content-Type: text/markdown",
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: trunkline", "Root-Is-Purelib: false", f"Tag: {tag}"]
    inside = {
        "__init__.py": f'"""{SUMMARY}; see SOURCE.md."""\n'.encode(),
        prebuilt.KEY_FILE: f"{key}\n".encode(),
        "linux.sha256": build.checksum_file(kernel).read_bytes(),
        "SOURCE.md": about.encode(),
        **{f"source/{file.name}": file.read_bytes() for file in (build.CONFIG, *build.PATCHES)},
    }
    path = out / f"{prebuilt.MODULE}-{full}-{tag}.whl"
    entries = {f"{prebuilt.MODULE}/{name}": Entry(content) for name, content in inside.items()}
    entries[f"{prebuilt.MODULE}/linux"] = Entry(kernel.read_bytes(), executable=True)
    entries[f"{info}/METADATA"] = Entry(("\n".join(metadata) + "\n\n" + about).encode())
    entries[f"{info}/WHEEL"] = Entry(("\n".join(wheel) + "\n").encode())
    entries[f"{info}/licenses/GPL-2.0.txt"] = Entry(LICENCE.read_bytes())
    write(path, entries)
    return path


def _find_source_version(release: str) -> str:
    """The version of the installed source package, from which the kernel must have been built."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", build.SOURCE_PACKAGE]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise CannotPackError(f"{build.SOURCE_PACKAGE} is not installed; remedy: make system")
    version = asked.stdout.strip()
    if version.split("-")[0] != release:
        raise CannotPackError(
            f"the kernel is Linux {release}, but the installed source is {build.SOURCE_PACKAGE} "
            f"{version}; remedy: rm {build.cached_path()}, and trunkline kernel build"
        )
    return version


def _find_compiler(kernel: Path) -> str:
    """The compiler and the linker that a kernel names, such as `gcc 12.2.0, GNU ld 2.40`."""
    found = re.search(rb"Linux version \S+ \(\S+\) \((.+?)\) #", kernel.read_bytes())
    if found is None:
        raise CannotPackError(f"{kernel}: it does not name its compiler")
    return found[1].decode()


def _find_glibc(kernel: Path) -> str:
    """The oldest glibc that runs a kernel, in the form of a wheel's tag, such as `2_34`."""
    command = ["objdump", "--dynamic-syms", str(kernel)]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = {(int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", symbols)}
    if not versions:
        raise CannotPackError(f"{kernel}: it names no version of glibc")
    return "_".join(map(str, max(versions)))
