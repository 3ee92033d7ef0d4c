"""Lines that are expected in the output of programs."""

from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.harness.session.output_watch import LINE_BYTES, OutputWatch

EXPECTED = (
    Expectation(tasks=1),
    Expectation(output="^done"),
    Expectation(output="loss=([0-9.]+)", at_most=0.5, sites=("n1",)),
)


def found(watch: OutputWatch, data: bytes, t_ns: int = 7) -> list[tuple[int, int, str]]:
    events = [logged.event for logged in watch.events(data, t_ns)]
    return [(event.t_ns, event.entry, event.line) for event in events]


def test_the_first_line_of_each_expectation_is_logged_once() -> None:
    watch, _ = OutputWatch.of_streams("n1", "n1.trainer", EXPECTED)
    assert found(watch, b"loss=0.9\nlo") == []
    assert found(watch, b"ss=0.4\nloss=0.3\n", 8) == [(8, 2, "loss=0.4")]
    assert found(watch, b" 10%\r 20%\rdone\n", 9) == [(9, 1, "done")]
    assert found(watch, b"done\n") == []
    assert not watch.left


def test_the_nearest_number_out_of_bounds_is_logged_at_the_exit() -> None:
    watch, _ = OutputWatch.of_streams("n1", "n1", EXPECTED)
    assert found(watch, b"loss=0.9\nloss=0.6\nloss=.\nloss=0.8\nother\nloss=0.7") == []
    assert [(e.entry, e.lines, e.line) for e in (each.event for each in watch.end(9))] == [
        (2, 5, "loss=0.6")
    ]
    assert list(watch.end(10)) == []  # of a program that was started again and wrote nothing


def test_what_was_out_of_bounds_before_the_expected_line_is_not_logged() -> None:
    watch, _ = OutputWatch.of_streams("n1", "n1", EXPECTED)
    assert found(watch, b"loss=0.9\nloss=0.4\n") == [(7, 2, "loss=0.4")]
    assert list(watch.end(9)) == []


def test_a_last_line_needs_no_end() -> None:
    watch, _ = OutputWatch.of_streams("n2", "n2", EXPECTED)
    assert found(watch, b"done") == []
    assert [logged.event.line for logged in watch.end(9)] == ["done"]


def test_what_is_expected_of_other_sites_is_not_found_here() -> None:
    watch, _ = OutputWatch.of_streams("n10", "n10", EXPECTED)
    assert found(watch, b"loss=0.1\n") == []


def test_either_stream_may_have_the_line() -> None:
    output, errors = OutputWatch.of_streams("n1", "n1", EXPECTED)
    assert found(errors, b"done\n", 3) == [(3, 1, "done")]
    assert found(output, b"done\n", 4) == []


def test_a_stream_without_lines_needs_no_memory() -> None:
    watch, _ = OutputWatch.of_streams("n1", "n1", EXPECTED)
    for _ in range(100):
        assert found(watch, b"x" * 10_000) == []
    assert len(watch.lines.rest) == LINE_BYTES
