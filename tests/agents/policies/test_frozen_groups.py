"""The group filter: the last groups connect all sites, and no site waits forever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.policies import preduce
from trunkline.agents.policies.policy import Joined, Left, Lost, Ready, Start

FOUR = ("a", "b", "c", "d")


class Course:
    """A policy, the groups that it has formed, and the sites that compute."""

    def __init__(self, sites, **options):
        self.policy = preduce.create(sites, **options)
        self.state = self.policy.initial
        self.iterations = dict.fromkeys(sites, 0)
        self.computing = list(sites)
        self.groups = []

    def give(self, event):
        self.state, decisions = self.policy.step(self.state, event)
        for decision in decisions:
            group = decision.group if isinstance(decision, Start) else (decision.site,)
            self.groups.append(group)
            for site in group:
                self.iterations[site] += 1
                self.computing.append(site)

    def ready(self, *sites):
        for site in sites:
            self.computing.remove(site)
            self.give(Ready(site, self.iterations[site]))

    def end(self, event):
        """Let a site leave or be lost."""
        if event.site in self.computing:
            self.computing.remove(event.site)
        self.give(event)


def components(groups, sites):
    """The components of the sync-graph, by joining sets until none meet."""
    parts = [{site} for site in sites]
    for group in groups:
        meeting = [part for part in parts if part & set(group)]
        parts = [part for part in parts if not part & set(group)]
        parts += [set().union(*meeting)] if meeting else []
    return sorted(map(sorted, parts))


def unconnected(groups, sites, last):
    """The starts of all windows of `last` consecutive groups that do not connect the sites."""
    windows = range(len(groups) - last + 1)
    return [at for at in windows if len(components(groups[at : at + last], sites)) > 1]


def pairs_of_equal_speed(rounds, **options):
    """Two fast and two slow sites; the fast ones are ready twice as often, always together."""
    course = Course(FOUR, p=2, **options)
    for moment in range(1, rounds + 1):
        for site in ("a", "b") if moment % 2 else FOUR:
            if site in course.computing:
                course.ready(site)
    return course.groups


def test_without_the_filter_sites_of_equal_speed_freeze_into_groups():
    groups = pairs_of_equal_speed(40)
    assert set(groups) == {("a", "b"), ("c", "d")}
    assert components(groups, FOUR) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("history", [3, 4, 8])
def test_with_the_filter_they_do_not(history):
    groups = pairs_of_equal_speed(40, group_filter=True, history=history)
    assert len(groups) > 20
    assert unconnected(groups, FOUR, history) == []


@pytest.mark.parametrize("history", [3, 4, 8])
def test_the_papers_filter_notices_that_groups_are_frozen_and_joins_two_parts(history):
    groups = pairs_of_equal_speed(40, group_filter=True, history=history, filter="repair")
    assert set(groups[:history]) == {("a", "b"), ("c", "d")}  # nothing to notice before
    mixed = [at for at, group in enumerate(groups) if set(group) not in ({"a", "b"}, {"c", "d"})]
    assert mixed[0] == history
    assert unconnected(groups, FOUR, history) != []
    assert unconnected(groups, FOUR, 3 * history) == []


def test_the_papers_filter_waits_for_a_site_of_another_part_if_only_one_part_is_ready():
    course = Course(FOUR, p=2, group_filter=True, filter="repair")
    course.ready("a", "b", "c", "d", "a", "b")
    course.ready("b", "a")
    assert course.groups == [("a", "b"), ("c", "d"), ("a", "b")]
    course.ready("c")
    assert course.groups[3:] == [("b", "c")]
    course.ready("b")  # the last three groups are cd, ab, bc: connected, so any group will do
    assert course.groups[4:] == [("a", "b")]


def test_the_filter_takes_the_first_of_the_queue_that_joins_components():
    course = Course(FOUR, p=2, group_filter=True)
    course.ready("a", "b")  # any first group will do
    course.ready("b", "a")  # the same pair again would leave two groups to connect c and d
    assert course.groups == [("a", "b")]
    course.ready("d")
    assert course.groups == [("a", "b"), ("b", "d")]  # b has waited longer than a
    course.ready("d", "c")  # a and d are connected, c is not
    assert course.groups == [("a", "b"), ("b", "d"), ("a", "c")]


def test_one_signal_can_end_the_wait_of_several_groups():
    course = Course(("a", "b", "c", "d", "e"), p=2, group_filter=True, history=6)
    course.ready("a", "b", "c", "d", "a", "c", "b", "d", "a", "b")
    assert len(course.groups) == 5
    course.ready("c", "d", "a", "b")  # the sixth group has to connect e
    assert len(course.groups) == 5
    course.ready("e")
    assert course.groups[5:] == [("c", "e"), ("a", "d")]


def test_a_longer_history_lets_groups_repeat():
    course = Course(FOUR, p=2, group_filter=True, history=6)
    for _ in range(5):
        course.ready("a", "b")
    assert course.groups == [("a", "b")] * 4  # then two groups can connect all, one could not


def test_the_history_is_that_of_the_active_sites():
    course = Course(FOUR, p=2, group_filter=True)
    course.ready("a", "b")
    course.ready("a", "b")
    assert len(course.groups) == 1
    course.end(Lost("c"))  # two groups connect the three sites that are left
    assert course.groups == [("a", "b"), ("a", "b")]


def test_a_site_that_leaves_lets_the_others_go_on():
    course = Course(FOUR, p=2, group_filter=True)
    course.ready("a", "b", "a", "b")
    course.end(Left("c"))
    course.end(Left("d"))
    for _ in range(5):
        course.ready(*(site for site in ("a", "b") if site in course.computing))
    assert course.groups[1:] == [("a", "b")] * 6


def test_a_site_that_was_lost_has_to_be_connected_again():
    course = Course(("a", "b", "c"), p=2, group_filter=True)
    course.ready("a", "c")
    course.end(Lost("c"))
    course.ready("b", "a")
    course.give(Joined("c"))
    course.computing.append("c")
    course.ready("a", "b")
    assert course.groups == [("a", "c"), ("a", "b")]
    course.ready("c")
    assert course.groups[2:] == [("a", "c")]


def test_a_group_whose_task_was_abandoned_connects_nothing():
    def after(iteration):
        course = Course(("a", "b", "c"), p=2, group_filter=True)
        course.ready("a", "b")
        for event in (Ready("a", iteration), Ready("c", 0)):
            course.give(event)
        return course.groups[1:]

    assert after(1) == [("a", "c")]
    course = Course(("a", "b", "c"), p=2, group_filter=True)
    course.ready("a", "b")
    course.give(Ready("a", 0))
    course.give(Ready("b", 0))  # the task of ab was abandoned, so ab is as good as any group
    assert course.groups == [("a", "b"), ("a", "b")]


def test_a_controller_that_takes_over_begins_with_no_history():
    course = Course(FOUR, p=2, group_filter=True)
    course.iterations = dict.fromkeys(FOUR, 7)
    course.give(Lost("d"))
    course.ready("a", "b", "a", "b")
    assert course.groups == [("a", "b"), ("a", "b")]
    course.ready("c", "a")
    assert course.groups[2:] == [("a", "c")]


@pytest.mark.parametrize(("sites", "p", "least"), [(4, 2, 3), (8, 3, 4), (5, 3, 2), (4, 4, 1)])
def test_a_history_that_cannot_connect_all_sites_is_refused(sites, p, least):
    names = tuple("abcdefgh"[:sites])
    said = f"history: {least - 1}: expected {least} or more"
    with pytest.raises(ValueError, match=said):
        preduce.create(names, p=p, group_filter=True, history=least - 1)
    assert preduce.create(names, p=p, group_filter=True).last == least
    assert preduce.create(names, p=p, history=least).last is None


@st.composite
def settings(draw):
    count = draw(st.integers(2, 9))
    p = draw(st.integers(2, count))
    least = -(-(count - 1) // (p - 1))
    return tuple("abcdefghi"[:count]), p, draw(st.integers(least, least + 5))


@given(settings(), st.lists(st.integers(0, 8), max_size=120))
def test_any_last_groups_connect_all_sites_whatever_the_order_of_signals(setting, order):
    sites, p, last = setting
    course = Course(sites, p=p, group_filter=True, history=last)
    for index in order:
        course.ready(course.computing[index % len(course.computing)])
        assert course.computing  # a site that waits, waits for another one
    assert unconnected(course.groups, sites, last) == []
    assert all(len(group) == p for group in course.groups)


@given(
    settings(),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), max_size=120),
    st.sampled_from(("prevent", "repair")),
)
def test_no_site_waits_for_ever_whatever_is_lost_and_comes_back(setting, moves, kind):
    sites, p, last = setting
    course = Course(sites, p=p, group_filter=True, history=last, filter=kind)
    lost = []
    for index, move in moves:
        present = [site for site in sites if site not in lost]
        if move == 9 and lost:
            site = lost.pop(index % len(lost))
            course.give(Joined(site))
            course.computing.append(site)
        elif move >= 7 and len(present) > 1:
            lost.append(present[index % len(present)])
            course.end(Lost(lost[-1]))
        elif course.computing:
            course.ready(course.computing[index % len(course.computing)])
        assert course.computing
        assert not set(course.state.queue) & set(lost)
    formed = len(course.groups)
    for site in list(course.computing):
        course.ready(site)
    assert len(course.groups) > formed


@given(settings(), st.lists(st.integers(0, 8), max_size=60))
def test_a_history_longer_than_the_run_changes_no_group(setting, order):
    sites, p, _ = setting
    free = Course(sites, p=p)
    kept = Course(sites, p=p, group_filter=True, history=200)
    for index in order:
        site = free.computing[index % len(free.computing)]
        free.ready(site)
        kept.ready(site)
    assert kept.groups == free.groups
