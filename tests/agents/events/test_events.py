"""Lines of the event log become typed values; anything else is an error with its place."""

import json

import pytest
from three_sites import LOG, history

from trunkline.agents.events.event_reading import EventError, parse, read
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.round_events import Ready
from trunkline.agents.events.run_events import AgentExited, LinkTotals, RunFinished
from trunkline.agents.events.task_events import Sent, TaskDropped, TaskFinished

READY = '{"t_ns": 7, "site": "oslo", "event": "ready", "iteration": 2}'


def test_a_line_becomes_the_event_that_it_names() -> None:
    assert parse(READY) == Ready(7, "oslo", 2)


def test_optional_keys_may_be_absent_or_null_and_unknown_ones_are_left_alone() -> None:
    line = '{"t_ns": 7, "site": "a", "event": "task_dropped", "task": 1, "cause": null, "x": 1}'
    assert parse(line) == TaskDropped(7, "a", 1, None, None)
    line = '{"t_ns": 7, "site": "runner", "event": "agent_exited", "who": "a", "code": null}'
    assert parse(line) == AgentExited(7, "runner", "a", None, None)


def test_bytes_that_a_user_typed_need_not_be_utf_8() -> None:
    line = '{"t_ns": 7, "site": "runner", "event": "command_typed", "line": "n1 \\udcff \\u00fc"}'
    assert parse(line) == CommandTyped(7, "runner", "n1 \ufffd ü")


@pytest.mark.parametrize(
    "rest",
    [
        '"ready", "iteration": 2',
        '"agent_exited", "who": "a", "code": 0, "signal": 9, "fault": null',
        '"agent_exited", "who": "a", "asked": false, "code": 0, "signal": 9',
        '"fault_started", "fault": 0, "verb": "heal", "text": "heal", "targets": []',
        '"fault_started", "fault": 0, "verb": "x", "text": "x", "targets": ["a"], "asked": true',
        '"rates_estimated", "links": [["a", "b", 1.5]]',
        '"run_finished", "reason": "", "cause": null, "links": [{"src": "a", "dst": "b",'
        ' "bytes": 3, "packets": 2, "drops": 1}], "short_of_memory": ["a"]',
        '"capture_ended", "links": [{"src": "a", "dst": "b", "packets": 2, "missed": 1,'
        ' "bytes": 120, "digest": "9f"}]',
    ],
)
def test_an_event_is_written_as_it_was_read(rest: str) -> None:
    line = f'{{"t_ns": 7, "site": "a", "event": {rest}}}\n'
    assert to_line(parse(line)).decode() == line


def test_interface_counters_are_read_link_by_link() -> None:
    link = {"src": "a", "dst": "b", "bytes": 3, "packets": 2, "drops": 1}
    line = {"t_ns": 9, "site": "runner", "event": "run_finished", "cause": None, "links": [link]}
    assert parse(json.dumps(line)) == RunFinished(
        9, "runner", None, (LinkTotals("a", "b", 3, 2, 1),)
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            READY[:-1],
            'cut off at column 61: \'{"t_ns": 7, "site": "oslo", "event": "ready", "iteration...',
        ),
        ("{oops}", "not JSON at column 2: '{oops}'"),
        ("[1]", "'[1]': expected a JSON object"),
        ("", "cut off at column 1: ''"),
        (READY.replace("2", "-2"), "iteration: -2: expected a whole number of 0 or more"),
        (READY.replace("2", str(2**57)), f"iteration: {2**57}: expected {2**56} or less"),
        ("[" * 200_000, f"too deep: '{'[' * 56}..."),
        (READY.replace("2", "2.5"), "iteration: 2.5: expected a whole number"),
        (READY.replace("2", "true"), "iteration: True: expected a whole number"),
        (READY.replace('"oslo"', "3"), "site: 3: expected a string"),
        (
            READY.replace("iteration", "round"),
            "iteration: missing: ready needs t_ns, site, iteration",
        ),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line: str, problem: str) -> None:
    with pytest.raises(EventError) as raised:
        read([READY, line])
    assert str(raised.value) == f"events.jsonl:2: {problem}"


def test_an_unknown_event_is_answered_with_the_known_ones() -> None:
    with pytest.raises(EventError, match=r"^log:1: event: 'redy': expected one of run_started, .*"):
        read([READY.replace("ready", "redy")], "log")


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("weights", {"a": "1"}, "a number"),
        ("weights", [1.0], "an object"),
        ("group", "a", "a list"),
        ("group", [1], "a string"),
        ("forest", None, "an object"),
    ],
)
def test_the_parts_of_a_task_have_their_types(key: str, value: object, allowed: str) -> None:
    line = next(line for line in LOG.read_text().splitlines() if "task_started" in line)
    with pytest.raises(EventError) as raised:
        read([json.dumps({**json.loads(line), key: value})])
    assert str(raised.value) == f"events.jsonl:1: {key}: {value!r}: expected {allowed}"


def test_a_run_that_counted_nothing_sensible_is_refused() -> None:
    line = {"t_ns": 9, "site": "runner", "event": "run_finished", "cause": None, "links": [{}]}
    with pytest.raises(EventError) as raised:
        read([json.dumps(line)])
    assert str(raised.value) == (
        "events.jsonl:1: links: [{}]: expected objects of src, dst, bytes, packets, drops;"
        " one value is not a string"
    )


def test_time_does_not_go_back() -> None:
    with pytest.raises(EventError) as raised:
        read([READY, READY.replace("7", "6")])
    assert str(raised.value) == "events.jsonl:2: t_ns: 6: expected 7 (the line before) or later"


def test_a_task_has_its_events_whoever_said_them() -> None:
    first, _, last = history().tasks
    assert [event.site for event in first.all(TaskFinished)] == ["rome", "oslo"]
    assert [(event.site, event.dst) for event in first.all(Sent)] == [
        ("oslo", "rome"),
        ("rome", "oslo"),
    ]
    assert (first.outcome, first.end_ns, first.duration_s) == ("completed", 1_480_000_000, 1.27)
    assert (last.outcome, last.end_ns, last.duration_s) == ("abandoned", 4_400_000_000, 2.0)


def test_a_log_is_read_in_its_own_order() -> None:
    events = history().events
    assert len(events) > 90
    assert [event.t_ns for event in events] == sorted(event.t_ns for event in events)
    assert (
        Sent(4_400_000_000, "oslo", 2, "rome", "in", 250_000, 1, 2_400_000_000, 2_650_000_000)
        in events
    )
