"""The command line `trunkline`: it parses arguments, runs a verb, and returns the exit code.

`harness.commands.verbs` has one file per verb. Exit codes are 0 pass, 2 unknown, 1 fail, 64 bad
usage or an invalid scenario, 70 a run that could not be carried out, 130 Ctrl-C, 143 SIGTERM. An
error that the user can fix is one line that says how; tracebacks need TRUNKLINE_DEBUG=1.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from trunkline.harness.commands.terminal import (
    BAD_USAGE,
    BROKEN_PIPE,
    INTERNAL_ERROR,
    INTERRUPTED,
    OutputError,
    UsageError,
    describe_output_error,
    print_error,
)
from trunkline.harness.commands.verbs import find_verbs
from trunkline.harness.processes import needs
from trunkline.harness.processes.ending import Terminated, end_by, interrupt_by_ctrl_c
from trunkline.harness.scenario import extensions

EXAMPLES = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.plan=ring --seed 2
  trunkline show scenarios/quickstart.yaml      its sites and links, with numbers
  trunkline list plans                          the values of scheme.plan
  trunkline new mine.yaml                       a scenario with comments, for you to change

A run writes tables, plots, the event log and the verdict to runs/SCENARIO/TIME/, and
runs/SCENARIO/latest points there. Exit codes: 0 pass, 2 unknown, 1 fail, 64 bad usage or an invalid
scenario, 70 not carried out, 130 Ctrl-C, 143 SIGTERM.
"""


MAX_ERROR = 2000
"""The most characters of an error about the command line: it may show a user's value."""


GARBAGE = (20_000, 20, 50)
"""How seldom garbage is looked for: modules are none, and to import them is most of a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    gc.set_threshold(*GARBAGE)
    needs.prepare()
    try:
        end_by(signal.SIGTERM, signal.SIGHUP)  # nohup ignores SIGHUP
        interrupt_by_ctrl_c()
        if problems := needs.find_problems((needs.probe_docstrings,)):
            print_error(str(problems[0]))
            return INTERNAL_ERROR
        parser = make_parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what Tab may complete
            from trunkline.harness.commands import completers

            completers.answer(parser)
        arguments, unknown = parser.parse_known_args(argv)
        if unknown:
            _refuse(unknown, arguments.parser, parser)
        if arguments.carry_out is None:
            parser.print_help()
            return BAD_USAGE
        if problems := needs.find_problems(arguments.needs):
            for problem in problems:
                print_error(str(problem))
            return INTERNAL_ERROR
        code: int = arguments.carry_out(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version, bad usage
        return stop.code if isinstance(stop.code, int) else BAD_USAGE
    except BrokenPipeError:  # the reader of our output, such as `head`, has ended
        _discard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, Terminated)
        print_error("terminated" if terminated else "interrupted")
        return 128 + stop.args[0] if terminated else INTERRUPTED
    except Exception as error:
        return _report_failure(_name_output(error))
    return code


class _Parser(argparse.ArgumentParser):
    """Exits with 64, since 2 means `unknown` here; suggests corrections of misspelt words."""

    commands: tuple[_Parser, ...] = ()
    """The parsers of the commands that it has."""

    @property
    def options(self) -> list[str]:
        """The names of its options."""
        return [name for action in self._actions for name in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        from trunkline.harness.config.document import list_choices

        if action.choices is not None and value not in action.choices:
            allowed = list_choices(map(str, action.choices), value)
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}: {allowed}")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        from trunkline.harness.config.document import shorten_words

        print_error(f"{shorten_words(message)[:MAX_ERROR]} (see: {self.prog} --help)")
        self.exit(BAD_USAGE)


class _ShowVersion(argparse.Action):
    """Prints the version, which is found only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"trunkline {_read_version()}")
        parser.exit()


def make_parser() -> _Parser:
    """Make the parser of all commands and their arguments."""
    made = _Parser(
        prog="trunkline",
        description="Run real geo-distributed training traffic over an emulated wide-area network.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shown = "show program's version number and exit"
    made.add_argument("--version", action=_ShowVersion, nargs=0, help=shown)
    made.set_defaults(carry_out=None, parser=made)
    verbs = made.add_subparsers(metavar="COMMAND")
    for name, module in find_verbs().items():
        text = extensions.summarize(module)
        command = verbs.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add(command)
        needed = getattr(module, "NEEDS", needs.PROBES)
        command.set_defaults(carry_out=module.run, parser=command, needs=needed)
    made.commands = tuple(verbs.choices.values())
    return made


def _refuse(unknown: Sequence[str], parser: _Parser, all_commands: _Parser) -> NoReturn:
    """End with an error about words that a command does not know."""
    hints = []
    for option in (word.partition("=")[0] for word in unknown if word.startswith("--")):
        near = difflib.get_close_matches(option, parser.options, n=1, cutoff=0.7)
        others = [f"`{each.prog}`" for each in all_commands.commands if option in each.options]
        if near or others:
            hints.append(f"did you mean {near[0] if near else f'{option} of {others[0]}'}?")
    if unknown[0].isdecimal() and "--task" in parser.options:
        hints.append(f"did you mean --task {unknown[0]}?")
    said = f"unrecognized arguments: {' '.join(unknown)}"
    parser.error(": ".join([said, *dict.fromkeys(hints)]))


def _name_output(error: Exception) -> Exception:
    """The error, or one that names standard output if that cannot be written; it is dropped."""
    try:
        sys.stdout.flush()
    except OSError as refused:
        _discard_output()
        if isinstance(error, OSError) and error.filename is None:
            return OutputError(describe_output_error(refused))
    return error


def _discard_output() -> None:
    """Drop what could not be written: else Python tries it again when it ends."""
    os.dup2(os.memfd_create("discarded"), sys.stdout.fileno())  # there may be no /dev/null


def _report_failure(error: Exception) -> int:
    """Print what went wrong, and return its exit code."""
    if os.environ.get("TRUNKLINE_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, OutputError):
        print_error(str(error))
        return INTERNAL_ERROR
    if short := needs.explain_error(error):  # first: what follows imports much
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        print_error(f"{short[0]}: {reason}; remedy: {short[1]}")
        return INTERNAL_ERROR
    from trunkline.harness.config.document import ScenarioErrors

    if isinstance(error, ScenarioErrors):
        print(error, file=sys.stderr)
        return BAD_USAGE
    if isinstance(error, UsageError):
        print_error(str(error))
        return BAD_USAGE
    if _is_expected(error):
        print_error(str(error))
        return INTERNAL_ERROR
    print_error(
        f"internal error: {type(error).__name__}: {error}\n"
        "This is a bug in Trunkline. Please report it with the scenario and the output of the same "
        "command with TRUNKLINE_DEBUG=1."
    )
    return INTERNAL_ERROR


def _is_expected(error: Exception) -> bool:
    """Whether the error's text already says what happened and what to do."""
    from trunkline.agents.control.decision_rules import DecisionError
    from trunkline.harness.kernel import KernelError
    from trunkline.harness.live.prompt import PromptError
    from trunkline.harness.network.interface import NetworkError
    from trunkline.harness.record.run_folder import StoreError
    from trunkline.harness.runs.cluster import ClusterError
    from trunkline.harness.runs.remote import RemoteError
    from trunkline.harness.scenario.loading import CannotRunError
    from trunkline.harness.scenario.user_results import UserCodeError
    from trunkline.workloads.learning.datasets import DatasetError

    known = CannotRunError, ClusterError, DatasetError, DecisionError, KernelError, NetworkError
    return isinstance(error, (*known, PromptError, RemoteError, StoreError, UserCodeError))


def _read_version() -> str:
    from importlib import metadata  # takes a tenth of the time of a short command

    try:
        return metadata.version("trunkline")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
