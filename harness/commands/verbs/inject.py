"""inject a fault or a command into a running run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline inject quickstart 'outage tokyo oregon for 5 s'
  trunkline inject runs/outage/20260301-120000 status

TEXT is a command of the prompt of `trunkline shell`: a fault as in a timeline, `status`, `save
FILE`, `exit`, or a command at a site. It takes effect at once, and is in the run's log like any
fault.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the run and the command."""
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder, or the name of a scenario with one current run"
    )
    parser.add_argument("text", metavar="TEXT", nargs="+", help="a fault or a command")
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the command to the run, and print its answer."""
    from trunkline.harness.commands import current_runs
    from trunkline.harness.live import control_socket
    from trunkline.harness.live.channel import Channel, RunOverError, save
    from trunkline.harness.scenario.loading import load

    run_dir = current_runs.find(arguments.run, Path(arguments.runs))
    text = " ".join(arguments.text)
    verb, _, rest = text.partition(" ")
    file = rest.strip()
    if verb in ("help", "source"):
        raise terminal.UsageError(
            f"{text}: only `trunkline shell` has this command: expected commands to a run"
        )
    if verb == "save" and not file:
        raise terminal.UsageError("save: expected save FILE")
    with current_runs.connect(run_dir) as sock:
        try:
            said = Channel(sock).ask("save" if verb == "save" else text, _show)
        except RunOverError:
            said = {"done": False, "text": control_socket.OVER}
    if "saved" in said:
        refusal = save(load(run_dir / "resolved.yaml"), Path(file), said["saved"])
        if refusal:
            raise terminal.UsageError(refusal)
    if said["done"]:
        print(f"{said['text']}done at {said['t_s']:.3f} s")
        return 0
    terminal.print_error(said["text"] or "the command failed")
    return terminal.INTERNAL_ERROR if said["text"] == control_socket.OVER else terminal.BAD_USAGE


def _show(text: str) -> None:
    sys.stdout.write(text)
