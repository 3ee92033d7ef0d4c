"""print a script that completes words in bash and zsh."""

from __future__ import annotations

import argparse

EPILOG = """\
In ~/.bashrc or ~/.zshrc:
  eval "$(trunkline completion)"

Tab then completes commands, options, the names of scenarios and runs, and the keys and words of
--set: `--set scheme.pl` becomes `--set scheme.plan=`, and that is completed by all plans.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing: this verb has no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the script, which a shell has to evaluate."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["trunkline"]))
    return 0
