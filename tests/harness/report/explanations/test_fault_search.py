"""Which of several faults is behind a loss: by path, by time, and by what it did."""

from dataclasses import replace

import pytest

from trunkline.agents.events.causes import LinkBroke, LostAlone, NoCandidate, SiteLost, SiteWithdrew
from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    ControllerLost,
    LinkLost,
    WorkerLost,
)
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.task_events import TaskJoined, TaskStarted
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

SITES = ("de", "fr", "it", "uk")
MESH = Topology(
    "mesh",
    tuple(Site(name) for name in SITES),
    tuple(Link(a, b, 10.0) for a in SITES for b in SITES if a != b),
)
STAR = Topology(
    "star",
    tuple(Site(name) for name in SITES),
    tuple(Link(*ends, 10.0) for site in SITES for ends in ((site, "hub"), ("hub", site))),
    ("hub",),
)
MS = 1_000_000
FOREST = Plan(("de", "fr"), ("de", "fr"), 0, ()).to_json()
SPAN = (1000 * MS, 3000 * MS)


def fault(number: int, text: str, *targets: str, at_ms: int, end_ms: int | None) -> list[Event]:
    """A fault from `at_ms` to `end_ms`, or to the end of the log."""
    verb = text.split()[0]
    said: list[Event] = [FaultStarted(at_ms * MS, "runner", number, verb, text, targets)]
    if verb in ("kill", "pause"):
        said.append(AgentChanged(at_ms * MS, "runner", targets[0], verb, number))
    if end_ms is not None:
        said.append(FaultEnded(end_ms * MS, "runner", number))
    return said


def both(a: str, b: str) -> tuple[str, str]:
    return f"{a} -> {b}", f"{b} -> {a}"


def search(*said: list[Event], topology: Topology = MESH, detection_ms: int = 500) -> FaultSearch:
    events = sorted((event for each in said for event in each), key=lambda event: event.t_ns)
    end = FaultEnded(9000 * MS, "runner", 99)
    return FaultSearch(History.of([*events, end]), topology, "de", detection_ms * MS)


STARTED = TaskStarted(1000 * MS, "controller", 7, "", "", ("de", "fr"), {}, 1.0, 0, 0, FOREST)
TASK = History.of([STARTED]).tasks[0]
KILL_FR = fault(0, "kill fr for 6 s", "fr", at_ms=1500, end_ms=7500)


def test_a_site_that_was_killed_is_not_lost_by_a_short_cut_of_another_link() -> None:
    cut = fault(1, "outage fr uk for 5 ms", *both("fr", "uk"), at_ms=1505, end_ms=1510)
    assert search(KILL_FR, cut).find_behind(SiteLost("fr"), ("controller",), SPAN) == 0
    way = fault(1, "outage fr de for 5 ms", *both("fr", "de"), at_ms=1505, end_ms=1510)
    assert search(KILL_FR, way).find_behind(SiteLost("fr"), ("controller",), SPAN) == 0


def test_a_site_is_lost_by_a_cut_of_its_way_and_not_by_one_of_another_link() -> None:
    other = fault(0, "outage fr uk for 9 s", *both("fr", "uk"), at_ms=1200, end_ms=None)
    assert search(other).find_behind(SiteLost("fr"), (), SPAN) is None
    said = search(other).describe(SiteLost("fr"), None, TASK)
    assert said == "fr is lost, and no fault explains it"
    way = fault(1, "outage fr de for 1 s", *both("fr", "de"), at_ms=1500, end_ms=2500)
    assert search(other, way).find_behind(SiteLost("fr"), (), SPAN) == 1


def test_of_cuts_at_once_the_one_that_was_there_for_most_of_the_silence_is_behind_a_loss() -> None:
    first = fault(0, "outage fr de for 3 s", *both("fr", "de"), at_ms=1300, end_ms=4300)
    second = fault(1, "outage fr de for 3 s", *both("fr", "de"), at_ms=1900, end_ms=4900)
    lost: list[Event] = [LinkLost(2000 * MS, "de", "fr", "fr was silent for 0.5 s")]
    assert search(first, second, lost).find_behind(LinkBroke(("fr", "de")), (), SPAN) == 0


def test_the_way_of_a_site_leads_through_routers() -> None:
    cut = fault(0, "outage fr hub for 1 s", *both("fr", "hub"), at_ms=1500, end_ms=2500)
    found = search(cut, topology=STAR)
    assert found.find_behind(SiteLost("fr"), (), SPAN) == 0
    assert found.find_behind(LinkBroke(("fr", "uk")), (), SPAN) == 0
    assert found.find_behind(LinkBroke(("it", "uk")), (), SPAN) is None


def test_two_sites_lose_each_other_by_their_link_or_a_stop_of_one() -> None:
    cut = fault(0, "outage fr uk for 1 s", *both("fr", "uk"), at_ms=1500, end_ms=2500)
    other = fault(1, "outage fr it for 1 s", *both("fr", "it"), at_ms=1600, end_ms=2500)
    assert search(cut, other).find_behind(LinkBroke(("fr", "uk")), (), SPAN) == 0
    assert search(cut, other).find_behind(NoCandidate(LinkBroke(("uk", "fr"))), (), SPAN) == 0
    assert search(cut, other).find_behind(LostAlone("it"), ("fr",), SPAN) == 1
    pause = fault(2, "pause uk for 1 s", "uk", at_ms=1400, end_ms=2400)
    assert search(cut, pause).find_behind(LinkBroke(("fr", "uk")), (), SPAN) == 2


def test_a_loss_that_is_in_the_log_has_a_fault_shortly_before_it() -> None:
    """A fault that was over long before did not do it, however long it lasted."""
    early = fault(0, "pause fr for 4 s", "fr", at_ms=1100, end_ms=5100)
    late = fault(1, "pause uk for 1 s", "uk", at_ms=8000, end_ms=9000)
    lost = LinkLost(8400 * MS, "fr", "uk", "uk was silent for 0.4 s")
    found = search(early, late, [lost])
    assert found.find_behind(LinkBroke(("uk", "fr")), (), (1000 * MS, 8500 * MS)) == 1
    gone = WorkerLost(8450 * MS, "controller", "uk", "silent")
    assert search(early, late, [gone]).find_behind(SiteLost("uk"), (), (0, 8500 * MS)) == 1


def test_a_kill_that_was_noticed_at_once_is_behind_a_loss_and_not_a_longer_pause_before() -> None:
    pause = fault(0, "pause fr for 700 ms", "fr", at_ms=5527, end_ms=6227)
    kill = fault(1, "kill fr for 500 ms", "fr", at_ms=8527, end_ms=9000)
    gone = WorkerLost(8545 * MS, "controller", "fr", "fr closed the connection")
    found = search(pause, kill, [gone], detection_ms=11_000)
    assert found.find_behind(SiteLost("fr"), (), (8498 * MS, 8545 * MS)) == 1


def test_a_connection_that_broke_at_once_is_the_kills_also_while_a_pause_lasts() -> None:
    pause = fault(0, "pause fr for 3 s", "fr", at_ms=1200, end_ms=4200)
    kill = fault(1, "kill fr", "fr", at_ms=1980, end_ms=None)
    cause, span = LinkBroke(("de", "fr")), (1000 * MS, 2000 * MS)
    broke = LinkLost(2000 * MS, "de", "fr", "fr closed the connection")
    for reason in (broke.reason, "[Errno 104] Connection reset by peer"):
        found = search(pause, kill, [replace(broke, reason=reason)])
        assert found.find_behind(cause, (), span) == 1
        assert found.find_silence_s(cause, 0, span) == 0.0
    silent = replace(broke, reason="fr was silent for 0.5 s")
    assert search(pause, kill, [silent]).find_behind(cause, (), span) == 0
    assert search(pause, kill, [silent]).find_silence_s(cause, 0, span) > 0.0


def test_a_site_is_lost_on_its_way_to_the_backup_while_that_acts() -> None:
    cut = fault(0, "outage fr uk for 1 s", *both("fr", "uk"), at_ms=1500, end_ms=2500)
    took_over = BackupTookOver(1200 * MS, "backup")
    backed = replace(search(cut, [took_over]), backup_site="uk")
    assert backed.find_behind(SiteLost("fr"), (), SPAN) == 0
    back = BackupStoodDown(1300 * MS, "backup")
    again = replace(search(cut, [took_over, back]), backup_site="uk")
    assert again.find_behind(SiteLost("fr"), (), SPAN) is None
    assert replace(search(cut), backup_site="uk").find_behind(SiteLost("fr"), (), SPAN) is None
    second = replace(took_over, t_ns=1400 * MS)
    acting = replace(search(cut, [took_over, back, second]), backup_site="uk")
    assert acting.find_behind(SiteLost("fr"), (), SPAN) == 0


def test_the_end_of_a_kill_is_no_harm() -> None:
    restart = [
        *fault(1, "restart fr", "fr", at_ms=2000, end_ms=2000),
        AgentChanged(2000 * MS, "runner", "fr", "restart", 1),
    ]
    killed = fault(0, "kill fr", "fr", at_ms=1500, end_ms=2000)
    assert search(killed, restart).find_behind(SiteLost("fr"), (), SPAN) == 0
    assert search(restart).find_behind(SiteLost("fr"), (), SPAN) == 1


def test_a_redraw_acts_on_the_links_that_it_changes_only() -> None:
    flap = fault(0, "flap fr de", *both("fr", "de"), at_ms=1200, end_ms=None)
    redraw = fault(1, "redraw rate=1..10", at_ms=1500, end_ms=1500)
    change = LinkChanged(1500 * MS + 256, "runner", "it", "uk", 1.0, 0.0, 0.0, 0.0, ())
    found = search(flap, [*redraw, change])
    assert found.find_behind(SiteLost("fr"), (), SPAN) == 0
    assert found.find(["it -> uk"], ("redraw",), *SPAN) == 1
    assert found.find(["fr -> uk"], ("redraw",), *SPAN) is None


@pytest.mark.parametrize(("end_ms", "found"), [(600, 0), (400, None)])
def test_a_fault_that_ended_just_before_is_noticed_within_the_detection_time(
    end_ms: int, found: int | None
) -> None:
    """The task began at 1 s; a loss is noticed within 0.5 s."""
    cut = fault(0, "outage fr de", *both("fr", "de"), at_ms=300, end_ms=end_ms)
    assert search(cut).find_behind(SiteLost("fr"), (), SPAN) == found


@pytest.mark.parametrize(
    ("delay_ms", "cause", "found"),
    [(60.3, SiteLost("fr"), None), (300.0, SiteLost("fr"), 0), (60.3, None, None), (75.0, None, 0)],
)
def test_a_delay_that_hardly_grows_is_behind_nothing(delay_ms, cause, found) -> None:
    """Agents miss no one whose delay grows by 0.2 s or less; a wait must be as long as it grows."""
    far = replace(MESH, links=tuple(replace(link, delay_ms=60.0) for link in MESH.links))
    set_link = fault(0, "setlink fr de delay=1ms", *both("fr", "de"), at_ms=1500, end_ms=None)
    change = LinkChanged(1500 * MS + 256, "runner", "fr", "de", 10.0, delay_ms, 0.0, 0.0, ())
    searched = search([*set_link, change], topology=far)
    if cause is None:
        grown = lambda before_ms, after_ms: after_ms - before_ms > 10  # noqa: E731
        assert searched.find_behind(None, ("fr",), SPAN, grown) == found
    else:
        assert searched.find_behind(cause, ("fr",), SPAN) == found


def test_a_fault_that_changes_more_than_a_delay_is_not_measured_by_it() -> None:
    set_link = fault(0, "setlink fr de loss=1%", *both("fr", "de"), at_ms=1500, end_ms=None)
    change = LinkChanged(1500 * MS, "runner", "fr", "de", 10.0, 0.0, 0.0, 1.0, ())
    assert search([*set_link, change]).find_behind(SiteLost("fr"), (), SPAN) == 0


def test_a_lost_site_that_is_no_member_of_the_task_helped_with_it() -> None:
    lost = NoCandidate(SiteLost("it"))
    said = "it, which helped with it, is lost, and no other member reaches the whole group"
    assert search(KILL_FR).describe(lost, 0, TASK) == said


def test_a_site_that_takes_no_part_in_a_task_had_not_heard_of_it_or_had_done_its_rounds() -> None:
    cut = fault(0, "outage fr de for 4 s", *both("fr", "de"), at_ms=900, end_ms=4900)
    pause = fault(1, "pause fr for 4 s", "fr", at_ms=900, end_ms=4900)
    withdrew = SiteWithdrew("fr")
    unheard = "fr had not heard of it"
    found = search(cut, pause)
    assert found.describe(withdrew, 0, TASK) == f"{unheard}, cut off from the controller"
    assert found.describe(withdrew, 1, TASK) == found.describe(withdrew, None, TASK) == unheard
    joined = History.of([STARTED, TaskJoined(1100 * MS, "fr", 7)]).tasks[0]
    assert found.describe(withdrew, 0, joined) == "fr takes no part in the task"
    done: list[Event] = [WorkerFinished(950 * MS, "fr", 3)]
    assert search(cut, done).describe(withdrew, 0, TASK) == "fr has done its rounds"
    # The log of a killed agent may lack what it heard.
    dead = fault(2, "kill fr", "fr", at_ms=950, end_ms=None)
    assert search(cut, dead).describe(withdrew, 0, TASK) == "fr takes no part in the task"


@pytest.mark.parametrize(
    ("text", "links", "why"),
    [
        (
            "outage de hub",
            both("de", "hub"),
            ", because the controller, at de, was cut off from all other sites",
        ),
        ("outage fr hub", both("fr", "hub"), ""),
        ("pause de", ("de",), ""),
    ],
)
def test_a_site_that_is_lost_because_the_controller_was_cut_off_says_so(text, links, why) -> None:
    found = search(fault(3, text, *links, at_ms=1200, end_ms=None), topology=STAR)
    started = TaskStarted(
        1000 * MS, "controller", 0, "", "", ("de", "fr"), {}, 1.0, 0, 0, forest=FOREST
    )
    task = next(iter(History.of([started]).tasks))
    assert found.describe(SiteLost("fr"), 3, task) == f"fr is lost{why}"


def test_a_controller_that_lost_one_link_no_longer_heard_one_site() -> None:
    found = search(fault(3, "outage de fr", *both("de", "fr"), at_ms=1200, end_ms=None))
    started = TaskStarted(
        1000 * MS, "controller", 0, "", "", ("de", "fr"), {}, 1.0, 0, 0, forest=FOREST
    )
    task = next(iter(History.of([started]).tasks))
    said = found.describe(SiteLost("fr"), 3, task)
    assert said == "fr is lost, because the controller, at de, no longer heard it"


def test_a_site_that_no_longer_heard_the_controller_and_left_it_is_told_so() -> None:
    """Not so if the controller lost it by silence, or if the site lost the controller before."""

    def describe(alone_ms: int, reason: str) -> str:
        lost = WorkerLost(2000 * MS, "controller", "fr", reason)
        alone = ControllerLost(alone_ms * MS, "fr", "controller was silent for 2.9 s")
        cut = fault(3, "outage de fr", *both("de", "fr"), at_ms=1200, end_ms=None)
        task = replace(TASK, started=replace(STARTED, t_ns=3000 * MS))
        return search(cut, [lost, alone]).describe(SiteLost("fr"), 3, task)

    reset = "Connection reset by peer"
    assert describe(1940, reset) == (
        "fr is lost, because it no longer heard the controller, at de, and left it"
    )
    other = "fr is lost, because the controller, at de, no longer heard it"
    assert describe(500, reset) == describe(1940, "was silent for 2 s") == other


def test_a_site_that_left_because_the_controller_was_stopped_is_the_pauses_loss() -> None:
    """The pause is over when the controller hears of it, and another fault cut the site before."""
    found = search(
        fault(0, "isolate it", *both("it", "de"), at_ms=300, end_ms=700),
        [
            WorkerLost(600 * MS, "controller", "it", "it was silent for 0.25 s"),
            ControllerLost(610 * MS, "it", "controller was silent for 0.25 s"),
        ],
        fault(1, "pause controller", "controller", at_ms=2000, end_ms=2500),
        [
            ControllerLost(2400 * MS, "it", "controller was silent for 0.25 s"),
            WorkerLost(2501 * MS, "controller", "it", "it closed the connection"),
        ],
    )
    assert found.find_behind(SiteLost("it"), (), (2501 * MS, 2600 * MS)) == 1
    assert found.find_behind_silence("it", 2400 * MS) == 1
    assert found.find_behind_silence("it", 610 * MS) == 0
    assert found.find_behind_silence("it", 1500 * MS) is None
