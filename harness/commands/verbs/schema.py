"""print the JSON Schema of scenario files, for editors, or a reference page of the docs."""

from __future__ import annotations

import argparse

PAGES = {
    "keys": "print every key of a scenario instead",
    "commands": "print every command instead",
    "tables": "print the meaning of the columns of a run's tables instead",
    "events": "print every line that an event log may have instead",
}
"""Option -> its help."""

EPILOG = """\
example:
  trunkline schema > trunkline.schema.json

Most editors use it if the first line of a scenario is:
  # yaml-language-server: $schema=trunkline.schema.json

`trunkline new` writes a scenario with that line, and the schema beside it.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add what to print."""
    pages = parser.add_mutually_exclusive_group()
    for page, what in PAGES.items():
        pages.add_argument(
            f"--{page}", action="store_const", dest="page", const=page, help=f"{what}, as Markdown"
        )


def run(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario files, or a page of the docs."""
    from trunkline.harness.commands import event_reference, main, reference
    from trunkline.harness.report.parts import table_reference
    from trunkline.harness.scenario.extensions import discover

    match arguments.page:
        case "keys":
            print(reference.write_keys(discover()), end="")
        case "commands":
            print(reference.write_commands(main.make_parser()), end="")
        case "tables":
            print(table_reference.write_page(), end="")
        case "events":
            print(event_reference.write_page(), end="")
        case _:
            import json

            from trunkline.harness.scenario.json_schema import json_schema

            print(json.dumps(json_schema(), indent=2))
    return 0
