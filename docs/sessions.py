"""Make the output of a page's commands again: those of `trunkline run`, `shell` and `show`.

    python docs/sessions.py                     show what would change; exit code 1 if anything does
    python docs/sessions.py --write             change it
    python docs/sessions.py tutorial --write    change one page

A page is a session in one folder, which begins empty: a block whose first line is a comment with a
file's name (`# mine.yaml`) is that file for all that follows. Commands without output on the page
are not carried out. What the page types at a prompt (`2 s> outage n1 n2`) is typed again. Of a run,
the lines up to its verdict are shown.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = ("tutorial", "shell", "own")
"""The pages whose sessions are made by this command."""

MADE = ("run", "shell", "show")
DRAW = ("run", "shell")
"""Those that draw figures, of which they print nothing."""

TYPED = re.compile(r"^[\d.]+ s> (.*)$", re.MULTILINE)
REFUSED = 64
COMMAND = """
import sys
from trunkline.harness.commands import main, terminal
terminal.PLAIN_WIDTH = 80
sys.exit(main.main(sys.argv[1:]))
"""
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: what it says it is, its text, the line where it begins."""

    kind: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that it shows, if it says one."""
        named = re.match(r"# ([\w./-]+\.(?:yaml|py|csv|gml|graphml))\n", self.text)
        return named[1] if named else None


def find_fences(text: str) -> Iterator[Fence]:
    """The fenced blocks of a page."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Fence(found[1], found[2], text[: found.start()].count("\n") + 1)


def find_commands(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a console after `$`, with those that they go on in, and what they print."""
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:[^$].*\n|\n)*)", text, re.MULTILINE):
        yield found[1].replace("\\\n", " "), found[2]


def carry_out(text: str, folder: Path) -> str:
    """The text of a page with the output that its commands have now, carried out in a folder."""
    for fence in [*find_fences(text)]:
        if fence.file:
            (folder / fence.file).write_text(fence.text, encoding="utf-8")
        if fence.kind != "console":
            continue
        for line, shown in find_commands(fence.text):
            words = shlex.split(line)
            if shown.strip() and words[0] == "trunkline" and words[1] in MADE:
                text = text.replace(f"{line}\n{shown}", f"{line}\n{_run(words, shown, folder)}")
    return text


def _run(words: list[str], shown: str, folder: Path) -> str:
    """What a command prints, with what the page types at its prompt."""
    said = "".join(f"{line}\n" for line in TYPED.findall(shown))
    undrawn = ["--set", "outputs.plots=false"] if words[1] in DRAW else []
    command = [sys.executable, "-c", COMMAND, *words[1:], *undrawn]
    found = subprocess.run(
        command,
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    if found.returncode not in (0, REFUSED):
        raise SystemExit(f"{shlex.join(words)}: exit code {found.returncode}\n{found.stderr}")
    said = found.stdout if found.returncode == 0 else found.stderr.removeprefix("trunkline: ")
    lines = [f"{line.rstrip()}\n" for line in said.splitlines()]
    ends = [number for number, line in enumerate(lines, 1) if line.startswith("verdict ")]
    return "".join(lines[: ends[0]] if ends else lines)


def main() -> int:
    """Carry out the sessions of pages, and show or write what changes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", metavar="PAGE", nargs="*", help=f"default: {', '.join(PAGES)}")
    parser.add_argument("--write", action="store_true", help="change the pages")
    arguments = parser.parse_args()
    changed = False
    for name in arguments.pages or PAGES:
        page = DOCS / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="session-") as folder:
            now = carry_out(text, Path(folder))
        before, after = (each.splitlines(keepends=True) for each in (text, now))
        difference = "".join(difflib.unified_diff(before, after, page.name, "now"))
        sys.stdout.write(difference)
        changed |= bool(difference)
        if arguments.write:
            page.write_text(now, encoding="utf-8")
    return int(changed and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
