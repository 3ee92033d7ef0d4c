"""The process that measures, in the network's kernel: `measurement_session FOLDER own|foreign`.

It builds the network of the folder's `resolved.yaml`, measures every pair of links, and prints one
JSON object per line: `{"progress": [done, all]}`, `{"observed": {...}}` for each directed link, and
`{"refused": text}` if the network could not be built or a measurement failed.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from trunkline.harness.measure import pair
from trunkline.harness.measure.effort import choose_effort
from trunkline.harness.measure.measurement_plan import plan
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.processes.ending import end_by
from trunkline.harness.processes.lines import print_message
from trunkline.harness.scenario.loading import load
from trunkline.harness.session import private_files


def main(folder: Path, with_foreign: bool, quick: bool) -> int:
    """Measure the folder's network; return 0, or 1 if it failed."""
    end_by(signal.SIGTERM)
    scenario = load(folder / "resolved.yaml")
    private_files.enter(scenario, folder)
    plans = plan(scenario.topology, scenario.network, choose_effort(scenario.clock, quick))
    network = MininetNetwork(scenario.topology, scenario.network, scenario.seed)
    planned = None
    try:
        network.start()
        for number, planned in enumerate(plans):
            print_message({"progress": [number, len(plans)]})
            for observed in pair.measure(
                network, planned, real_clock=scenario.clock == "real", with_foreign=with_foreign
            ):
                print_message({"observed": observed.to_json()})
    except (NetworkError, OSError) as error:
        where = f"the links between {planned.a} and {planned.b}: " if planned else ""
        print_message({"refused": f"{where}{error}"})
        return 1
    finally:
        network.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "foreign" in sys.argv[2:], "quick" in sys.argv[2:]))
