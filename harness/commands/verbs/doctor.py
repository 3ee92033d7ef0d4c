"""try everything that a run needs of this machine, and name what helps."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from trunkline.harness.processes import needs
from trunkline.harness.processes.needs import Finding

EPILOG = """\
examples:
  trunkline doctor
  trunkline doctor --brief
  trunkline doctor --logs
  trunkline doctor --json | jq '.[] | select(.state != "ok")'

Takes a few seconds. --logs makes six short runs, too, and compares their event logs with those of
all other machines, which takes about a minute. A warning says what is missing for some runs; a
problem keeps all runs in the embedded kernel from working. The exit code is 1 if there is one.
"""


NEEDS = ()
"""The doctor shows what other commands refuse to begin without."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the extent of the checks and the form of the output."""
    parser.add_argument(
        "--brief", action="store_true", help="print problems only, not what some runs lack"
    )
    parser.add_argument("--logs", action="store_true", help="also compare the logs of six runs")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what each check finds; if this process lacks something, nothing else is tried."""
    report = _print_json if arguments.json else _show_brief if arguments.brief else show
    if problems := needs.find_problems():
        return report(problems)
    from trunkline.harness.runs import doctor

    if not arguments.logs:
        return report(doctor.examine())
    from trunkline.harness.runs import reference_logs  # what makes runs takes a second to load

    with tempfile.TemporaryDirectory() as runs:
        return report(doctor.examine((*doctor.CHECKS, *reference_logs.list_checks(Path(runs)))))


def _print_json(findings: Iterable[Finding]) -> int:
    found = list(findings)
    print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2))
    return int(any(finding.state == "problem" for finding in found))


def _show_brief(findings: Iterable[Finding]) -> int:
    """Print problems and what follows, or a line if there are none."""
    found = list(findings)
    if problems := [each for each in found if each.state == "problem"]:
        return show(problems)
    print(
        f"{len(found)} checks of this machine: none found a problem (trunkline doctor lists them)"
    )
    return 0


def show(findings: Iterable[Finding]) -> int:
    """Print a line for each finding, and one for its remedy; 1 if there is a problem."""
    problems = []
    for finding in findings:
        found = finding.found.replace("\n", f"\n{'':22} ").rstrip()
        print(f"{finding.state:8} {finding.name:13} {found}", flush=True)
        if finding.remedy:
            print(f"{'':22} remedy: {finding.remedy}")
        if finding.state == "problem":
            problems.append(finding.name)
    logs = sum(name.startswith("log ") for name in problems)
    if len(problems) > logs:
        found = f"{len(problems)} of the checks found a problem"
        print(f"{found}: runs in the embedded kernel do not work")
    elif logs:
        print(f"{logs} of the logs differ: runs work, but are not those of other machines")
    return int(bool(problems))
