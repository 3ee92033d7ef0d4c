"""Programs start, become ready, end and are started again as the scenario and its faults say."""

from dataclasses import replace

import pytest

from trunkline.agents.events.background_events import BackgroundReceived, BackgroundSent
from trunkline.agents.events.causes import ProgramFailed, ProgramsExited
from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    SyncFinished,
    SyncStarted,
)
from trunkline.agents.events.run_events import (
    AgentExited,
    LinkTotals,
    NetworkReady,
    ProgramReady,
    ProgramsStarted,
    ProgramStarted,
    RunFinished,
    SiteDatagrams,
    Stopping,
)
from trunkline.harness.checks.frame.fault_checks import faults_as_written
from trunkline.harness.checks.frame.stop_checks import run_ends_as_written
from trunkline.harness.checks.programs.lifecycle_checks import programs_lived_as_written
from trunkline.harness.checks.programs.program_checks import (
    programs_exited,
    programs_follow_the_protocol,
    sites_took_part,
    syncs_ended,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import parse

S = 10**9
RULES = Rules.of(
    parse(
        """
name: lives
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload:
  kind: program
  programs:
    server: {sites: [n1], command: ["true"], ready: {port: 80, within: 2 s}, exit: any}
    client:
      command: ["true"]
      after: [server]
      start: {n2: 3 s}
      exit: [0, 4]
      restart: {after: 1 s, at_most: 1}
stop: {exit: [client]}
timeline:
- {at: 4 s, do: kill n2 for 1 s}
- {at: 5.5 s, do: leave n1.server}
- {at: 6 s, do: pause n2.client for 1 s}
""",
        "x.yaml",
    )
)
CHECKS = (
    programs_lived_as_written,
    programs_exited,
    programs_follow_the_protocol,
    syncs_ended,
    faults_as_written,
    run_ends_as_written,
)


@pytest.mark.parametrize(
    ("packets", "with_data", "words"),
    [
        (3, ("n1", "n2"), None),
        (0, (), "n1, n2 took no part"),
        (0, ("n1",), "no timed call (n1 sent data, to themselves or too late to be delivered)"),
        (0, ("n1", "n2"), "no timed call (n1, n2 sent data, to themselves or too late"),
    ],
)
def test_data_that_no_link_has_delivered_when_the_run_ends_does_not_count(
    packets, with_data, words
):
    links = (LinkTotals("n1", "n2", 90 * packets, packets, 0),)
    end = RunFinished(S, "runner", ProgramsExited(("n1",), True), links, (), with_data)
    findings = list(sites_took_part(History.of([end]), RULES))
    assert [each.outcome for each in findings] == ["pass"] + ["unknown"] * bool(words)
    assert (words or "") in findings[-1].text


CROWDED = Rules.of(
    parse(
        """
name: crowded
topology: {builder: full_mesh, sites: 3, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: ["true"]}
background:
- {src: n1, dst: n2, rate: 1 Mbit/s}
- {src: n2, dst: n3, kind: tcp, rate: 1 Mbit/s, size: 40 kB}
""",
        "x.yaml",
    )
)


@pytest.mark.parametrize(
    ("own_bytes", "own_packets", "idle"),
    [(0, 0, "n1, n2, n3"), (60, 1, "n1, n2, n3"), (20_000, 20, "n3")],
)
def test_background_traffic_is_not_the_programs_own(own_bytes, own_packets, idle):
    """Of UDP each packet has 42 bytes of headers, of TCP each segment 66."""
    sent = [
        BackgroundSent(S, "runner", 0, 1472 * 80, 80, 0),
        BackgroundSent(S, "runner", 1, 40_000, 0, 0),
    ]
    links = (
        LinkTotals("n1", "n2", 1514 * 80 + own_bytes, 80 + own_packets, 0),
        LinkTotals("n2", "n3", 40_000 + 28 * 66 + 3 * 1514, 31, 3),
        LinkTotals("n3", "n2", 20 * 66, 20, 0),
    )
    end = RunFinished(2 * S, "runner", ProgramsExited(("n1",), True), links, (), ("n1", "n2"))
    findings = list(sites_took_part(History.of([*sent, end]), CROWDED))
    words = f"{idle} took no part: no packet with data besides background traffic was delivered"
    assert findings[-1].text.startswith(words)


def count(**counts):
    """The packets of UDP at each site of three: sent, received, and refused."""
    given = {site: counts.get(site, (0, 0, 0)) for site in ("n1", "n2", "n3")}
    return tuple(SiteDatagrams(site, *each) for site, each in given.items())


@pytest.mark.parametrize(
    ("datagrams", "bytes_each", "idle"),
    [
        (count(n1=(9, 0, 0), n2=(0, 9, 0)), 60, "n3"),
        (count(n1=(9, 0, 0), n2=(0, 0, 9)), 60, "n1, n2, n3"),
        (count(n1=(9, 0, 0), n2=(0, 0, 9)), 1514, "n1, n2, n3"),
        (count(n1=(9, 0, 0), n2=(0, 0, 8)), 60, "n2, n3"),
        (count(n1=(9, 2, 0), n2=(2, 0, 9)), 60, "n2, n3"),
        # The packet to n1 may say that a port is closed, and n1 have got its own datagram.
        (count(n1=(9, 1, 0), n2=(1, 0, 9)), 60, "n1, n2, n3"),
        (count(n1=(9, 0, 0), n2=(0, 0, 0), n3=(9, 9, 0)), 60, "n2, n3"),
    ],
)
def test_what_finds_no_socket_is_no_sign_that_a_site_took_part(datagrams, bytes_each, idle):
    """Nine packets go from n1 to n2. A port that is closed refuses them, of any size."""
    sent = 10 if datagrams[0].received == 2 else 1
    links = (
        LinkTotals("n1", "n2", 9 * bytes_each, 9, 0),
        LinkTotals("n2", "n1", 90 * sent, sent, 0),
    )
    end = RunFinished(S, "runner", ProgramsExited(("n1",), True), links, (), (), datagrams)
    text = list(sites_took_part(History.of([end]), QUIET))[-1].text
    assert text.startswith(f"{idle} took no part: ")


QUIET = replace(CROWDED, scenario=replace(CROWDED.scenario, background=()))


@pytest.mark.parametrize(("own", "idle"), [(0, "n1, n2, n3"), (2, "n2, n3")])
def test_small_packets_of_a_site_with_background_packets_are_its_programs_own(own, idle):
    """Of UDP the packets of background traffic are known, of TCP they are not."""
    sent = BackgroundSent(S, "runner", 0, 1472 * 80, 80, 0)
    got = BackgroundReceived(S, "runner", 0, 1472 * 80, 80, 0)
    links = (
        LinkTotals("n1", "n2", 1514 * 80 + 60 * own, 80 + own, 0),
        LinkTotals("n2", "n3", 60, 1, 0),
    )
    datagrams = count(n1=(80 + own, 0, 0), n2=(0, 80, 0))
    cause = ProgramsExited(("n1",), True)
    end = RunFinished(2 * S, "runner", cause, links, (), ("n2",), datagrams)
    findings = list(sites_took_part(History.of([sent, got, end]), CROWDED))
    assert findings[-1].text.startswith(f"{idle} took no part: ")


def started(at_s, who, attempt=0):
    return ProgramStarted(round(at_s * S), "runner", who, attempt)


def exited(at_s, who, code=0, signal=0, *, asked=False, fault=None):
    return AgentExited(round(at_s * S), "runner", who, code, signal, fault, asked=asked)


def changed(at_s, who, do, fault):
    return AgentChanged(round(at_s * S), "runner", who, do, fault)


def fault(at_s, number, text, *targets):
    return FaultStarted(round(at_s * S), "runner", number, text.split()[0], text, targets)


END = ProgramsExited(("n1.client", "n2.client"), all=True)
LOG = [
    make_header(RULES.scenario),
    NetworkReady(0, "runner"),
    ProgramsStarted(0, "runner"),
    started(0, "n1.server"),
    ProgramReady(1 * S, "runner", "n1.server", 0),
    started(1, "n1.client"),
    exited(2, "n1.client", 4),
    started(3, "n1.client", 1),
    started(3, "n2.client"),
    SyncStarted(round(3.5 * S), "n2", 0, 8, "push"),
    fault(4, 0, "kill n2 for 1 s", "n2.client"),
    changed(4, "n2.client", "kill", 0),
    exited(4, "n2.client", 0, 9, fault=0),
    changed(5, "n2.client", "restart", 0),
    FaultEnded(5 * S, "runner", 0),
    started(5, "n2.client", 1),
    SyncStarted(round(5.2 * S), "n2", 0, 8, "push"),
    SyncFinished(round(5.3 * S), "n2", 0),
    fault(5.5, 1, "leave n1.server", "n1.server"),
    changed(5.5, "n1.server", "leave", 1),
    exited(5.9, "n1.server", 3, asked=True, fault=1),
    fault(6, 2, "pause n2.client for 1 s", "n2.client"),
    changed(6, "n2.client", "pause", 2),
    changed(7, "n2.client", "resume", 2),
    FaultEnded(7 * S, "runner", 2),
    exited(8, "n1.client", 4),
    exited(9, "n2.client"),
    Stopping(9 * S, "runner", END),
    RunFinished(9 * S, "runner", END, ()),
]
"""A run in which everything happens that can, and all is right."""


def judge(log):
    """What all checks together find wrong."""
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    findings = [finding for check in CHECKS for finding in check(history, RULES)]
    return "; ".join(each.text for each in findings if each.outcome in ("fail", "unknown"))


def place(kind, **values):
    return next(
        number
        for number, event in enumerate(LOG)
        if isinstance(event, kind) and all(getattr(event, k) == v for k, v in values.items())
    )


def without(*numbers):
    return [event for number, event in enumerate(LOG) if number not in numbers]


def with_changed(number, **values):
    return [*LOG[:number], replace(LOG[number], **values), *LOG[number + 1 :]]


def test_a_run_with_restarts_kills_and_pauses_passes():
    assert judge(LOG) == ""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (without(place(ProgramStarted, who="n1.client", attempt=1)), "n1.client was to start at"),
        (without(place(ProgramStarted, who="n2.client", attempt=1)), "n2.client was to start at"),
        (without(place(ProgramReady)), "n1.server, started at 0.000 s, was not ready in time"),
        (
            with_changed(place(ProgramReady), t_ns=round(1.5 * S)),
            "n1.client started at 1.000 s; it was to start at 1.500 s",
        ),
        (
            with_changed(place(ProgramStarted, who="n2.client"), t_ns=round(2.9 * S)),
            "n2.client started at 2.900 s; it was to start at 3.000 s",
        ),
        (
            with_changed(place(ProgramStarted, who="n1.client", attempt=1), attempt=2),
            "n1.client: program_started at 3.000 s as attempt 2; expected 1",
        ),
        (
            with_changed(place(AgentExited, who="n1.client"), code=0),
            "n1.client started at 3.000 s, but was not to start then",
        ),
        (
            with_changed(place(AgentExited, who="n2.client", fault=None), code=5),
            "was said before n2.client had exited for good",
        ),
        (
            with_changed(place(AgentExited, who="n2.client", fault=0), signal=15),
            "exited by signal 15 and code 0; a kill gives 9 and 0",
        ),
        (
            with_changed(place(AgentExited, who="n2.client", fault=0), fault=1),
            "n2.client exited by fault 1, which did not end it",
        ),
        (
            without(place(AgentExited, who="n1.server")),
            "n1.server was asked to leave at 5.500 s, but did not exit then",
        ),
        (
            with_changed(place(AgentExited, who="n1.server"), asked=False),
            "n1.server exited by a leave; it was told to end: False",
        ),
        (
            [*LOG, ProgramReady(2 * S, "runner", "n1.server", 0)],
            "n1.server was ready twice, or before it had started",
        ),
        ([*LOG, started(1, "n9.client")], "n9.client is no program of the scenario"),
        (
            with_changed(place(SyncStarted), t_ns=round(4.5 * S)),
            "n2 reported sync_started at 4.500 s, when no program of it ran",
        ),
        (without(place(AgentChanged, do="resume")), "the resume of n2.client by fault 2 was due"),
        (
            with_changed(place(Stopping), t_ns=round(8.5 * S)),
            "was said before n2.client had exited for good",
        ),
        (
            with_changed(place(Stopping), cause=ProgramFailed()),
            "'a program failed' was said, but none had failed",
        ),
    ],
)
def test_what_is_not_as_written_is_noticed(log, reason):
    assert reason in judge(log)


def test_a_program_that_fails_once_too_often_has_failed():
    said = judge(with_changed(place(AgentExited, who="n1.client"), code=5))
    assert said == ""  # it is started again
    last = max(number for number, each in enumerate(LOG) if getattr(each, "code", None) == 4)
    said = judge(with_changed(last, code=5))
    assert "the program of n1.client exited with code 5 after restart 1 of 1 (restart.at" in said


def test_the_programs_that_did_not_exit_are_named_together():
    exits = [number for number, each in enumerate(LOG) if isinstance(each, AgentExited)]
    said = judge(without(*exits[-3:]))
    assert "the programs at n1.server, n1.client (attempt 1), n2.client (attempt 1) did not" in said


def test_a_step_without_effect_may_be_missing():
    """The program had ended when its fault was due."""
    early = with_changed(place(AgentExited, who="n2.client", fault=None), t_ns=round(5.8 * S))
    gone = [place(AgentChanged, do="pause"), place(AgentChanged, do="resume")]
    assert judge([event for number, event in enumerate(early) if number not in gone]) == ""


def step(begin_s, end_s, process, iteration=0, site="n2"):
    begun = ComputeStarted(round(begin_s * S), site, iteration, None, process)
    if end_s is None:
        return [begun]
    return [begun, ComputeFinished(round(end_s * S), site, iteration, process)]


def test_processes_of_a_site_compute_at_once():
    assert not judge([*LOG, *step(7.1, 7.5, 2), *step(7.2, 7.6, 3)])
    twice = judge([*LOG, *step(7.1, 7.5, 2), *step(7.2, 7.6, 2)])
    assert twice.startswith("n2 computes twice at 7.200 s")
    never = judge([*LOG, *step(7.1, 7.5, 2), *step(7.2, 7.6, 3)[1:]])
    assert never == "n2 had not begun iteration 0, but finished it"


def test_a_process_that_another_one_replaced_need_not_finish_its_step():
    assert not judge([*LOG, *step(7.1, None, 2), *step(7.2, 7.6, 3)])
    assert judge([*LOG, *step(7.1, 7.2, 2), *step(7.3, None, 3)]) == (
        "n2 did not finish iteration 0"
    )


def test_the_programs_that_failed_alike_are_named_together():
    texts = [f"{{command: [x], sites: [n{n}]}}" for n in range(1, 12)]
    programs = ", ".join(f"p{n}: {each}" for n, each in enumerate(texts, 1))
    topology = "{builder: full_mesh, sites: 11, rates: 8 Mbit/s, delays: 10 ms}"
    text = f"topology: {topology}\nworkload: {{kind: program, programs: {{{programs}}}}}\n"
    rules = Rules.of(parse(text, "x.yaml"))
    codes = {f"n{n}.p{n}": 3 for n in range(1, 11)} | {"n11.p11": 4}
    ends = [exited(2, who, code) for who, code in codes.items()]
    ends[:2] = [exited(2, who, 0, 11) for who in ("n1.p1", "n2.p2")]
    log = [make_header(rules.scenario), *(started(0, who) for who in codes), *ends]
    found = [each.text for each in programs_exited(History.of(log), rules)]
    named = "n3.p3, n4.p4, n5.p5, n6.p6, n7.p7, n8.p8 and 2 others"
    assert f"the programs of {named} exited with code 3" in found
    assert "the programs of n1.p1 and n2.p2 were ended by signal 11" in found
    assert "the program of n11.p11 exited with code 4" in found
