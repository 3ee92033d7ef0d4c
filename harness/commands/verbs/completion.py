"""print a script that completes words in bash and zsh."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

EPILOG = """\
In ~/.bashrc:
  eval "$(trunkline completion)"
In ~/.zshrc:
  autoload -U +X bashcompinit && bashcompinit && eval "$(trunkline completion)"

It completes commands, fixed words and, after a dash, options; all other words are completed as
files.
"""

SCRIPT = """\
_trunkline() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local verb=${{COMP_WORDS[1]}} fixed= options=
    [ "$COMP_CWORD" = 1 ] && verb=
    case $verb in
{cases}
    esac
    case "$verb $before" in
{values}
    esac
    [[ $word == -* ]] && fixed=$options
    COMPREPLY=($(compgen -W "$fixed" -- "$word"))
}}
complete -o default -F _trunkline trunkline
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing: this verb has no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the script, which a shell has to evaluate."""
    from trunkline.harness.commands import main

    verbs = _find_verbs(main.make_parser())
    cases = [
        f'        {verb}) fixed="{_join(_find_fixed(each))}" '
        f'options="{_join(_find_options(each))}" ;;'
        for verb, each in verbs.items()
    ]
    values = [
        f'        "{verb} {option}") fixed="{_join(choices)}" options= ;;'
        for verb, each in verbs.items()
        for option, choices in _find_values(each)
    ]
    print(SCRIPT.format(cases="\n".join(cases), values="\n".join(values)), end="")
    return 0


def _join(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words))


def _find_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command and of its subcommands, but not those of all commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction) and parser.prog.count(" "):
            for below in action.choices.values():
                yield from _find_actions(below)


def _find_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in _find_actions(parser):
        yield from (option for option in action.option_strings if option.startswith("--"))


def _find_fixed(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in _find_actions(parser):
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)


def _find_values(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """The options that take a value, and the words that this may be; none for any word."""
    for action in _find_actions(parser):
        for option in action.option_strings if action.nargs != 0 else ():
            yield option, [*map(str, action.choices or ())]


def _find_verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of every command by its name, and that of all commands by an empty name."""
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    below = {name: each for action in actions for name, each in action.choices.items()}
    return {"''": parser} | below
