"""The command `trunkline`: words in, exit codes out; nothing else in Trunkline prints.

0 pass, 2 unknown, 1 fail, 64 bad usage or a wrong scenario, 70 a run that could not be carried
out, 130 Ctrl-C, 143 SIGTERM. What a user can mend is one line that says how; a traceback is shown
only with TRUNKLINE_DEBUG=1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rich.console import Console

    from harness.verdict import Verdict

EXIT_CODES = {"pass": 0, "unknown": 2, "fail": 1}
BAD_USAGE = 64
INTERNAL_ERROR = 70
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE

PLAIN_WIDTH = 160
"""Columns of a table where there is no terminal."""

EXAMPLES = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.plan=ring --seed 2
  trunkline show scenarios/quickstart.yaml      its sites and links, with numbers
  trunkline list plans                          what scheme.plan may be
  trunkline schema > trunkline.json             for your editor

A run leaves runs/SCENARIO/TIME/, and runs/SCENARIO/latest points to it: tables, plots, the event
log, the verdict. Exit codes: 0 pass, 2 unknown, 1 fail, 64 bad usage or a wrong scenario, 70 not
carried out, 130 Ctrl-C, 143 SIGTERM.
"""

RUN_EXAMPLES = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.p=4 --set stop.time='50 s'
  trunkline run scenarios/quickstart.yaml --set topology.rates='100 Mbit/s' --quiet
"""

LISTS = ("topologies", "plans", "policies", "workloads", "scenarios", "runs")


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, its argument, came: end as for Ctrl-C, with another exit code."""


class UsageError(Exception):
    """The command line asks for something that there is not."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _terminate)
    try:
        arguments = _parser().parse_args(argv)
        code: int = arguments.command(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version, bad usage
        return stop.code if isinstance(stop.code, int) else BAD_USAGE
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, Terminated)
        _complain("terminated" if terminated else "interrupted")
        return 128 + stop.args[0] if terminated else INTERRUPTED
    except Exception as error:
        return _failed(error)
    return code


def run(arguments: argparse.Namespace) -> int:
    """Run a scenario and show what came out."""
    from harness import progress, runner
    from harness.scenario import load

    scenario = load(arguments.file, arguments.set, arguments.seed)
    sites = len(scenario.topology.sites)
    done = 0.0
    screen = _console(stderr=True, quiet=arguments.quiet)
    with progress.live(screen) as show:

        def on_progress(now: progress.Progress) -> None:
            nonlocal done
            done = max(done, progress.fraction(now, scenario.stop, sites))
            show(done, progress.describe(now, scenario.stop))

        result = runner.run(scenario, Path(arguments.file), Path(arguments.runs), on_progress)
    code = _report(result.run_dir, result.verdict, arguments.quiet)
    if result.error:
        _complain(result.error)
        return code or EXIT_CODES["fail"]
    return code


def validate(arguments: argparse.Namespace) -> int:
    """Say everything that is wrong with each file."""
    from harness.scenario import ScenarioErrors, load

    code = 0
    for file in arguments.file:
        try:
            load(file)
        except ScenarioErrors as errors:
            print(errors)
            code = BAD_USAGE
        else:
            print(f"{file}: ok")
    return code


def show(arguments: argparse.Namespace) -> int:
    """Show a scenario with every default, draw and lookup."""
    from harness.scenario import load, resolve

    scenario = load(arguments.file, arguments.set, arguments.seed)
    if arguments.format == "yaml":
        sys.stdout.write(resolve(scenario))
        return 0
    from harness import overview

    console = _console()
    for table in (
        overview.facts(scenario),
        overview.sites(scenario.topology),
        overview.links(scenario.topology),
    ):
        console.print(table)
    return 0


def schema(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario files."""
    import json

    from harness.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0


def list_(arguments: argparse.Namespace) -> int:
    """Print one line for each thing of a kind."""
    from harness import overview

    what = arguments.what
    if what == "runs":
        lines = list(overview.runs(Path(arguments.runs)))
    elif what == "scenarios":
        lines = list(overview.scenarios(_scenario_folder()))
    else:
        lines = list(overview.extensions(what))
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        print(f"{name:{width}}  {text}".rstrip())
    return 0


def kernel(arguments: argparse.Namespace) -> int:
    """Build the embedded kernel, or say whether and where it is."""
    from harness import progress
    from harness.kernel import build

    if arguments.action == "path":
        print(build.path())
    elif arguments.action == "build":
        with progress.live(_console(stderr=True)) as show:
            path = build.ensure(lambda step: show(step.percent / 100, step.doing))
        print(path)
    else:
        status = build.status()
        print(f"{status.version or 'not built'}  {status.path}")
        if status.missing_packages:
            print(f"a build needs: apt-get install {' '.join(status.missing_packages)}")
        return 0 if status.version else 1
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Make a run's tables, figures and verdict again from its event log."""
    from harness import report as reports

    run_dir = Path(arguments.run)
    if not (run_dir / "events.jsonl").exists():
        run_dir = Path(arguments.runs) / arguments.run / "latest"
    if not (run_dir / "events.jsonl").exists():
        raise UsageError(
            f"{arguments.run}: no such run: allowed is a run's folder, or the name of a scenario "
            f"that has runs in {arguments.runs} (see: trunkline list runs)"
        )
    return _report(run_dir, reports.build(run_dir), arguments.quiet)


def _report(run_dir: Path, verdict: Verdict, quiet: bool) -> int:
    from harness import progress

    if quiet:
        print(f"{verdict.outcome}  {run_dir}")
    else:
        _console().print(progress.summary(run_dir, verdict.outcome, verdict.problems))
    return EXIT_CODES[verdict.outcome]


class _Parser(argparse.ArgumentParser):
    """Exits with 64, not 2, which means `unknown` here."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        _complain(f"{message} (see: {self.prog} --help)")
        self.exit(BAD_USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="trunkline",
        description="Run real geo-distributed training traffic over an emulated wide-area network.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"trunkline {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_scenario_commands(commands)

    command = _add(commands, "schema", schema, "the JSON Schema of scenario files, for editors")
    command = _add(commands, "list", list_, "what there is to choose from, one line each")
    command.add_argument("what", choices=LISTS)
    _add_runs(command)
    command = _add(commands, "kernel", kernel, "build the embedded kernel, or say where it is")
    command.add_argument("action", choices=("build", "status", "path"))
    command = _add(commands, "report", report, "make a run's tables, plots and verdict again")
    command.add_argument("run", metavar="RUN", help="a run's folder, or a scenario's name")
    command.add_argument("--quiet", action="store_true", help="print only the verdict")
    _add_runs(command)
    return parser


def _add_scenario_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = _add(commands, "run", run, "run a scenario", RUN_EXAMPLES)
    _add_scenario(command)
    _add_runs(command)
    command.add_argument("--quiet", action="store_true", help="print only the verdict")
    command = _add(commands, "validate", validate, "say everything that is wrong with scenarios")
    command.add_argument("file", nargs="+", metavar="FILE", help="a scenario")
    command = _add(commands, "show", show, "show a scenario with all its sites and links")
    _add_scenario(command)
    command.add_argument(
        "--format",
        choices=("tables", "yaml"),
        default="tables",
        help="yaml: a scenario with every default and draw spelled out",
    )


def _add(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    function: object,
    text: str,
    epilog: str | None = None,
) -> _Parser:
    command = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(command=function)
    return command


def _add_scenario(command: _Parser) -> None:
    command.add_argument(
        "file", metavar="FILE", help="a scenario, such as scenarios/quickstart.yaml"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE",
        help="change a value of the scenario, such as scheme.p=4; may be given more than once",
    )
    command.add_argument("--seed", type=int, metavar="N", help="change the scenario's seed")


def _add_runs(command: _Parser) -> None:
    command.add_argument(
        "--runs", default="runs", metavar="DIR", help="the folder of all runs (default: runs)"
    )


def _failed(error: Exception) -> int:
    """Say what went wrong, and return the exit code for it."""
    if os.environ.get("TRUNKLINE_DEBUG") == "1":
        traceback.print_exception(error)
    from harness.scenario import ScenarioErrors

    if isinstance(error, ScenarioErrors):
        print(error, file=sys.stderr)
        return BAD_USAGE
    if isinstance(error, UsageError):
        _complain(str(error))
        return BAD_USAGE
    if _is_expected(error):
        _complain(str(error))
        return INTERNAL_ERROR
    _complain(
        f"internal error: {type(error).__name__}: {error}\n"
        "This is a mistake in Trunkline. Please report it with the scenario, and with what the "
        "same command prints when TRUNKLINE_DEBUG=1 is set before it."
    )
    return INTERNAL_ERROR


def _is_expected(error: Exception) -> bool:
    """Whether the error's own text says what happened and what to do about it."""
    from harness.kernel import KernelError
    from harness.network import NetworkError
    from harness.store import StoreError
    from workloads.datasets import DatasetError

    return isinstance(error, KernelError | NetworkError | StoreError | DatasetError)


def _console(stderr: bool = False, quiet: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, quiet=quiet, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def _scenario_folder() -> Path:
    """The folder `scenarios` here, else the one that belongs to this installation."""
    here = Path("scenarios")
    return here if here.is_dir() else Path(__file__).resolve().parents[1] / "scenarios"


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"trunkline: {text}", file=sys.stderr)


def _terminate(number: int, _: object) -> NoReturn:
    for other in (signal.SIGTERM, signal.SIGHUP):  # a second one must not disturb the cleaning up
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


def _version() -> str:
    try:
        return metadata.version("trunkline")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
