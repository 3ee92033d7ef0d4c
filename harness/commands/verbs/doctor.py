"""try everything that a run needs of this machine, and name what helps."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.harness.kernel.probes import Finding

EPILOG = """\
examples:
  trunkline doctor
  trunkline doctor --json | jq '.[] | select(.state != "ok")'

Takes a few seconds. A warning says what is missing for some runs; a problem keeps all runs in the
embedded kernel from working. The exit code is 1 if there is a problem.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the form of the output."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what each check finds."""
    from trunkline.harness.runs import doctor

    if arguments.json:
        findings = list(doctor.examine())
        kinds = ("name", "state", "found", "remedy")
        print(json.dumps([{k: getattr(each, k) for k in kinds} for each in findings], indent=2))
        return int(any(each.state == "problem" for each in findings))
    return show(doctor.examine())


def show(findings: Iterable[Finding]) -> int:
    """Print a line for each finding, and one for its remedy; 1 if there is a problem."""
    problems = 0
    for finding in findings:
        print(f"{finding.state:8} {finding.name:13} {finding.found}", flush=True)
        if finding.remedy:
            print(f"{'':22} remedy: {finding.remedy}")
        problems += finding.state == "problem"
    if problems:
        print(f"{problems} of the checks found a problem: runs in the embedded kernel do not work")
    return int(problems > 0)
