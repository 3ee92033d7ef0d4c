"""the JSON Schema of scenario files, for editors."""

from __future__ import annotations

import argparse

EPILOG = """\
example:
  trunkline schema > trunkline.schema.json

Most editors take it, from the first line of a scenario:
  # yaml-language-server: $schema=trunkline.schema.json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Nothing to choose."""


def run(_: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario files."""
    import json

    from harness.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
