"""The order in which a link's flows are served, on scripted contentions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.planning.disciplines import DISCIPLINES, Flow, Queue


def served(discipline, script):
    """Carry out the script: `a1` is a chunk of flow a's arrival, `.` lets the link take one."""
    flows = {
        "s": Flow(2, inward=True),  # scatter of task 2, came first
        "m": Flow(2, inward=False),  # its multicast
        "S": Flow(1, inward=True),  # the same of task 1, which started before
        "M": Flow(1, inward=False),
        "e": Flow(None, inward=True),  # an early contribution, of a task yet unknown
    }
    queue = Queue(DISCIPLINES[discipline])
    order = []
    for word in script.split():
        if word == ".":
            order.append(queue.pop())
        else:
            queue.push(word, flows[word[0]])
    while queue:
        order.append(queue.pop())
    return " ".join(order)


@pytest.mark.parametrize(
    ("discipline", "order"),
    [
        ("fcfs", "s1 s2 s3 m1 m2 S1 S2 M1"),
        ("fair", "s1 m1 S1 M1 s2 m2 S2 s3"),
        ("task-fcfs", "S1 S2 M1 s1 s2 s3 m1 m2"),
        ("C1", "m1 m2 M1 s1 s2 s3 S1 S2"),
        ("C2", "s1 s2 s3 S1 S2 m1 m2 M1"),
    ],
)
def test_four_flows_that_wait_are_served_in_the_order_of_the_discipline(discipline, order):
    assert served(discipline, "s1 s2 s3 m1 m2 S1 S2 M1") == order


@pytest.mark.parametrize(
    ("discipline", "order"),
    [
        ("fcfs", "s1 m1 s2 m2"),  # the scatter keeps its place although it had nothing to send
        ("fair", "s1 m1 s2 m2"),  # its last turn is longest ago
        ("C1", "s1 m1 m2 s2"),
        ("C2", "s1 m1 s2 m2"),
    ],
)
def test_a_flow_that_pauses_comes_back_at_its_place(discipline, order):
    assert served(discipline, "s1 . m1 . m2 s2") == order


@pytest.mark.parametrize(
    ("discipline", "order"),
    [
        ("fcfs", "m1 m2 m3 S1"),
        ("task-fcfs", "m1 S1 m2 m3"),
        ("C1", "m1 m2 m3 S1"),
        ("C2", "m1 S1 m2 m3"),
    ],
)
def test_a_newcomer_preempts_after_the_chunk_that_is_on_its_way(discipline, order):
    assert served(discipline, "m1 m2 m3 . S1") == order


def test_an_early_contribution_waits_for_known_tasks_until_its_own_is_known():
    assert served("task-fcfs", "e1 e2 s1") == "s1 e1 e2"
    early, known = Flow(None, inward=True), Flow(7, inward=True)
    queue = Queue(DISCIPLINES["task-fcfs"])
    queue.push("early", early)
    queue.push("known", known)
    early.task = 5
    assert queue.pop() == "early"


def test_a_forgotten_flow_loses_its_chunks_and_its_place():
    first, second = Flow(0, inward=True), Flow(1, inward=True)
    queue = Queue(DISCIPLINES["fcfs"])
    for item, flow in (("a", first), ("b", second), ("c", first)):
        queue.push(item, flow)
    assert queue.forget([first]) == ["a", "c"]
    queue.push("d", first)
    assert [queue.pop(), queue.pop(), queue.pop()] == ["b", "d", None]


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
@given(script=st.lists(st.integers(0, 5)), unwanted=st.sets(st.integers(0, 30)))
def test_every_chunk_that_is_not_dropped_comes_out_once_and_in_its_flows_order(
    discipline, script, unwanted
):
    flows = [Flow(number // 2, inward=bool(number % 2)) for number in range(5)]
    queue, left = Queue(DISCIPLINES[discipline]), []
    out = [[] for _ in flows]
    for number, which in enumerate(script):
        if which < 5:
            queue.push((which, number), flows[which])
            left.append((which, number))
        elif (item := queue.pop()) is not None:
            left.remove(item)
            out[item[0]].append(item[1])
    dropped = queue.drop(lambda item: item[1] in unwanted)
    assert sorted(dropped) == sorted(item for item in left if item[1] in unwanted)
    while queue:
        which, number = queue.pop()
        out[which].append(number)
    assert all(numbers == sorted(numbers) for numbers in out)
    assert sum(map(len, out)) + len(dropped) == sum(which < 5 for which in script)
