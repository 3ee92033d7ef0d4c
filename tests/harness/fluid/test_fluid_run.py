"""A whole run in the fluid model: small ones, whose numbers can be worked out by hand."""

import math
from pathlib import Path

import pytest
from wan import Wan, mesh

from trunkline.agents.events.task_events import TaskFinished, TaskStarted
from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario.loading import load, parse
from trunkline.workloads.layered.model import load as load_table

ROOT = Path(__file__).parents[3]

PAIR = """
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 100 ms}
workload: {kind: synthetic, model: 1 MB, compute: 1 s}
scheme: {policy: bsp, plan: a2a, chunk: 100 kB}
stop: {rounds: 3}
"""


def expected(*overrides, seed=1):
    return fluid_run.predict(parse(PAIR, "pair.yaml", overrides, seed))


@pytest.mark.parametrize(
    ("overrides", "task_s", "rounds", "window_s"),
    [
        # One second to compute, one to send the model; both directions at once.
        ((), 1.0, 3.0, 6.0),
        (("topology.rate_factor=0.5",), 2.0, 3.0, 9.0),
        (("stop={time: 5 s}",), 1.0, 2.0, 5.0),
        # The last task is counted, the round that it ends is after the window.
        (("stop={tasks: 2}",), 1.0, 1.0, 3.0),
        # Tasks start at 1, 3, 5, 7 and 9 s; the results count the last three, from 5 s on.
        (("stop={tasks: 3}", "warm_up={tasks: 2}"), 1.0, 2.0, 4.0),
        # Rounds end at 2, 4, 6 and 8 s; the window is from 3.5 to 8.5 s.
        (("stop={time: 5 s}", "warm_up={time: 3.5 s}"), 1.0, 3.0, 5.0),
        # The slow site keeps the other one waiting.
        (("workload.slowdown={n2: 3.0}",), 1.0, 3.0, 12.0),
        # A wrong idea of the rates changes nothing where there is nothing to choose.
        (("scheme.rate_error=50 %",), 1.0, 3.0, 6.0),
    ],
)
def test_what_comes_of_two_sites(overrides, task_s, rounds, window_s):
    found = expected(*overrides)
    assert (found.task_s, found.rounds, found.window_s) == pytest.approx((task_s, rounds, window_s))


def test_samples_are_those_of_finished_rounds():
    # Two sites finish their third round, of 5 samples each, after 6 s.
    assert expected("workload.batch=5").samples_per_s == pytest.approx(2 * 3 * 5 / 6.0)
    assert expected("workload.batch=5", "stop={time: 5 s}").samples_per_s == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("overrides", "task_s", "window_s"),
    [
        # n2's message takes 0.1 s to the controller at n1, where the task starts after 1.1 s. n1
        # begins at once, and n2 has its last chunk after 2.2 s. n2 begins when it hears, and n1 has
        # its last chunk after 2.3 s. So a round takes 2.2 s, and the first one 0.1 s more.
        ((), 1.2, 3 * 2.2 + 0.1),
        (("stop={tasks: 2}",), 1.2, 3.3),  # the run is told to stop as the last task starts
        (("topology.delays=0 ms",), 1.0, 6.0),
    ],
)
def test_with_delays_messages_and_chunks_take_theirs(overrides, task_s, window_s):
    found = fluid_run.predict(parse(PAIR, "pair.yaml", overrides, 1), delays=True)
    assert (found.task_s, found.window_s) == pytest.approx((task_s, window_s))


@pytest.mark.parametrize(
    ("scatter", "task_s", "window_s"),
    [
        # n1 is ready after one second, n2 after three. Each adds up half of the model; from n1 to
        # n2, which takes twice as long as back, go one half's originals and the other's results.
        ("blocking", 2.0, 5.0),
        # The originals are there before n2 is ready. What n1 adds arrives there every 0.1 s, and
        # every 0.2 s of five results one is with n2.
        ("non-blocking", 1.1, 4.1),
    ],
)
def test_a_non_blocking_scatter_uses_the_time_of_waiting(scatter, task_s, window_s):
    found = expected(
        "topology.rates={n1: {n2: 4 Mbit/s}, n2: {n1: 8 Mbit/s}}",
        "workload.slowdown={n2: 3.0}",
        f"scheme={{policy: bsp, plan: crew, split: even, chunk: 100 kB, scatter: {scatter}}}",
        "stop={rounds: 1}",
    )
    assert (found.task_s, found.window_s) == pytest.approx((task_s, window_s))


def test_without_a_barrier_a_site_joins_a_task_that_began_while_its_message_was_under_way():
    """Both sites are ready after 1 s, and n2's message takes 0.1 s to the controller at n1."""
    events = fluid_run.predict_events(parse(PAIR, "pair.yaml", ("scheme.barrier=false",), 1))
    started = [event for event in events if isinstance(event, TaskStarted)]
    ended = [event for event in events if isinstance(event, TaskFinished)]
    assert len(started) == 3 and len(ended) == 6
    assert len({(event.site, event.task) for event in ended}) == 6


def test_without_a_barrier_a_task_starts_with_its_first_member_and_waits_for_the_others():
    # n1 is ready after one second and sends at once; n2 is ready and sends after three.
    slow = ("workload.slowdown={n2: 3.0}", "stop={rounds: 1}")
    assert expected(*slow).task_s == pytest.approx(1.0)
    found = expected(*slow, "scheme.barrier=false")
    assert (found.task_s, found.window_s) == pytest.approx((3.0, 4.0))


def test_links_change_as_the_timeline_says_from_the_first_task_on():
    # The first task starts after 1 s and takes 1 s; the second starts after 3 s, when the link has
    # a quarter of its rate. It has half of its rate again 2 s later, for the half that is left.
    found = expected(
        "timeline=[{at: 1500 ms, do: setlink n1 n2 rate=2 Mbit/s for 2500 ms},"
        "{at: 4 s, do: setlink n1 n2 rate=4 Mbit/s}]",
        "stop={rounds: 2}",
    )
    assert (found.task_s, found.window_s) == pytest.approx(((1 + 3) / 2, 1 + 1 + 1 + 3))


def test_links_that_change_for_ever_do_not_keep_a_run_from_ending():
    drawn = "timeline=[{at: 0 s, do: 'redraw rate=4..8 Mbit/s every 500 ms'}]"
    found = expected(drawn)
    assert 6.0 < found.window_s < 9.0
    assert expected(drawn) == found != expected(drawn, seed=2)
    assert expected(drawn, "stop={time: 3 s}").rounds == 1.0


def test_the_model_knows_auxiliary_paths():
    # Around n3 there and back, beside what goes straight.
    overrides = (
        "topology.sites=3",
        "topology.overrides=[{link: n1 <-> n2, rate: 1 Mbit/s}]",
        "scheme={policy: bsp, plan: star, server: n1, chunk: 100 kB}",
        "stop={rounds: 1}",
    )
    assert expected(*overrides).task_s == pytest.approx(8.8)
    assert expected(*overrides, "scheme.auxiliary={}").task_s < 0.75 * 8.8


def test_plans_by_measured_rates_follow_a_link_that_becomes_slow():
    # From the second task on n1 -> n2 has an eighth of its rate. Around n3 it takes no longer than
    # what n3 -> n2 has to carry anyway.
    overrides = (
        "topology.sites=3",
        "timeline=[{at: 1 s, do: setlink n1 -> n2 rate=1 Mbit/s}]",
        "stop={rounds: 4}",
    )
    lite, std = (
        expected(*overrides, f"scheme={{name: netstorm-{stage}, chunk: 100 kB, update: 1 s}}")
        for stage in ("lite", "std")
    )
    assert std.task_s < 0.6 * lite.task_s


def test_the_seed_alone_decides():
    drawn = ("topology.rates=n2", "workload.compute=t1", "stop={time: 5 s}")
    assert expected(*drawn) == expected(*drawn)
    assert expected(*drawn) != expected(*drawn, seed=2)


@pytest.mark.parametrize(
    "unknown", ["timeline=[{at: 1 s, do: outage n1 n2}]", "stop={accuracy: 90 %}"]
)
def test_what_the_model_does_not_know_it_does_not_say(unknown):
    overrides = ("workload={kind: training}",) if "accuracy" in unknown else ()
    assert expected(*overrides, unknown) is None


def test_groups_of_a_run_mix_models_as_their_order_says():
    scenario = ROOT / "scenarios/paper/p-reduce/theory.yaml"

    def rho(*overrides):
        return fluid_run.predict(load(scenario, ["stop.tasks=200", *overrides], 1)).rho

    assert rho("scheme.p=3") == 0.0
    assert rho() == pytest.approx(0.5, abs=0.05)
    # The slow site is ready just before the others' second round, or just after it.
    assert rho("workload.slowdown={n3: 1.9}") == pytest.approx(0.625, abs=0.01)
    assert rho("workload.slowdown={n3: 2.1}") == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("history", [3, 4, 12])
def test_the_shipped_scenario_freezes_without_the_group_filter_and_not_with_it(history):
    scenario = ROOT / "scenarios/frozen_groups.yaml"
    assert fluid_run.predict(load(scenario)).rho == 1.0
    found = fluid_run.predict(
        load(scenario, ["scheme.group_filter=true", f"scheme.history={history}"])
    )
    assert 0 < found.rho < 0.95


AVERAGES = """
from dataclasses import replace
from trunkline.policy import Ready, average

class Averages:
    initial = None

    def __init__(self, servers):
        self.servers = servers

    def step(self, state, event):
        if not isinstance(event, Ready):
            return state, ()
        start = average((event.site, *self.servers))
        return state, (replace(start, passive=frozenset(self.servers)),)

def create(sites, *, servers):
    return Averages(servers)
"""


def test_tasks_in_which_a_server_averages_its_model_have_no_rho(tmp_path):
    (tmp_path / "averages.py").write_text(AVERAGES)
    text = PAIR.replace("policy: bsp, plan: a2a", "policy: averages.py, plan: ps")
    (tmp_path / "s.yaml").write_text(text)
    found = fluid_run.predict(load(tmp_path / "s.yaml"))
    assert math.isnan(found.rho)
    # A second to compute, one to send the model, and a tenth for the last chunk's way back.
    assert found.update_s == pytest.approx(2.1)


WINDOWS = """
import math
from dataclasses import dataclass
from trunkline.policy import Ended, Left, Lost, Ready, Proceed, Tick, Wake, average

@dataclass(frozen=True)
class Windows:
    timed = True
    every_s: float
    after_s: float
    initial: frozenset = frozenset()

    def step(self, state, event):
        match event:
            case Ready(site):
                following_s = (math.floor(event.at_s / self.every_s) + 1) * self.every_s
                return state | {site}, (Wake(following_s),)
            case Left(site) | Lost(site):
                return state - {site}, ()
            case Ended():
                return state, (Wake(event.at_s + self.after_s),)
            case Tick() if state:
                group = tuple(sorted(state))
                return frozenset(), (average(group) if len(group) > 1 else Proceed(*group),)
        return state, ()

def create(sites, *, every_s: float = 1.0, after_s: float = 1000.0):
    return Windows(every_s, after_s)
"""

WINDOWED = """
topology: {builder: full_mesh, sites: 3, rates: 1 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 16 kB, compute: 0.3 s, slowdown: {n2: 1.5, n3: 4.0}}
scheme: {policy: windows.py, plan: a2a, chunk: 1 KiB}
stop: {rounds: 3}
"""


@pytest.fixture
def windowed(tmp_path):
    """A scenario with a policy whose tasks start at multiples of a second."""
    (tmp_path / "windows.py").write_text(WINDOWS)
    (tmp_path / "windowed.yaml").write_text(WINDOWED)
    return lambda *overrides: load(tmp_path / "windowed.yaml", overrides)


def test_what_a_policy_starts_at_its_ticks_starts_then_in_the_model_and_in_a_run(windowed):
    policy = windowed().scheme.policy.module.create(("n1", "n2", "n3"))
    wan = Wan(mesh(("n1", "n2", "n3")), "a2a", policy, tasks=5)
    wan.compute_s = {"n1": 0.3, "n2": 0.45, "n3": 1.2}
    wan.run()
    started_s = [event["t_ns"] / 1e9 for event in wan.of("task_started")]
    predicted = [fluid_run.predict(windowed(f"stop={{tasks: {n}}}")) for n in range(1, 6)]
    assert [each.window_s for each in predicted] == started_s == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_model_tells_a_policy_of_the_end_of_its_task(windowed):
    # n1 and n2 begin at 1 s; each sends its model of 16 kB in 0.128 s. Both are ready again before
    # 1.628 s, when the policy has waited half a second after the end.
    started = ("scheme.every=1 s", "scheme.after=500 ms", "stop={tasks: 2}")
    found = fluid_run.predict(windowed(*started))
    assert (found.task_s, found.window_s) == pytest.approx((0.128, 1.628))


def test_a_wake_after_the_last_round_does_not_make_the_run_longer(windowed):
    assert fluid_run.predict(windowed()).window_s < 10.0
    assert fluid_run.predict(windowed("stop={time: 4 s}")).window_s == 4.0


@pytest.mark.parametrize(
    "later", [("scheme.rates=measured", "scheme.update=50 s"), ("timeline=[{at: 50 s, do: %s}]",)]
)
def test_what_links_do_after_the_last_round_does_not_make_the_run_longer(later):
    found = expected(*(each.replace("%s", "setlink n1 n2 rate=1Mbit/s") for each in later))
    assert (found.rounds, found.window_s) == pytest.approx((3.0, 6.0))


def test_pushes_and_pulls_take_the_time_of_the_slower_side():
    found = expected(
        "topology.sites=3",
        "topology.access=[{sites: [n1], up: 8 Mbit/s, down: 4 Mbit/s}]",
        "scheme={name: ps-bsp, servers: [n1], chunk: 100 kB}",
    )
    # Two updates of 1 MB enter at 4 Mbit/s, two models leave at 8 Mbit/s.
    assert (found.push_s, found.pull_s) == pytest.approx((4.0, 2.0), rel=0.06)
    assert found.update_s == pytest.approx(found.window_s / 3)
    assert found.zero_gaps_percent == pytest.approx(100 * 3 / 5)  # two updates in each of 3 rounds
    assert math.isnan(expected().push_s) and math.isnan(expected().pull_s)


def layered(plan):
    return expected(
        "workload={kind: layered, table: vgg-19, size_factor: 0.001, batch: 64}",
        "scheme={policy: ps, servers: [n1], chunk: 100 kB}",
        f"scheme.plan={plan}",
    )


def test_branches_are_computed_while_the_model_arrives():
    model = load_table("vgg-19").resized(0.001).scaled(64)
    now_s = sent_s = 0.0
    for branch in model.branches:  # at 1 MB/s, one after the other
        sent_s += branch.parameter_bytes / 1e6
        now_s = max(now_s, sent_s) + branch.forward_s
    pulled_s = model.parameter_bytes / 1e6
    assert pulled_s < now_s < pulled_s + model.forward_s
    for plan in ("ps", "overlap", "owl"):
        found = layered(plan)
        step_s = now_s + model.backward_s
        assert (found.pull_s, found.step_s) == pytest.approx((pulled_s, step_s))
        stalled_s = now_s - model.forward_s
        assert found.stall_percent == pytest.approx(100 * stalled_s / step_s)
        # The first of three iterations has its parameters, and the last pull begins none.
        computed_s = model.forward_s + model.backward_s
        assert found.window_s == pytest.approx(computed_s + 2 * step_s + 4 * pulled_s)


def test_a_whole_message_can_be_computed_when_all_of_it_has_arrived():
    model = load_table("vgg-19").resized(0.001).scaled(64)
    step_s = model.parameter_bytes / 1e6 + model.forward_s + model.backward_s
    assert layered("naive").step_s == pytest.approx(step_s)
    assert math.isnan(expected().step_s) and math.isnan(expected().stall_percent)


def test_a_round_of_one_group_is_an_update_although_servers_keep_nothing():
    found = expected("topology.sites=3", "scheme={name: fl-bsp, servers: [n1], chunk: 100 kB}")
    assert found.update_s == pytest.approx(found.window_s / 3)


def test_a_site_that_is_excluded_does_no_more_rounds(tmp_path):
    (tmp_path / "strict.py").write_text(
        "from trunkline.policy import Exclude, Proceed, Ready\n\n\n"
        "class Strict:\n"
        "    initial = ()\n\n"
        "    def step(self, state, event):\n"
        "        if not isinstance(event, Ready):\n"
        "            return state, ()\n"
        "        leaves = event.site == 'n2' and event.iteration == 1\n"
        "        return state, (Exclude(event.site) if leaves else Proceed(event.site),)\n\n\n"
        "def create(sites):\n"
        "    return Strict()\n"
    )
    file = tmp_path / "strict.yaml"
    file.write_text(PAIR.replace("policy: bsp", "policy: strict.py"))
    found = fluid_run.predict(load(file))
    assert found.rounds == (3 + 1) / 2
