"""print a script that completes words in bash and zsh."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EPILOG = """\
In ~/.bashrc:
  eval "$(trunkline completion)"
In ~/.zshrc:
  autoload -U +X bashcompinit && bashcompinit && eval "$(trunkline completion)"

It completes commands, options and fixed words; all other words are completed as files.
"""

SCRIPT = """\
_trunkline() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=
    if [ "$COMP_CWORD" = 1 ]; then
        words="{first}"
    else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _trunkline trunkline
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing: this verb has no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the script, which a shell has to evaluate."""
    from trunkline.harness.commands import main

    top = main.make_parser()
    verbs = _find_verbs(top)
    cases = [
        f'        {verb}) words="{" ".join(_list_words(each))}" ;;' for verb, each in verbs.items()
    ]
    print(SCRIPT.format(first=" ".join(_list_words(top)), cases="\n".join(cases)), end="")
    return 0


def _list_words(parser: argparse.ArgumentParser) -> list[str]:
    """Every option and fixed word of a command and its subcommands."""
    return list(dict.fromkeys(_find_words(parser)))


def _find_words(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)
        if isinstance(action, argparse._SubParsersAction) and parser.prog.count(" "):
            for below in action.choices.values():
                yield from _find_words(below)


def _find_verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of every command."""
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: below for action in actions for name, below in action.choices.items()}
