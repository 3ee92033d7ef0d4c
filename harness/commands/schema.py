"""the JSON Schema of scenario files, for editors; or what the columns of tables mean."""

from __future__ import annotations

import argparse

EPILOG = """\
example:
  trunkline schema > trunkline.schema.json

Most editors take it, from the first line of a scenario:
  # yaml-language-server: $schema=trunkline.schema.json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Of what."""
    parser.add_argument(
        "--tables", action="store_true", help="columns of a run's tables instead, as docs/tables.md"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario files, or what the columns of tables mean."""
    if arguments.tables:
        from harness import columns

        print(columns.document(), end="")
        return 0
    import json

    from harness.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
