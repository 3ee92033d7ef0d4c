"""The output of programs since a user looked last."""

from trunkline.harness.live.followed_output import FIRST_LINES, FollowedOutput


def test_the_first_look_shows_the_last_lines_and_later_ones_what_is_new(tmp_path):
    out, errors = tmp_path / "n1.trainer.out", tmp_path / "n1.trainer.err"
    out.write_text("".join(f"line {number}\n" for number in range(100)))
    errors.write_text("")
    output = FollowedOutput(tmp_path)
    first = output.read_new(["n1.trainer", "n2.trainer"]).splitlines()
    assert len(first) == FIRST_LINES
    assert first[-1] == "n1.trainer out: line 99"
    assert output.read_new(["n1.trainer"]) == "nothing new\n"
    with out.open("a") as file:
        file.write("more\n")
    errors.write_text("a warning\n")
    said = "n1.trainer out: more\nn1.trainer err: a warning\n"
    assert output.read_new(["n1.trainer"]) == said
