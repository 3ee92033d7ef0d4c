"""Tables of numbers: the comments before them are read strictly, and cells have intervals."""

import math
from pathlib import Path

import figures
import pytest
from marked_tables import MarkerError, check_labels, find_tables, format_quantity, render

PAGE = """\
# Groups

<!-- table: group-size
$ trunkline reproduce r2sp/18 --fluid --trials 3 \\
    --set 'stop={time: 3 s}'
show: fluid rounds
corner: groups | of
columns: {2: "64", 4: "{plan: crew}", the paper: by hand}
rows: {rounds | a: run 1}
made: 2026-11-23 10:00 at 1dac291
-->
| groups | of | 2 | 4 | the paper |
| --- | --- | --- | --- | --- |
| rounds | a | 17.8 | 19.5 | 12 to 14 |

After it.
"""
RESULTS = [
    (
        ("64", "run 1"),
        {"fluid rounds": 18.02, "fluid rounds_low": 17.9, "fluid rounds_high": 18.14},
    ),
    (("{plan: crew, p: 3}", "run 1"), {"fluid rounds": 19.5}),
    (("64", "run 2"), {"fluid rounds": 1}),
]
STUDY = "$ trunkline reproduce crew/7 --fluid\nshow: fluid rounds\ncolumns: {a: fair}\nrows: {b: }"


def mark(text: str, made: str = "\nmade: 2026-11-23") -> str:
    return f"<!-- table: name\n{text}{made}\n-->\n| | a |\n| --- | --- |\n| b | 1 |\n"


def test_cells_are_chosen_by_row_and_column_and_those_by_hand_stay() -> None:
    ((marker, rows),) = find_tables(PAGE)
    command = "trunkline reproduce r2sp/18 --fluid --trials 3 --set 'stop={time: 3 s}'"
    assert marker is not None and marker.commands == (command,)
    assert marker.made == "2026-11-23 10:00 at 1dac291"
    check_labels(marker, rows)
    assert render(marker, RESULTS, rows)[2] == "| rounds | a | 18.02 ± 0.12 | 19.5 | 12 to 14 |"
    with pytest.raises(MarkerError, match=r"rounds \| a, 2: selects 2 results"):
        render(marker, RESULTS[:1] * 2, rows)
    with pytest.raises(MarkerError, match=r"group-size has runs \| a: expected rounds \| a"):
        check_labels(marker, [row.replace("rounds", "runs") for row in rows])


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- table: a b\nspecification: a\n-->\n| | a |\n| --- | --- |\n", "name: String should"),
        (
            "<!-- table: name\nspecification: a\n| | a |\n| --- | --- |\n",
            "expected --> and a table",
        ),
        ("<!-- table: name\nspecification: a\n-->\n\ntext\n", "expected --> and a table"),
        (mark("specification: a", made=""), "expected `made`"),
        (2 * mark("specification: what"), "each name once"),
        (mark("show: rounds"), "expected a script, commands with rows and columns, or spec"),
        (mark("by hand: why"), "by hand: Extra inputs"),
        (mark("rows: {b: }\ncolumns: {a: }"), "expected a script, commands with rows and columns"),
        (mark(STUDY.replace("a: fair", "a: by hand")), "a: by hand: expected numbers of"),
        (mark(STUDY.replace("a: fair", "a: unfair")), "name: b, a: selects 0 results"),
        (mark(f"{STUDY}\ncolour: red"), "colour: Extra inputs"),
        (mark(STUDY.replace("fluid rounds", "2 rounds")), "show: String should match"),
        (mark(STUDY.replace("{b: }", "{b: {plan: crew}}")), "rows.b.plan: Extra inputs"),
        (mark(STUDY.replace("{b: }", "{b")), "this is no mapping"),
        (mark("just words"), "this is no mapping"),
        (mark(STUDY, "\nmade: yesterday"), "made: String should match"),
        (mark(STUDY.replace("crew/7", "crew/99")), "or reproduce crew/4"),
        (mark(STUDY.replace("--fluid", "--flood")), "wrong arguments"),
        (mark(STUDY.replace("fluid rounds", "rounds")), "show: rounds: .*expected one of"),
        (mark(STUDY.replace("fluid rounds", "fluid speed")), "fluid speed: .*expected one of"),
        (mark("$ trunkline compare scenarios/no.yaml"), "no.yaml does not exist"),
        (mark("$ python benchmarks/no.py"), "no.py does not exist"),
        (mark("$ ls"), "expected python FILE"),
        ("| | a |\n| --- | --- |\n| b | 1.2 ± 0.1 |\n", "a table of numbers without a comment"),
    ],
)
def test_the_check_refuses_what_is_wrong(page: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(MarkerError, match=said):
        figures.check(tmp_path / "page.md")


def test_the_check_passes_other_tables_and_reads_every_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "| key | a | b |\n| --- | --- | --- |\n| 9 | 60 s | the timeout of a run |\n"
    page = tmp_path / "page.md"
    page.write_text(f"{mark(STUDY)}\n{words}\n```\n{mark('nothing')}```\n")
    figures.check(page)
    seen: list[Path] = []
    monkeypatch.setattr(figures, "check", seen.append)
    monkeypatch.setattr("sys.argv", ["figures.py", "--check"])
    assert figures.main() == 0
    assert seen[0].name == "README.md" and "crew.md" in [page.name for page in seen]


@pytest.mark.parametrize(
    ("show", "mean", "low", "high", "text"),
    [
        ("x", 8.8934, 8.7622, 9.0246, "8.89 ± 0.13"),
        ("x", 17.12, 13.48, 20.76, "17.1 ± 3.6"),
        ("x", 1052.3, 939.3, 1165.3, "1050 ± 110"),
        ("x", 0.99996, math.nan, math.nan, "1.00"),
        ("x", 15.5, 15.5 - 1e-15, 15.5 + 1e-15, "15.5"),
        ("x", 1e-17, math.nan, math.nan, "0"),
        ("met", 1.0, math.nan, math.nan, "1"),
        ("x", math.nan, math.nan, math.nan, ""),
        ("x ms", 0.0662, math.nan, math.nan, "66.2"),
        ("x_percent", 94.444, math.nan, math.nan, "94.4"),
        ("x ratio", 1.0, 1.0, 1.0, "1"),
        ("x ratio", 1.2433, 1.0512, 1.4634, "1.24 (1.05 to 1.46)"),
        ("x ratio", 1.0251, 1.0183, 1.0332, "1.025 (1.018 to 1.033)"),
        ("x speed-up", 0.5, 0.4, 0.625, "2.00 (1.60 to 2.50)"),
    ],
)
def test_a_cell_has_the_digits_that_its_interval_leaves(show, mean, low, high, text) -> None:
    name = "x_ratio" if show.endswith((" ratio", " speed-up")) else show.removesuffix(" ms")
    numbers = {name: mean, f"{name}_low": low, f"{name}_high": high}
    assert format_quantity(show, numbers) == text


def test_the_results_of_a_comparison_are_its_tables(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    head = "discipline,weights"
    cells = f"{head},trials,rounds\nfcfs,null,2,3\nfcfs,uniform,1,\n"
    (tmp_path / "tables" / "cells.csv").write_text(cells)
    trials = ("fcfs,null,0,1,2,pass", "fcfs,null,1,2,4,pass", "fcfs,uniform,0,1,9,pass")
    fluid = "\n".join((f"{head},trial,seed,rounds,verdict", *trials))
    (tmp_path / "tables" / "fluid.csv").write_text(fluid)
    null, uniform = figures.read_results(tmp_path, {"rounds", "fluid rounds"}, "run 1")
    assert null[0] == ("fcfs", "null", "run 1") and uniform[0][1] == "uniform"
    assert (null[1]["rounds"], null[1]["fluid rounds"], uniform[1]["fluid rounds"]) == (3, 3, 9)
    assert format_quantity("rounds", uniform[1]) == ""


def test_a_table_is_made_by_its_command_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    study = (
        "$ trunkline reproduce owl/9 --fluid --trials 1 --vary topology.alpha=1.0 "
        f"--vary workload.model=vgg-19 --quiet --out {tmp_path / 'out'}\n"
        'show: fluid update_s ratio\ncolumns: {a: "1.0"}\nrows: {b: owl}'
    )
    page.write_text(f"Before.\n{mark(study)}\nAfter.\n")
    figures.make(page, "name")
    made = figures.find_version().partition(" ")[0]
    before, _, after = page.read_text().partition(f"made: {made}")
    assert before == f"Before.\n{mark(study)}".partition("made:")[0]
    assert after.partition("-->")[2] == "\n| | a |\n| --- | --- |\n| b | 1 |\n\nAfter.\n"
    figures.check(page)
    with pytest.raises(MarkerError, match="--table other: expected one of name"):
        figures.make(page, "other")
    page.write_text(wrong := mark(study.replace("--quiet", "--set topology.alpha=fast")))
    with pytest.raises(MarkerError, match="exit code 64"):
        figures.make(page)
    assert page.read_text() == wrong


def test_a_script_prints_its_table(tmp_path: Path) -> None:
    page, script = tmp_path / "page.md", tmp_path / "script.py"
    script.write_text("print('words')\nprint('| | a |\\n| --- | --- |\\n| b | 2 |')\n")
    page.write_text(mark(f"$ python {script}"))
    figures.make(page)
    assert page.read_text().endswith("-->\n| | a |\n| --- | --- |\n| b | 2 |\n")
    script.write_text("print('words')\n")
    with pytest.raises(MarkerError, match="it has printed no table"):
        figures.make(page)
