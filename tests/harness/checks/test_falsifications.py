"""A verdict notices every falsified log: with faults, servers or branches, without, of programs.

Each of the eight runs is a real one; in two of them all agents share a process. `falsified` has the
ways to falsify its log.
"""

from __future__ import annotations

import bisect
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from falsified import FALSIFICATIONS, Log, NotHereError, Original
from falsified.falsifying import Line
from inside import run_all

from trunkline.agents.events import event_reading
from trunkline.agents.events.event import Event
from trunkline.harness.checks.expectations.expectation_checks import list_checks
from trunkline.harness.checks.judging import CHECKS, PROGRAM_CHECKS, judge
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.record.history import History
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.harness.scenario.settings import Scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"

PROGRAMS = """
name: programs
topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s, delays: 20 ms}
workload:
  kind: program
  folder: programs
  preload: [torch.distributed]
  time_calls: true
  programs:
    member: {command: [python3, gloo_allreduce.py, --megabytes, 0.2, --rounds, 16]}
    light:
      sites: [n1, n3]
      command: [sh, -c, 'echo on; sleep 1; exit 3']
      start: 200 ms
      ready: {line: on}
      exit: [3]
      restart: {after: 100 ms, at_most: 1}
    shade: {sites: [n2], command: [sleep, 1], after: [light]}
stop: {exit: all}
background:
- {src: n1, dst: n3, rate: 2 Mbit/s}
- {src: n3, dst: n1, kind: tcp, rate: 4 Mbit/s, size: 40 kB}
capture: {links: [n1-n2, n3 -> n1]}
expect:
- {tasks: 16}
- {output: 'all-reduce 15: ([0-9.]+) s', at_most: 60, sites: [n1]}
- {carried: 100 kB, link: n1-n2}
timeline:
- {at: 400 ms, do: setlink n1 n2 rate=20 Mbit/s for 400 ms}
- {at: 500 ms, do: kill n2.shade for 200 ms}
- {at: 500 ms, do: pause n1.light for 100 ms}
- {at: 700 ms, do: leave n3.light for 100 ms}
"""

SERVERS = """
name: servers
seed: 3
topology: {builder: full_mesh, sites: 4, rates: [10 Mbit/s, 20 Mbit/s], delays: [5 ms, 20 ms]}
workload: {kind: synthetic, model: 100 kB, compute: [0.1 s, 0.5 s]}
scheme: {policy: ps, plan: ps, mode: asp, servers: [n1, n3], momentum: 0.5, chunk: 8 KiB}
controller: {site: n2}
stop: {rounds: 20}
agents: {per_process: all}
timeline:
- {at: 1.1 s, do: kill n3 for 500 ms}
- {at: 3 s, do: outage n3 n4 for 700 ms}
- {at: 5 s, do: kill n2 for 1 s}
"""

LAYERS = """
name: layers
topology: {builder: racks, racks: 1, sites_per_rack: 3, intra_rate: 20 Mbit/s, server: true}
workload: {kind: layered, table: dfn, size_factor: 0.002, batch: 64, compute_factor: [0.8, 1.2]}
scheme: {policy: ps, plan: ps, servers: [server], chunk: 4 KiB}
stop: {rounds: 14}
timeline:
- {at: 1.8 s, do: kill r1n2 for 500 ms}
"""

TARGET = """
name: target
seed: 2
topology: {builder: full_mesh, sites: 4, rates: 100 Mbit/s, delays: 5 ms}
workload: {kind: training, channels: 2, hidden: 16, local_steps: 4, compute: [80 ms, 120 ms]}
scheme: {policy: preduce, plan: ring, p: 2, chunk: 4 KiB}
stop: {accuracy: 60 %, in_a_row: 2, time: 20 s}
evaluation: {every: 300 ms}
timeline:
- {at: 400 ms, do: kill n3 for 500 ms}
"""

CANNOT_BE_KNOWN = {
    "without faults": set[str](),
    "with faults": set[str](),
    "with early contributions": {
        # What a site forwards before it knows the task is not all in its report.
        "forwarded_payload_arrives_when_it_is_reported",
        # A site without a controller forgets offers, so its later tasks are judged within bounds.
        "last_received_is_missing",
    },
    "with servers": {
        # The links of its halted tasks had faults, so anything may have been lost there.
        "nothing_arrives_in_halted_tasks"
    },
    "in layers": {
        # Its only halted task ended 0.2 s after its start: bytes may have been under way.
        "half_arrives_in_halted_tasks",
        "nothing_arrives_in_halted_tasks",
        # No plan uses the lost link, and the run stops before the controller must have heard of it.
        "a_controller_starts_tasks_without_hearing_of_losses",
    },
    "with a target": {
        # No faults touched a link, and the site was lost for its whole task.
        "a_controller_starts_tasks_without_hearing_of_losses",
        "nothing_arrives_in_halted_tasks",
        # Models that are trained have no closed form, and their sums are judged by fingerprints.
        "all_members_have_the_same_wrong_result",
    },
    "without progress": {
        "a_controller_starts_tasks_without_hearing_of_losses",
        "nothing_arrives_in_halted_tasks",
        "all_members_have_the_same_wrong_result",
    },
    "of programs": {
        # Programs say how many tasks they have, and how long these take.
        "all_times_are_doubled",
        "the_last_task_is_missing",
        "one_iteration_takes_half_its_time",
        "computing_takes_one_nanosecond",
        # What comes after a program needs it to be ready once.
        "last_program_ready_is_missing",
        # Processes of programs may delay the runner.
        "a_killed_agent_exits_ten_milliseconds_late",
        "the_run_ends_100_milliseconds_late",
    },
}
"""What no log can show, by the kind of the run."""

CUTS = 12
"""Every log is also judged as if a user had interrupted the run, at one time less than this."""

LEAST = {
    "without faults": 130,
    "with faults": 180,
    "with early contributions": 180,
    "with servers": 200,
    "in layers": 220,
    "with a target": 150,
    "without progress": 150,
    "of programs": 130,
}
"""How many of the falsifications a log allows at least."""


GUESTS = (
    ("with early contributions", "with faults", "without faults"),
    ("with servers", "in layers", "of programs", "with a target", "without progress"),
)
"""The runs of each guest, in their order."""


@pytest.fixture
def runs(embedded, make_once) -> Path:
    """The folders of all runs."""

    def record(home: Path) -> None:
        for name in LEAST:
            (home / name / "log").mkdir(parents=True)
            (home / name / "resolved.yaml").write_text(resolve(read_scenario(name)))
        for names in GUESTS:
            done = embedded.call(run_all, str(home), [*names], visible=[home], memory_mb=4096)
            assert done == {"codes": dict.fromkeys(names, 0), "left": []}

    return make_once(record)


@pytest.mark.parametrize("name", LEAST)
def test_every_falsified_log_is_noticed(name, runs):
    rules = Rules.of(load(runs / name / "resolved.yaml"))
    log = [json.loads(line) for line in (runs / name / "events.jsonl").read_text().splitlines()]
    original = Original(log)
    events = event_reading.read(map(json.dumps, log))
    verdict = judge(History.of(events), rules)
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    judge_first = FirstNotice(rules, original, events)
    noticed = {
        each: judge_first.is_noticed(each, falsified)
        for each in FALSIFICATIONS
        if (falsified := falsify(each, original)) is not None
    }
    assert original.is_whole()
    unseen = {each for each, was_noticed in noticed.items() if not was_noticed}
    assert unseen - CANNOT_BE_KNOWN[name] == set()
    assert len(noticed) >= LEAST[name]
    for part in range(1, CUTS):
        cut = interrupt(events, log[-1], part * log[-1]["t_ns"] // CUTS)
        found = judge(History.of(cut), rules)
        assert found.outcome == "unknown", (part, found.problems)


def read_scenario(name: str) -> Scenario:
    """The scenario of a log, by its name in LEAST."""
    files = {
        "without faults": (SCENARIOS / "exact_sums.yaml", ("stop.tasks=6",), 1),
        "with faults": (SCENARIOS / "soak/mesh.yaml", (), 31),
        "with early contributions": (
            SCENARIOS / "soak/mesh.yaml",
            ("scheme.scatter=non-blocking", "agents.per_process=all"),
            31,
        ),
    }
    if name in files:
        path, changes, seed = files[name]
        return parse(path.read_text(), str(path), changes, seed)
    texts = {
        "with servers": SERVERS,
        "in layers": LAYERS,
        "of programs": PROGRAMS,
        "with a target": TARGET,
        "without progress": TARGET.replace("accuracy: 60 %, in_a_row: 2", "without_progress: 2"),
    }
    return parse(texts[name], str(SCENARIOS / "x.yaml"))


def interrupt(events: Sequence[Event], last: Line, t_ns: int) -> list[Event]:
    """What the same run would log if a user had ended it by Ctrl-C at this time."""
    cause = {"failures": [], "interrupted": True, "type": "broken"}
    end = event_reading.parse(json.dumps(last | {"t_ns": t_ns, "cause": cause}))
    return [*events[: bisect.bisect_right(events, t_ns, key=lambda event: event.t_ns)], end]


def falsify(name: str, original: Original) -> Log | None:
    """The falsified log; None if this log has nothing of the kind."""
    try:
        return original.falsify(name)
    except NotHereError:
        return None


NOTICED_BY: dict[str, str] = {}
"""The check that noticed a falsification in the latest of the runs that were judged here."""


class FirstNotice:
    """Tells whether the verdict on a log is not `pass`: the first check that notices it suffices.

    Any order of the checks gives the same answer. The check that noticed the same falsification of
    another run comes first, then the one that noticed the falsification before, as those of a kind
    follow each other, then those that took the least time for each log that they noticed. Lines
    that were not changed are `events` of the original, in its order.
    """

    def __init__(self, rules: Rules, original: Original, events: Sequence[Event]) -> None:
        self.rules, self.original, self.events = rules, original, events
        self.checks = dict(CHECKS if rules.programs is None else PROGRAM_CHECKS)
        self.checks |= {name: tuple(rest) for name, *rest in list_checks(rules, {})}
        self.latest = next(iter(self.checks))
        self.took_s = dict.fromkeys(self.checks, 0.0)
        self.noticed = dict.fromkeys(self.checks, 0)

    def is_noticed(self, falsification: str, log: Log) -> bool:
        try:
            history = History.of(self.read(log))
        except ValueError:
            return True
        earlier = NOTICED_BY.get(falsification)
        for name in sorted(self.checks, key=lambda name: (name != earlier, self.price(name))):
            start_s = time.process_time()
            was_noticed = self.notices(name, history)
            self.took_s[name] += time.process_time() - start_s
            if was_noticed:
                self.noticed[name] += 1
                self.latest = NOTICED_BY[falsification] = name
                return True
        return False

    def price(self, name: str) -> float:
        """What a check has cost so far for each log that it noticed; 0 for the latest to notice."""
        if name == self.latest:
            return 0.0
        return (self.took_s[name] + 1e-3) / (self.noticed[name] + 0.5)

    def notices(self, name: str, history: History) -> bool:
        """Whether a check does not pass; one that raises an exception fails."""
        objects, check = self.checks[name]
        try:
            found = Check.of(name, objects, check(history, self.rules))
        except Exception:
            return True
        return found.outcome in ("fail", "unknown")

    def read(self, log: Log) -> Iterator[Event]:
        """The events of a log; of equal lines each has an object of its own."""
        seen = set()
        for line in log:
            number = self.original.number_of(line)
            if number is None or number in seen:
                yield event_reading.parse(json.dumps(line))
            else:
                seen.add(number)
                yield self.events[number]
