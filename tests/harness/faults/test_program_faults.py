"""What faults do to programs: a site's name means all of them, `n1.trainer` means one."""

from test_timeline import TOPOLOGY, S, played, said

from trunkline.harness.faults.fault_syntax import complete, parse
from trunkline.harness.faults.timeline import Entry, Timeline

TARGETS = {
    "a": ("a.server", "a.client"),
    "b": ("b.client",),
    "a.server": ("a.server",),
    "a.client": ("a.client",),
    "b.client": ("b.client",),
}


def timeline(*lines, seed=1):
    cut = (line.partition(": ") for line in lines)
    entries = [Entry(float(at_s), parse(text, TOPOLOGY, targets=TARGETS)) for at_s, _, text in cut]
    return Timeline(TOPOLOGY, entries, seed, TARGETS)


def test_a_kill_of_a_site_kills_all_of_its_programs_and_starts_them_again():
    assert played(timeline("1: kill a for 2 s"), 10) == [
        (1.0, "+0 kill a for 2 s"),
        (1.0, "kill a.client"),
        (1.0, "kill a.server"),
        (3.0, "restart a.client"),
        (3.0, "restart a.server"),
        (3.0, "-0"),
    ]


def test_one_program_is_started_again_while_the_others_of_its_site_stay_dead():
    line = timeline("1: kill a", "2: restart a.client", "3: restart a")
    assert played(line, 10)[3:] == [
        (2.0, "+1 restart a.client"),
        (2.0, "restart a.client"),
        (2.0, "-1"),
        (3.0, "+2 restart a"),
        (3.0, "restart a.server"),
        (3.0, "-0"),
        (3.0, "kill a.client"),
        (3.0, "restart a.client"),
        (3.0, "-2"),
    ]


def test_a_pause_of_a_site_is_ended_program_by_program():
    line = timeline("1: pause a", "2: resume a.server", "3: resume a")
    assert [words for _, words in played(line, 10)] == [
        "+0 pause a",
        "pause a.client",
        "pause a.server",
        "+1 resume a.server",
        "resume a.server",
        "-1",
        "+2 resume a",
        "resume a.client",
        "-0",
        "-2",
    ]


def test_a_program_that_leaves_comes_back_and_a_kill_has_nothing_left_to_kill():
    line = timeline("1: leave b for 3 s", "2: kill b.client for 1 s")
    assert [words for _, words in played(line, 10)] == [
        "+0 leave b for 3 s",
        "leave b.client",
        "+1 kill b.client for 1 s",
        "-1",
        "restart b.client",
        "-0",
    ]


def test_a_timeline_knows_which_programs_come_back():
    line = timeline("1: kill a.server", "1: kill a.client for 1 s", "1: kill b", "5: restart b")
    line.advance(1 * S)
    assert [line.comes_back(who) for who in ("a.server", "a.client", "b.client")] == [
        False,
        True,
        True,
    ]
    line.advance(6 * S)
    assert not line.comes_back("b.client")  # it runs


def test_what_is_done_stays_dead_at_the_end():
    line = timeline("1: kill a", "1: pause b")
    line.advance(1 * S)
    assert said(line.finish(["a.server", "a.client", "b.client"])) == ["resume b.client", "-1"]


def test_churn_stops_sites_that_have_programs():
    line = timeline("0: churn kills=1s pauses=1s lasting=0.1s agents=3", seed=4)
    words = [words for _, words in played(line, 60)]
    assert {text.split()[1] for text in words if text.startswith("kill ")} == {
        "a.client",
        "a.server",
        "b.client",
    }


def test_names_of_programs_are_completed():
    assert complete("kill a", TOPOLOGY, TARGETS) == ("a", "a.server", "a.client")
    assert "controller" not in complete("pause ", TOPOLOGY, TARGETS)
