"""have something happen in a run that goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline inject quickstart 'outage tokyo oregon for 5 s'
  trunkline inject runs/outage/20260301-120000 status

What can be said is what can be typed at the prompt of `trunkline shell`: faults as in a timeline,
`status`, `save FILE`, `exit`, commands at sites. It takes effect at the time that the run has
reached, and is in its log like any fault.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Which run, and what."""
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder, or a scenario's name if one run of it goes on"
    )
    parser.add_argument("text", metavar="TEXT", nargs="+", help="what is to happen")
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the run, and print its answer."""
    from trunkline.harness.live import control_socket
    from trunkline.harness.live.prompt import Channel, RunOverError, save
    from trunkline.harness.scenario.loading import load

    run_dir = _find_run(arguments.run, Path(arguments.runs))
    text = " ".join(arguments.text)
    verb, _, rest = text.partition(" ")
    file = rest.strip()
    if verb in ("help", "source"):
        raise terminal.UsageError(
            f"{text}: allowed is what changes or asks a run: this is of `shell`"
        )
    if verb == "save" and not file:
        raise terminal.UsageError("save: allowed is save FILE")
    try:
        with control_socket.connect(run_dir) as sock:
            said = Channel(sock).ask("save" if verb == "save" else text, _show)
    except RunOverError:
        said = {"done": False, "text": control_socket.OVER}
    except PermissionError:
        raise terminal.UsageError(f"{run_dir}: allowed to who runs it only") from None
    except OSError:
        raise terminal.UsageError(f"{run_dir}: this run has ended") from None
    if "saved" in said:
        refusal = save(load(run_dir / "resolved.yaml"), Path(file), said["saved"])
        if refusal:
            raise terminal.UsageError(refusal)
    if said["done"]:
        print(f"{said['text']}done at {said['t_s']:.3f} s")
        return 0
    terminal.print_error(said["text"] or "it was done, and did not end well")
    return terminal.INTERNAL_ERROR if said["text"] == control_socket.OVER else terminal.BAD_USAGE


def _show(text: str) -> None:
    sys.stdout.write(text)


def _find_run(name: str, runs_dir: Path) -> Path:
    """The folder of a run that goes on, as far as one can see."""
    from trunkline.harness.live import control_socket

    if (Path(name) / "resolved.yaml").exists():
        return Path(name)
    going = sorted(link.parent for link in runs_dir.glob(f"{name}/*/{control_socket.LINK}"))
    if len(going) == 1:
        return going[0]
    which = f"these go on: {', '.join(map(str, going))}" if going else "none goes on"
    raise terminal.UsageError(
        f"{name}: allowed is a run's folder, or the name of a scenario of which one run goes on in "
        f"{runs_dir}; {which}"
    )
