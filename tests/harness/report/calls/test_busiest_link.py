"""Whether rates were the limit: the busiest link, and the busiest one of each moment."""

from pathlib import Path

import pandas as pd
import pytest

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.causes import TimeUp
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import LinkBytes, LinksCounted, RunFinished
from trunkline.harness.record.history import History
from trunkline.harness.report.calls.busiest_link import describe_busiest, find_busiest
from trunkline.harness.report.calls.step_tables import PARTS
from trunkline.harness.scenario.loading import load

MS = 10**6

SLOW = """\
name: mine
topology: {builder: full_mesh, sites: 2, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh, -c, exit 0], time_calls: true}
"""
RATES_SAID = {
    100_000: (
        "The busiest link, n1 -> n2, carried 0.8 of its 20 Mbit/s on average, and 20 % of its rate "
        "while calls moved bytes. At each moment of that time, one link or another carried 20 % of "
        "its rate on average: rates were not the limit. Delays, and TCP on new or idle connections,"
    ),
    300_000: "60 % of its rate on average: rates and delays shared that time.",
    450_000: "and 90 % of its rate while calls moved bytes: its rate was the limit.",
}


@pytest.mark.parametrize("carried", RATES_SAID)
def test_the_busiest_link_is_named_with_what_it_carried_while_calls_moved_bytes(
    tmp_path: Path, carried: int
) -> None:
    """A send takes 200 ms of a second, in which the link carries all of its bytes."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    scenario = load(tmp_path / "mine.yaml")
    sent = CallStarted(200 * MS, "n1", 2, 0, 0, "send", 8, "0", (0, 1), 0, 1, True)
    counts = [
        LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", size), LinkBytes("n2", "n1", 9)))
        for t_ms, size in ((200, 0), (300, carried // 2), (400, carried), (1000, carried))
    ]
    history = History.of([sent, counts[0], CallFinished(400 * MS, "n1", 2, 0, False), *counts[1:],
                          RunFinished(1000 * MS, "runner", TimeUp(1.0), ())])  # fmt: skip
    sums = pd.DataFrame([dict.fromkeys(PARTS, 0.0) | {"moving_s": 0.2}])
    (said,) = describe_busiest(history, scenario, sums)
    assert RATES_SAID[carried] in said
    sums["computing_s"] = 0.8
    (said,) = describe_busiest(history, scenario, sums)
    assert said.startswith("The busiest link, n1 -> n2, carried ")
    slower = LinkChanged(600 * MS, "runner", "n1", "n2", 5.0, 10.0, 0.0, 0.0, ())
    events = sorted([*history.events, slower], key=lambda event: event.t_ns)
    (said,) = describe_busiest(History.of(events), scenario, sums)
    assert "of its 14 Mbit/s on average (its rate changed between 5 and 20 Mbit/s), and " in said
    uncounted = [event for event in history.events if not isinstance(event, LinksCounted)]
    assert not [*describe_busiest(History.of(uncounted), scenario, sums)]


@pytest.mark.parametrize(
    ("call_ms", "share"), [(800, 1.0), (100, None)], ids=["long calls", "short calls"]
)
def test_links_that_carry_bytes_in_turn_are_the_limit(
    tmp_path: Path, call_ms: int, share: float | None
) -> None:
    """Each of two links is full half of the time; counts within a call tell, others do not."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    scenario, per_count = load(tmp_path / "mine.yaml"), 250_000  # in 100 ms at 20 Mbit/s
    log: list[Event] = [RunFinished(1000 * MS, "runner", TimeUp(1.0), ())]
    for number, begin_ms in enumerate(range(100, 900, call_ms)):
        log.append(
            CallStarted(begin_ms * MS, "n1", 2, number, 0, "send", 8, "0", (0, 1), 0, 1, True)
        )
        log.append(CallFinished((begin_ms + call_ms) * MS, "n1", 2, number, False))
    for count in range(8):
        sums = [per_count * ((count + 2 - link) // 2) for link in (0, 1)]
        links = LinkBytes("n1", "n2", sums[0]), LinkBytes("n2", "n1", sums[1])
        log.append(
            LinksCounted((200 + 100 * count) * MS, "runner", links[count % 2 : count % 2 + 1])
        )
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    busiest = find_busiest(history, scenario.topology, ("n1",))
    assert busiest is not None and busiest.moving_share == pytest.approx(0.5)
    assert busiest.any_share == (share if share is None else pytest.approx(share))
    said = busiest.describe(is_most=False)
    assert (
        "one link or another carried 100 % of its rate on average: rates were the limit." in said
    ) is (share is not None)
