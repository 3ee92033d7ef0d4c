"""Long lines at the prompt."""

import pytest

from trunkline.harness.live.wrapping import wrap_lines


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("short\nlines\n", "short\nlines\n"),
        ("one two three four\n", "one two three\nfour\n"),
        ("ab  one two three\n", "ab  one two\n    three\n"),
        ("without_any_place_to_break", "without_any_place_to_break"),
        ("n1 -> n2  blackhole\nx\n", "n1 -> n2  blackhole\nx\n"),
        ("", ""),
    ],
)
def test_lines_break_between_words_below_their_second_column(text, wrapped):
    assert wrap_lines(text, 14 if "blackhole" not in text else 20) == wrapped
