"""the JSON Schema of scenario files, for editors."""

from __future__ import annotations

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Nothing to choose."""


def run(_: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario files."""
    import json

    from harness.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
