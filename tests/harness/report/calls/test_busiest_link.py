"""Whether rates were the limit: the busiest link, and the busiest one of each moment."""

from collections.abc import Sequence
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
from trunkline.harness.report.calls.steps.step_tables import PARTS
from trunkline.harness.scenario.loading import load

MS = 10**6

SLOW = """\
name: mine
topology: {builder: full_mesh, sites: 2, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh, -c, exit 0], time_calls: true}
"""
RATES_SAID = {
    200_000: (
        "The busiest link, n1 -> n2, carried 1.6 of its 20 Mbit/s on average, and 20 % of its rate "
        "while calls moved bytes. While send (8 B) moved bytes, one link or another carried 20 % "
        "of its rate: rates were not the limit. Delays, and TCP on new or idle connections, took "
        "more time than the bytes at these rates."
    ),
    600_000: "carried 60 % of its rate: rates and delays shared that time.",
    900_000: "and 90 % of its rate while calls moved bytes: its rate was the limit.",
}


@pytest.mark.parametrize("carried", RATES_SAID)
def test_the_busiest_link_is_named_with_what_it_carried_while_calls_moved_bytes(
    tmp_path: Path, carried: int
) -> None:
    """A send takes 400 ms of a second, in which the link carries all of its bytes."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    scenario = load(tmp_path / "mine.yaml")
    sent = CallStarted(200 * MS, "n1", 2, 0, 0, "send", 8, "0", (0, 1), 0, 1, True)
    counts = [
        LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", size), LinkBytes("n2", "n1", 9)))
        for t_ms, size in (
            (200, 0),
            *((200 + 100 * n, carried * n // 4) for n in (1, 2, 3, 4)),
            (1000, carried),
        )
    ]
    log = [sent, *counts, CallFinished(600 * MS, "n1", 2, 0, False),
           RunFinished(1000 * MS, "runner", TimeUp(1.0), ())]  # fmt: skip
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    sums = pd.DataFrame([dict.fromkeys(PARTS, 0.0) | {"moving_s": 0.4}])
    (said,) = describe_busiest(history, scenario, sums)
    assert RATES_SAID[carried] in said
    sums["computing_s"] = 0.8
    (said,) = describe_busiest(history, scenario, sums)
    assert said.startswith("The busiest link, n1 -> n2, carried ")
    slower = LinkChanged(600 * MS, "runner", "n1", "n2", 5.0, 10.0, 0.0, 0.0, ())
    events = sorted([*history.events, slower], key=lambda event: event.t_ns)
    (said,) = describe_busiest(History.of(events), scenario, sums)
    assert "of its 14 Mbit/s on average (its rate changed between 5 and 20 Mbit/s), and " in said
    if carried == 200_000:
        cuts = [
            LinkChanged(t_ms * MS, "runner", "n2", "n1", 20.0, 10.0, 0.0, 0.0, how)
            for t_ms, how in ((300, ("blackhole",)), (400, ()))
        ]
        events = sorted([*history.events, *cuts], key=lambda event: event.t_ns)
        sums["computing_s"] = 0.0
        (said,) = describe_busiest(History.of(events), scenario, sums)
        assert said.endswith("not the limit. Links were cut for 0.100 s of these 0.400 s.")
    uncounted = [event for event in history.events if not isinstance(event, LinksCounted)]
    assert not [*describe_busiest(History.of(uncounted), scenario, sums)]


def count_links(full_ms: Sequence[int], others: Sequence[Event]) -> History:
    """Links are counted each 0.1 s of a second; n1 -> n2 is full in those that end at `full_ms`."""
    log: list[Event] = [RunFinished(1000 * MS, "runner", TimeUp(1.0), ()), *others]
    total = [0, 0]
    for t_ms in range(100, 1000, 100):
        total[t_ms not in full_ms] += 250_000  # in 100 ms at 20 Mbit/s
        links = LinkBytes("n1", "n2", total[0]), LinkBytes("n2", "n1", total[1])
        log.append(LinksCounted(t_ms * MS, "runner", (links[t_ms not in full_ms],)))
    return History.of(sorted(log, key=lambda event: event.t_ns))


def send(number: int, begin_ms: int, end_ms: int, size: int = 8) -> list[Event]:
    begun = CallStarted(begin_ms * MS, "n1", 2, number, 0, "send", size, "0", (0, 1), 0, 1, True)
    return [begun, CallFinished(end_ms * MS, "n1", 2, number, False)]


def test_links_that_carry_bytes_in_turn_are_the_limit(tmp_path: Path) -> None:
    """Each of two links is full half of the time, in one call of 0.8 s."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    topology = load(tmp_path / "mine.yaml").topology
    busiest = find_busiest(count_links((200, 400, 600, 800), send(0, 100, 900)), topology, ("n1",))
    assert busiest is not None and busiest.moving_share == pytest.approx(0.5)
    (kind,) = busiest.kinds
    assert (kind.share, kind.is_fine, kind.seconds) == (1.0, True, 0.8)
    assert busiest.describe(is_most=False).endswith(
        "carried 100 % of its rate: rates were the limit."
    )


def test_each_kind_of_call_has_its_own_limit(tmp_path: Path) -> None:
    """Small calls leave links idle, large ones fill one; those of 0.1 s may hide links in turn."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    topology = load(tmp_path / "mine.yaml").topology
    full = range(600, 1000, 100)
    counts = [
        LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", 125_000 * place),))
        for place, t_ms in enumerate(range(100, 600, 100))
    ]
    counts += [
        LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", 500_000 + 250_000 * place),))
        for place, t_ms in enumerate(full, 1)
    ]
    small = [event for n in range(4) for event in send(n, 100 + 100 * n, 200 + 100 * n, size=4)]
    end = RunFinished(1000 * MS, "runner", TimeUp(1.0), ())
    log = [*counts, *small, *send(9, 500, 900, size=20), end]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    busiest = find_busiest(history, topology, ("n1",))
    assert busiest is not None
    assert [(kind.bytes, kind.share, kind.is_fine) for kind in busiest.kinds] == [
        (20, 1.0, True), (4, 0.5, False),
    ]  # fmt: skip
    assert (
        busiest.kinds[1].describe().endswith("or more, as calls are short for the counts of links.")
    )


def test_what_a_link_carries_beside_calls_is_not_theirs(tmp_path: Path) -> None:
    """n1 -> n2 is half full all the time, by somebody else; the call of 50 ms moves nothing."""
    (tmp_path / "mine.yaml").write_text(SLOW)
    topology = load(tmp_path / "mine.yaml").topology
    counts = [
        LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", 1250 * t_ms),))
        for t_ms in range(100, 1001, 100)
    ]
    log = [*counts, *send(0, 310, 360), RunFinished(1000 * MS, "runner", TimeUp(1.0), ())]
    busiest = find_busiest(History.of(sorted(log, key=lambda event: event.t_ns)), topology, ("n1",))
    assert busiest is not None and busiest.moving_share == pytest.approx(0.5)
    (kind,) = busiest.kinds
    assert kind.share is None
    assert "too short for the counts of links" in kind.describe()
