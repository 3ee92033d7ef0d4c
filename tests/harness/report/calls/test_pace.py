"""How long steps of programs took, and how long programs took to begin."""

from trunkline.harness.report.calls.pace import tell_pace

PROGRAMS = [{"program": "n1.main", "start_s": "0.5"}, {"program": "n2.main", "start_s": ""}]


def call(start_s: float, duration_s: str, process: int = 7) -> dict[str, str]:
    return {
        "site": "n1", "process": str(process), "start_s": str(start_s), "duration_s": duration_s
    }  # fmt: skip


def step(number: str, start_s: float, duration_s: float) -> dict[str, str]:
    return {
        "site": "n1", "program": "n1.main", "process": "7", "step": number,
        "start_s": str(start_s), "duration_s": str(duration_s),
    }  # fmt: skip


def test_a_step_takes_from_the_end_of_the_one_before_to_its_own() -> None:
    """Steps end with their last calls, at 2.0, 3.0 and 6.0 s; the start-up row is none."""
    steps = [step("", 0.5, 0.5), step("0", 1.0, 1.2), step("1", 2.2, 1.0), step("2", 3.2, 2.8)]
    calls = [call(0.9, "0.05"), call(1.5, "0.2"), call(1.8, "0.2"), call(2.5, "0.5"),
             call(4.0, "2.0"), call(6.0, "")]  # fmt: skip
    told = dict(tell_pace(steps, calls, PROGRAMS))
    assert told["step time"] == (
        "2 s on average, 95th percentile 3 s (2 of 3 steps, each from the end of the one "
        "before to its own; first steps and those without calls do not count)"
    )
    assert told["start-up"] == (
        "400 ms from the start of a program to its first call, on average of 1 site"
    )


def test_programs_without_steps_have_the_times_between_ends_of_calls() -> None:
    calls = [call(1.0, "0.5"), call(2.0, "0.5"), call(1.0, "3.0", 8), call(5.0, "1.0", 8)]
    told = dict(tell_pace([step("", 0.5, 5.0)], calls, []))
    assert told == {
        "step time": "1.5 s on average between the ends of two calls, 95th percentile 2 s"
    }
    assert dict(tell_pace([], [], PROGRAMS)) == {}


def test_the_longest_time_is_told_if_it_is_beyond_the_percentile() -> None:
    """Of 20 times, 19 are 1 s, so the mean may be above what 95 % of them do not exceed."""
    calls = [call(float(number), "0.5") for number in range(20)] + [call(40.0, "0.5")]
    (said,) = dict(tell_pace([], calls, [])).values()
    assert said.endswith("2 s on average between the ends of two calls, 95th percentile 1 s, "
                         "longest 21 s")  # fmt: skip


def test_the_terminal_and_the_page_round_alike() -> None:
    """The mean of the exact times is on the other side of 1.1055 s than that of the CSV."""
    ends = (1.0, 2.1054996)
    exact = [{"site": "n1", "process": 2, "start_s": end - 0.5, "duration_s": 0.5} for end in ends]
    read = [{**row, "start_s": round(row["start_s"], 6)} for row in exact]
    assert [*tell_pace([], exact, [])] == [*tell_pace([], read, [])]
