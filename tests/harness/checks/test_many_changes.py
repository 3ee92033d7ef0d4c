"""A fault may change thousands of links at once, and logs one after the other."""

import pytest

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import FaultStarted, LinkChanged
from trunkline.agents.events.run_events import RunFinished
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.checks.frame.fault_checks import faults_as_written
from trunkline.harness.checks.rules import Rules
from trunkline.harness.faults.fault_steps import Began, LinkStep
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.record.history import History
from trunkline.harness.scenario.loading import parse
from trunkline.topologies.links import CHANGEABLE

S = 10**9
RULES = Rules.of(
    parse(
        """
topology: {builder: full_mesh, sites: 36, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 10 kB}
scheme: {policy: bsp, plan: ring}
timeline:
- {at: 1 s, do: redraw rate=1..10Mbit/s}
stop: {time: 2 s}
""",
        "x.yaml",
    )
)


def redraw(each_ns: int) -> History:
    """The redraw of all links, which takes so long for each."""
    assert RULES.started is not None
    start = TaskStarted(0, "controller", 0, "", "", ("n1",), {"n1": 1.0}, 1.0, 0, 0, {})
    found: list[Event] = [RULES.started, start]
    timeline = Timeline(RULES.topology, RULES.scenario.timeline, 1, RULES.scenario.targets)
    for count, step in enumerate(timeline.advance(S)):
        t_ns = S + count * each_ns
        match step:
            case Began(number=number, fault=fault, targets=targets):
                verb = write(fault).split()[0]
                found.append(FaultStarted(t_ns, "runner", number, verb, write(fault), targets))
            case LinkStep(after=after):
                values = {name: getattr(after, name) for name in CHANGEABLE}
                changed = LinkChanged(t_ns, "runner", after.src, after.dst, **values, cuts=())
                found.append(changed)
    return History.of([*found, RunFinished(2 * S, "runner", None, ())])


@pytest.mark.parametrize(("each_ns", "is_late"), [(900, False), (2000, True)])
def test_a_redraw_of_a_large_mesh_takes_its_time(each_ns: int, is_late: bool) -> None:
    found = faults_as_written(redraw(each_ns), RULES)
    late = [each.text for each in found if each.outcome == "fail" and "it was due" in each.text]
    assert bool(late) == is_late
