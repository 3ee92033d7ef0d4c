"""What ns-3 answers, and what it simulates where it is installed."""

import against_ns3
import pytest
from against_ns3 import NotHereError, Simulated, read_answer, simulate

from trunkline.harness.scenario.loading import parse

PAIR = """
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 1 MB, compute: 1 s}
scheme: {name: ps-bsp, servers: [n2]}
stop: {tasks: 4}
network: {pacing: false}
"""

RETURNED = """
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: 5 ms}
workload: {kind: synthetic, model: 8 MB, compute: 2 s}
scheme: {policy: bsp, plan: ps}
stop: {tasks: 6}
network: {pacing: false}
"""


@pytest.fixture(scope="module")
def program():
    try:
        return against_ns3.build(against_ns3.find_cache())
    except NotHereError as error:
        pytest.skip(str(error))


def test_a_task_lasts_until_its_last_message():
    text = "ended 0 1000\nended 1 5000\nended 2 9000\nlink 0 1 300 7 1 2\nlink 1 0 60 3 0 0\n"
    assert read_answer(text, [0], [[1, 2]]) == Simulated((8e-6,), packets=10, drops=3)


def test_a_task_that_has_not_ended_has_no_time():
    assert read_answer("ended 0 1000\nended 1 5000\n", [0, 2], [[1], [3]]).tasks_s == (4e-6,)


def test_a_missing_simulator_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(against_ns3.shutil, "which", lambda name: None)
    with pytest.raises(NotHereError, match="apt-get install libns3-dev"):
        against_ns3.build(tmp_path)


def test_a_warm_connection_carries_a_model_at_the_rate_of_its_payload(program):
    found = simulate(parse(PAIR, "x.yaml"), program)
    ideal_s = 1e6 * 8 / 10e6 * 1514 / 1448 + 2 * 0.010  # the message that starts it, and the last
    assert found.tasks_s[2:] == pytest.approx([ideal_s, ideal_s], rel=0.02)


def later_s(program, tcp, *changes):
    times = simulate(parse(PAIR, "x.yaml", changes), program, tcp=tcp).tasks_s
    return sum(times[2:]) / 2


def test_cubic_is_as_fast_as_reno_where_reno_is_faster_than_its_curve(program):
    lossy = "topology.loss=1 %", "workload.model=4 MB"
    reno_s = later_s(program, "linux", *lossy, "network.congestion_control=reno")
    assert later_s(program, "linux", *lossy) == pytest.approx(reno_s, rel=0.3)
    assert later_s(program, "ns3", *lossy) > 1.5 * reno_s


LOSSY = (
    *("topology.rates=50 Mbit/s", "topology.delays=25 ms", "topology.loss=0.5 %"),
    *("network.congestion_control=reno", "workload.model=4 MB", "workload.compute=2 s"),
)


def test_windows_of_reno_grow_as_in_trunkline_between_losses(program):
    """If what counts towards the next segment were kept at a loss, these took 68.2 s."""
    first = [*LOSSY, "stop.tasks=1"]
    seeds = [parse(PAIR, "x.yaml", [*first, f"seed={seed}"]) for seed in range(1, 11)]
    assert sum(simulate(each, program).tasks_s[0] for each in seeds) == pytest.approx(
        70.8, rel=0.02
    )


def test_the_window_of_a_caller_does_not_grow_for_long(program):
    """Else its site would acknowledge each packet: 38 800 packets where Trunkline has 36 100."""
    seeds = [parse(PAIR, "x.yaml", [*LOSSY, "stop.tasks=8", f"seed={seed}"]) for seed in (1, 2)]
    found = [simulate(each, program).packets for each in seeds]
    assert sum(found) / 2 == pytest.approx(36_100, rel=0.05)


def test_a_burst_that_overflows_a_short_queue_takes_as_long_as_in_trunkline(program):
    """In the third task, on both sides, the recovery loses another packet."""
    short = "topology.delays=50 ms", "topology.queue=40 kB", "workload.model=4 MB"
    found = simulate(parse(PAIR, "x.yaml", short), program).tasks_s
    assert found == pytest.approx([3.692, 3.742, 5.258, 4.037], rel=0.01)


def test_a_queue_has_as_many_bytes_as_the_link_says(program):
    """A first window of 40 packets is sent at once, of which 19 fit into 30 kB: 21 are lost."""
    burst = "topology.queue=30 kB", "network.initial_window=40", "workload.model=57920 B"
    burst += ("workload.compute=1200 ms",)  # no heartbeat is on its way then
    assert simulate(parse(PAIR, "x.yaml", [*burst, "stop.tasks=1"]), program).drops == 21


def test_a_long_queue_holds_what_slow_start_sends(program):
    long = "topology.rates=100 Mbit/s", "topology.delays=50 ms", "workload.model=12 MB"
    assert simulate(parse(PAIR, "x.yaml", [*long, "stop.tasks=1"]), program).drops == 0


def test_directions_have_delays_of_their_own(program):
    """The model and its last acknowledgement take the fast way, and the message before the task."""
    delays = "topology.delays={n1: {n2: 10 ms}, n2: {n1: 200 ms}}"
    pushed = simulate(
        parse(PAIR, "x.yaml", [delays, "stop.tasks=1", "workload.model=1 kB"]), program
    )
    assert pushed.tasks_s[0] == pytest.approx(0.011, abs=0.001)


def test_losses_and_an_outage_drop_packets(program):
    lossy = simulate(parse(PAIR, "x.yaml", ["topology.loss=2 %"]), program)
    assert 0.01 < lossy.drops / lossy.packets < 0.03
    cut = parse(PAIR, "x.yaml", ["timeline=[{at: 300 ms, do: outage n1 n2 for 1 s}]"])
    assert simulate(cut, program).tasks_s[0] > 1.8


def test_a_heartbeat_takes_the_place_of_a_packet_in_a_window_after_a_timeout(program):
    """Else the next one is sent beside it, and tells n1 that the outage is over: 4.4 s."""
    cut = "timeline=[{at: 1 s, do: outage n1 n2 for 1 s}]", "workload.compute=2 s"
    found = simulate(parse(PAIR, "x.yaml", [*cut, "workload.model=4 MB", "stop.tasks=1"]), program)
    assert found.tasks_s[0] == pytest.approx(5.298, rel=0.01)


def test_a_task_begins_after_the_heartbeat_of_the_same_moment(program):
    """If its last acknowledgement opened the window, HyStart would have an alarm: 0.366 s."""
    fast = "topology.rates=500 Mbit/s", "topology.delays=1 ms", "workload.model=20 MB"
    found = simulate(
        parse(PAIR, "x.yaml", [*fast, "workload.compute=2 s", "stop.tasks=1"]), program
    )
    assert found.tasks_s[0] == pytest.approx(0.340, rel=0.01)


def test_an_acknowledgement_that_is_due_soon_is_sent_when_one_arrives(program):
    """Else the second task sends before the last heartbeat is acknowledged, and takes 5.13 s."""
    far = "topology.delays=150 ms", "workload.model=4 MB", "workload.compute=2 s", "stop.tasks=2"
    assert simulate(parse(PAIR, "x.yaml", far), program).tasks_s[1] == pytest.approx(
        4.784, rel=0.01
    )


def test_what_is_not_lost_is_not_sent_again(program):
    """ns-3's own recovery sends it again, when a site waits for what it could send: 0.91 s."""
    assert simulate(parse(RETURNED, "x.yaml"), program).tasks_s[-1] < 0.85


def test_windows_open_as_in_trunkline_while_the_receive_window_grows(program):
    """With an acknowledgement for every other packet, the second task would take 4.1 s."""
    far = "topology.delays=50 ms", "topology.queue=1 MB"
    found = simulate(parse(PAIR, "x.yaml", far), program).tasks_s
    assert found == pytest.approx([1.109, 1.166, 0.887, 0.937], rel=0.01)


def test_the_last_packet_of_a_chunk_is_short_where_the_window_is_open(program):
    """49 chunks of 2 packets each, which would fill 71 packets, and as many acknowledgements."""
    small = "network.initial_window=400", "workload.model=100 kB", "scheme.chunk=2 KiB"
    changes = *small, "topology.queue=1 MB", "stop.tasks=1"
    assert simulate(parse(PAIR, "x.yaml", changes), program).packets > 2 * 49 + 49


def test_a_heartbeat_that_is_acknowledged_late_is_no_loss(program):
    """It waits for 0.5 s in the queue. After a timeout, the second task would take 7.6 s."""
    slow = "topology.rates=1 Mbit/s", "topology.delays=150 ms", "workload.model=500 kB"
    changes = *slow, "workload.compute=2 s", "stop.tasks=2"
    assert simulate(parse(PAIR, "x.yaml", changes), program).tasks_s[1] < 5.1
