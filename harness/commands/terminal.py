"""Shared by the commands: exit codes, common arguments, and printing."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from trunkline.harness.checks.verdict import Verdict
    from trunkline.harness.live.live_state import Progress
    from trunkline.harness.runs.remote.client import Host
    from trunkline.harness.runs.runner import RunResult
    from trunkline.harness.scenario.loading import Here
    from trunkline.harness.scenario.settings import Scenario

EXIT_CODES = {"pass": 0, "unknown": 2, "fail": 1, "prediction": 0}
BAD_USAGE = 64
INTERNAL_ERROR = 70
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE

PLAIN_WIDTH = 160
"""The width of tables in columns if the output is not a terminal."""


class UsageError(Exception):
    """The command line is wrong; the text says what is allowed."""


class OutputError(Exception):
    """Standard output cannot be written; the text says why and what helps."""


def describe_output_error(error: OSError) -> str:
    """Why standard output cannot be written, and what helps."""
    from trunkline.harness.processes.needs import WRITING_REMEDIES

    remedy = WRITING_REMEDIES.get(error.errno or 0, "send it elsewhere").replace("folder", "file")
    return f"standard output: cannot be written: {error.strerror or error}; remedy: {remedy}"


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario's file, and options that change the scenario."""
    parser.add_argument(
        "file",
        type=find_scenario,
        metavar="FILE",
        help="a scenario: a file, or the name of one in scenarios/, such as quickstart",
    )
    add_changes(parser)


def find_scenario(name: str) -> str:
    """The file of a scenario: this file, or the one of this name in scenarios/; for argparse.

    If there is none, it is the name itself, so that reading it gives the usual error.
    """
    from trunkline.harness.config.paths import find_scenario_folder

    folder = find_scenario_folder()
    for path in (Path(name), folder / name, folder / f"{name}.yaml"):
        with contextlib.suppress(OSError):  # such as a name that is too long
            if path.is_file():
                return str(path)
    return name


NEWEST = 3
"""The number of runs that a refusal names."""


def find_run(name: str, runs: Path) -> Path:
    """The folder of the named run, or of the latest run in a folder or of a scenario.

    A scenario is named by its name or by its file. A path that is neither is no run, also if its
    last part is the name of a scenario. Says on the error stream which run a name stands for.
    Raises UsageError.
    """
    from trunkline.harness.config.paths import name_after

    given = Path(name)
    folders = [given, given / "latest"]
    if given.suffix in (".yaml", ".yml") or given.name == name:
        folders += [runs / name / "latest", runs / name_after(name) / "latest"]
    for run_dir in folders:
        if (run_dir / "events.jsonl").exists():
            if run_dir != given:
                found, here = run_dir.resolve(), Path.cwd()
                shown = found.relative_to(here) if found.is_relative_to(here) else found
                print(f"{name}: {shown}", file=sys.stderr)
            return run_dir
        if (run_dir / "scenario.yaml").exists():
            raise UsageError(f"{run_dir}: this run has no events: expected one that began")
    raise UsageError(f"{name}: no such run: {_guess_run(name, given, runs)}")


def _guess_run(name: str, given: Path, runs: Path) -> str:
    """What is expected in place of a name that is none of a run."""
    from trunkline.harness.config.document import find_near

    if trials := sorted(each.parent for each in given.glob("runs/*/latest")):
        several = f", and {len(trials) - 1} more" if len(trials) > 1 else ""
        return f"this folder has many: expected one of them, such as {trials[0]}{several}"
    if inside := [*given.glob("*/events.jsonl")] or [*given.glob("*/latest/events.jsonl")]:
        newest = sorted(inside, key=lambda log: log.stat().st_mtime, reverse=True)[:NEWEST]
        shown = ", ".join(str(log.parent) for log in newest)
        return f"this folder has many: expected one of them; the newest: {shown}"
    if begun := sorted((runs / name).glob("*/events.jsonl")):
        return (
            "none of its runs has ended as it should: expected one by its folder, such as "
            f"{begun[-1].parent}"
        )
    near = find_near(name, [each.name for each in runs.iterdir()] if runs.is_dir() else [])
    hint = f"did you mean {near}? " if near else ""
    return (
        f"{hint}expected a run's folder, or the name of a scenario "
        f"that has runs in {runs} (see: trunkline list runs)"
    )


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add options that change the scenario."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE",
        help="change a value of the scenario, such as scheme.p=4; may be given more than once",
    )
    parser.add_argument("--seed", type=parse_whole, metavar="N", help="change the scenario's seed")


def add_pcap(parser: argparse.ArgumentParser) -> None:
    """Add `--pcap`."""
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="LINK",
        help="capture the packets of this link, such as n1-n2, or 'n1 -> n2' for one direction, or "
        "all, instead of those of capture.links; may be given more than once",
    )


def load_capturing(arguments: argparse.Namespace, here: Here) -> Scenario:
    """Load the scenario; `--pcap` stands for an assignment to it. Raises ScenarioErrors.

    `here` says what this machine is to carry out.
    """
    from trunkline.harness.config.document import ScenarioErrors
    from trunkline.harness.scenario.loading import load

    links: list[str] = arguments.pcap
    named = "all" if "all" in links else json.dumps(links)
    captures = [f"capture.links={named}"] if links else []
    try:
        return load(arguments.file, [*arguments.set, *captures], arguments.seed, here=here)
    except ScenarioErrors as errors:
        raise ScenarioErrors(
            replace(problem, file="--pcap", key_path="")
            if captures and problem.key_path.startswith("capture.links")
            else problem
            for problem in errors.problems
        ) from None


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the folder of runs."""
    parser.add_argument(
        "--runs", default="runs", metavar="DIR", help="the folder of all runs (default: runs)"
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet`."""
    parser.add_argument("--quiet", action="store_true", help="print only the verdict")


def add_labels(parser: argparse.ArgumentParser, each: str) -> None:
    """Add the names on the page of a comparison; `each` says in words what has one."""
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME",
        help=f"the name in the results, once for each {each}",
    )


def add_width(parser: argparse.ArgumentParser, of: str, default: str) -> None:
    """Add `--width`, the width `of` figures."""
    parser.add_argument(
        "--width",
        type=_parse_inches,
        metavar="INCHES",
        help=f"the width {of}, such as 3.4 for one column of a paper (default: {default})",
    )


def _parse_inches(text: str) -> float:
    """Parse the width of figures; for argparse."""
    with contextlib.suppress(ValueError):
        if 2 <= (width_in := float(text)) <= 20:
            return width_in
    raise argparse.ArgumentTypeError(f"{text}: expected 2 to 20")


def check_labels(labels: Sequence[str], count: int, each: str) -> None:
    """Raises UsageError unless there are no labels, or `count` different ones."""
    if not labels:
        return
    allowed = ""
    if len(labels) != count:
        allowed = f"{count} name{'s' * (count != 1)}, one for each {each}"
    elif not all(label.strip() for label in labels):
        allowed = "names that are not empty"
    elif len({*labels}) < count:
        allowed = "different names"
    if allowed:
        raise UsageError(f"--label {shlex.join(labels)}: expected {allowed}")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add `--jobs`."""
    parser.add_argument("--jobs", type=parse_count, default=1, metavar="N", help="runs at once (1)")


def parse_whole(text: str) -> int:
    """Parse a whole number; for argparse."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number") from None


def parse_count(text: str) -> int:
    """Parse a whole number of at least 1; for argparse."""
    number = parse_whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: expected 1 or more")
    return number


def advise_jobs(runs: int, jobs: int, cpus: int, load: float) -> str:
    """How many of many runs go on at once, and how many processors are free for others.

    Args:
        runs: the number of all runs.
        jobs: how many of them go on at once; each keeps about one processor busy.
        cpus: the processors that this process may use.
        load: the number of processes that are ready to run on the machine, on average.
    """
    free = max(0, cpus - round(load))
    advice = f" (--jobs {min(free, runs)})" if jobs < min(free, runs) else ""
    return f"{runs} runs, {jobs} at once; {free} of {cpus} processors are free{advice}"


def tell_jobs(runs: int, jobs: int, quiet: bool) -> None:
    """Print `advise_jobs` for this machine, if there are several runs."""
    if runs > 1 and not quiet:
        cpus, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
        print(advise_jobs(runs, jobs, cpus, load), file=sys.stderr)


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Add options for reaching another machine."""
    parser.add_argument(
        "--remote-command",
        default="trunkline",
        metavar="COMMAND",
        help="the command of Trunkline on that machine, such as trunkline/.venv/bin/trunkline "
        "(default: trunkline)",
    )
    parser.add_argument(
        "--ssh-config",
        type=Path,
        metavar="FILE",
        help="SSH configuration to use (default: ~/.ssh/config, then /etc/ssh/ssh_config)",
    )


def make_host(address: str, arguments: argparse.Namespace) -> Host:
    """The machine at this address, with the options of `add_remote`. Raises UsageError."""
    from trunkline.harness.runs.remote import RemoteError
    from trunkline.harness.runs.remote.client import Host
    from trunkline.harness.runs.remote.ssh import Address

    try:
        Address.parse(address)
    except RemoteError as error:
        raise UsageError(str(error)) from None
    return Host(address, arguments.remote_command, arguments.ssh_config)


@contextlib.contextmanager
def follow(
    quiet: bool,
) -> Iterator[tuple[Callable[[Scenario, Progress], None], Callable[[str], None]]]:
    """Show a line of progress; give a function that updates it, and one that prints a text."""
    from trunkline.harness.live import progress

    done: float | None = None
    screen = make_console(stderr=True, quiet=quiet)
    with progress.live(screen) as show:

        def on_progress(scenario: Scenario, now: Progress) -> None:
            nonlocal done
            workers = scenario.parties
            share = progress.fraction(now, scenario.whole_stop, workers)
            done = share if done is None else max(done, share or 0.0)
            show(done, progress.describe(now, scenario.whole_stop, workers))

        yield on_progress, lambda text: screen.print(text, markup=False, soft_wrap=True)


def make_console(stderr: bool = False, quiet: bool = False) -> Console:
    """Make a console for tables and progress; without a terminal it is PLAIN_WIDTH wide."""
    from rich.console import Console
    from rich.text import Text

    from trunkline.harness.config.document import make_printable

    class Piped(Console):
        def render_str(self, text: str, **named: Any) -> Text:
            """Write text of users so that a terminal takes nothing in it for a command."""
            return super().render_str(make_printable(text), **named)

        def on_broken_pipe(self) -> None:
            """Raise the error again: `main` has an exit code for it, rich would exit with 1."""
            raise

    made = Piped(stderr=stderr, quiet=quiet, highlight=False)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


def show_verdict(run_dir: Path, verdict: Verdict, quiet: bool) -> int:
    """Print the verdict of a run; return its exit code."""
    from trunkline.harness.live import progress

    if quiet:
        print(f"{verdict.outcome}  {run_dir}")
    else:
        make_console().print(progress.summary(run_dir, verdict))
    sys.stdout.flush()
    return EXIT_CODES[verdict.outcome]


def show_result(result: RunResult, quiet: bool) -> int:
    """Print the verdict and the error of a run that has just ended; return its exit code.

    A run with an error is never a pass.
    """
    try:
        code = show_verdict(result.run_dir, result.verdict, quiet)
    except BrokenPipeError:  # see `main`
        raise
    except OSError as error:
        told = f"the run is over: its verdict is {result.verdict.outcome}, in {result.run_dir}"
        raise OutputError(f"{describe_output_error(error)}\n{told}") from error
    if result.error:
        print_error(result.error)
        return code or EXIT_CODES["fail"]
    return code


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: this saves a command that ends at once a sixth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def print_error(text: str) -> None:
    """Print to standard error, unless it is closed; words longer than usual paths are cut."""
    from trunkline.harness.config.document import make_printable, shorten_words

    with contextlib.suppress(OSError):
        print(f"trunkline: {make_printable(shorten_words(text, 1000))}", file=sys.stderr)
