"""write a new scenario with comments, and a JSON Schema for your editor beside it."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from trunkline.harness.commands import terminal

SCHEMA = "trunkline.schema.json"

EPILOG = f"""\
example:
  trunkline new mine.yaml && trunkline validate mine.yaml && trunkline run mine.yaml

The scenario runs as it is; change it line by line. Its first line names the schema, {SCHEMA} in
the same folder, so that editors complete keys and mark errors. `trunkline schema` prints the schema
alone.
"""

TEMPLATE = f"""\
# yaml-language-server: $schema={SCHEMA}
description: one line for `trunkline list scenarios`
seed: 1                    # of everything random: the same file and seed give the same run

topology:                  # the network; trunkline list topologies
  builder: full_mesh       # a link from every site to every other one
  sites: 5                 # a count, or names: [paris, tokyo], or measured regions
  rates: [40 Mbit/s, 100 Mbit/s]   # drawn for each link; or one rate, n2, or rates.csv
  delays: 30 ms            # one way
  # loss: 0.1 %
  # queue: 256 KiB

workload:                  # what sites compute and send; trunkline list workloads
  kind: synthetic          # training: a real network on Fashion-MNIST
  model: 4 MB
  compute: [0.1 s, 0.3 s]  # for each iteration; or one time

scheme:                    # how sites synchronize
  policy: preduce          # who, when, with which weights; trunkline list policies
  p: 3                     # of this policy: how many sites synchronize at once
  plan: crew               # how the bytes move; trunkline list plans
  # chunk: 256 KiB

stop:                      # the run ends with the first of these conditions
  tasks: 20
  # time: 60 s

# timeline:                # changes and faults; trunkline list faults
#   - {{at: 2 s, do: outage n1 n2 for 1 s}}
#   - {{at: 3 s, do: setlink n1 n3 rate=10Mbit/s}}

# Every key: docs/reference/scenario.md, or trunkline schema --keys
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the file to write."""
    parser.add_argument("new_file", metavar="FILE", help="the new scenario, such as mine.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Write the scenario and the schema; an existing scenario is refused."""
    from trunkline.harness.scenario.json_schema import json_schema

    path = Path(arguments.new_file)
    if path.suffix not in (".yaml", ".yml"):
        raise terminal.UsageError(f"{path}: expected a name that ends in .yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
        schema = path.parent / SCHEMA
        schema.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    except FileExistsError:
        raise terminal.UsageError(f"{path}: expected a name that no file has yet") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise terminal.UsageError(f"{path}: cannot be written: {reason}") from None
    print(f"{path}: change it, then: trunkline run {shlex.quote(str(path))}")
    print(f"{schema}: for your editor")
    return 0
