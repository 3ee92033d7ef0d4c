"""Tables of numbers: their markers are read strictly, and written with intervals."""

import math
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import figures
import pandas as pd
import pytest
import reference_results
import table_code
import table_commands
from marked_tables import (
    Marker,
    MarkerError,
    Result,
    check_cells,
    check_labels,
    find_tables,
    format_mean,
    format_quantity,
    format_ratio,
    hash_cells,
    render,
    replace_table,
)

from trunkline.harness.scenario.named_schemes import SCHEMES

PAGE = """\
# Groups

<!-- table: group-size
$ trunkline reproduce r2sp/18 --fluid --trials 3 \\
    --set 'stop={time: 3 s}'
show: fluid rounds
corner: groups of
columns: {2: "64", 4: "32", the paper: by hand}
rows: {rounds: }
made: 2026-11-23 at 1dac291, code 3f2a1b77, cells 00000000
-->
| groups of | 2 | 4 | the paper |
| --- | --- | --- | --- |
| rounds | 17.8 | 19.5 | 12 to 14 |

After it.
"""


def result(*values: str, **numbers: float) -> Result:
    return Result(values, {name.replace("fluid_", "fluid ", 1): v for name, v in numbers.items()})


RESULTS = [
    result("64", fluid_rounds=18.02, fluid_rounds_low=17.9, fluid_rounds_high=18.14),
    result("32", fluid_rounds=19.5, fluid_rounds_low=math.nan, fluid_rounds_high=math.nan),
]


def read(page: str) -> Marker:
    (found,) = find_tables(page)
    assert found.marker is not None
    return found.marker


def mark(text: str) -> str:
    return f"<!-- table: name\n{text}\n-->\n| | a |\n| --- | --- |\n| b | 1 |\n"


STUDY = "$ trunkline reproduce crew/4\ncolumns: {a: x}\n"


def test_a_marker_names_its_command_date_and_code() -> None:
    marker = read(PAGE)
    command = "trunkline reproduce r2sp/18 --fluid --trials 3 --set 'stop={time: 3 s}'"
    assert (marker.name, marker.commands) == ("group-size", (command,))
    assert (marker.date, marker.code, marker.cells) == ("2026-11-23", "3f2a1b77", "00000000")
    assert marker.made == "2026-11-23 at 1dac291, code 3f2a1b77, cells 00000000"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("show: rounds", "a command is missing"),
        (STUDY, "rows and columns are missing"),
        (STUDY + "rows: {b: }\ncolour: red", "colour: expected one of by hand, columns"),
        (STUDY + "rows: {b: {show: 2 rounds}}", "show: 2 rounds: expected"),
        (STUDY + "rows: {b: {plan: crew}}", "expected the keys of, show"),
        (STUDY + "rows: {b: [{plan: crew}]}", "put mappings and lists into quotes"),
        (STUDY + "rows: {b: }\nmade: yesterday", "made: expected unknown, DATE"),
        (STUDY + "rows: {b: }\nby hand: why", "expected either `by hand`, or rows and columns"),
        (STUDY + "rows: {b", "this is not YAML"),
        ("$ python a.py\ncolumns: {a: x}\nrows: {b: }", "a script alone prints the table"),
    ],
)
def test_a_wrong_marker_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(MarkerError) as refused:
        read(mark(text))
    assert said in str(refused.value) and "line 1" in str(refused.value)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- table: a b\nby hand: why\n-->\n| | a |\n| --- | --- |\n", "a name is missing"),
        ("<!-- table: name\nby hand: why\n| | a |\n| --- | --- |\n", "--> is missing"),
        ("<!-- table: name\nby hand: why\n-->\n\ntext\n", "no table follows"),
    ],
)
def test_a_marker_ends_and_a_table_follows(page: str, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        list(find_tables(page))


def test_tables_in_fenced_blocks_are_not_tables() -> None:
    assert list(find_tables(f"```\n{PAGE}```\n")) == []


def test_a_table_of_numbers_is_told_from_one_of_words() -> None:
    numbers, words = (
        next(iter(find_tables(f"| key | a | b |\n| --- | --- | --- |\n| 9 | {cells} |\n")))
        for cells in ("1.2 ± 0.1 | -3 %", "60 s | the timeout of a run")
    )
    assert numbers.has_numbers and not words.has_numbers


def test_cells_are_chosen_by_row_and_column_and_those_by_hand_stay() -> None:
    (found,) = find_tables(PAGE)
    assert render(read(PAGE), RESULTS, found.lines) == [
        "| groups of | 2 | 4 | the paper |",
        "| --- | --- | --- | --- |",
        "| rounds | 18.02 ± 0.12 | 19.5 | 12 to 14 |",
    ]


def test_a_part_of_a_mapping_selects_the_only_value_that_has_it() -> None:
    text = (
        '$ trunkline reproduce crew/4\nshow: task_s\ncolumns: {"task, s": }\n'
        'rows: {"CREW | default": "{plan: crew}", "CREW | even": "{split: even}"}\n'
        "corner: plan | split"
    )
    results = [
        result("{plan: crew}", task_s=2.0),
        result("{plan: crew, split: even}", task_s=3.0),
    ]
    assert render(read(mark(text)), results, [])[2:] == [
        "| CREW | default | 2.00 |",
        "| CREW | even | 3.00 |",
    ]


@pytest.mark.parametrize("left", [[], [RESULTS[0], RESULTS[0], RESULTS[1]]])
def test_a_cell_that_selects_no_or_several_results_is_refused(left: list[Result]) -> None:
    with pytest.raises(MarkerError, match=r"row 'rounds', column '2': selects \d results"):
        render(read(PAGE), left, [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "| 2 | 4 | the paper |",
            "| 4 | 2 | the paper |",
            r"the table's head is .*: expected groups",
        ),
        ("| the paper |", "| the paper | by seed |", "expected groups of | 2 | 4 | the paper$"),
        ("| rounds |", "| runs |", "the table has rows runs: expected rounds"),
    ],
)
def test_a_table_has_the_heads_and_labels_of_its_marker(old: str, new: str, said: str) -> None:
    (found,) = find_tables(PAGE)
    check_labels(read(PAGE), found.lines)
    changed = [line.replace(old, new) for line in found.lines]
    with pytest.raises(MarkerError, match=said.replace("|", r"\|")):
        check_labels(read(PAGE), changed)


def test_a_page_gets_the_new_rows_and_their_version_and_nothing_else_changes() -> None:
    rows = ["| groups of | 2 | 4 | the paper |", "| --- | --- | --- | --- |"]
    rows += ["| rounds | 18.0 | 19.9 | 12 to 14 |"]
    written = replace_table(PAGE, "group-size", rows, "2026-12-01 at abc1234, code 00112233")
    (found,) = find_tables(written)
    assert found.lines == tuple(rows)
    cells = hash_cells(read(PAGE), rows)
    assert written == PAGE.replace(
        "| groups of | 2 | 4 | the paper |\n| --- | --- | --- | --- |\n"
        "| rounds | 17.8 | 19.5 | 12 to 14 |\n",
        "\n".join(rows) + "\n",
    ).replace(
        "2026-11-23 at 1dac291, code 3f2a1b77, cells 00000000",
        f"2026-12-01 at abc1234, code 00112233, cells {cells}",
    )


@pytest.mark.parametrize(
    ("old", "new", "noticed"),
    [
        ("17.8", "17.9", True),
        ("19.5", "19.5 ± 0.1", True),
        ("12 to 14", "12 to 15", False),
        ("| rounds |", "| rounds in all |", False),
        ("| groups of |", "| clients in a group |", False),
        ("17.8 | 19.5", "17.8  |  19.5", False),
    ],
)
def test_a_cell_that_was_changed_by_hand_is_noticed(old: str, new: str, noticed: bool) -> None:
    lines = ["| groups of | 2 | 4 | the paper |", "| --- | --- | --- | --- |"]
    lines += ["| rounds | 17.8 | 19.5 | 12 to 14 |"]
    made = replace_table(PAGE, "group-size", lines, "2026-12-01 at abc1234, code 00112233")
    check_cells(read(made), lines)
    changed = [line.replace(old, new) for line in lines]
    if not noticed:
        check_cells(read(made), changed)
        return
    with pytest.raises(MarkerError, match="a cell is not what the command made"):
        check_cells(read(made), changed)


def test_a_cell_of_a_scripts_table_that_was_changed_by_hand_is_noticed() -> None:
    page = "<!-- table: name\n$ python docs/figures.py\n-->\n| | a |\n| --- | --- |\n| b | 1 |\n"
    made = replace_table(
        page, "name", page.split("\n")[3:6], "2026-12-01 at abc1234, code 00112233"
    )
    check_cells(read(made), ["| | a |", "| --- | --- |", "| b | 1 |"])
    with pytest.raises(MarkerError, match="a cell is not what the command made"):
        check_cells(read(made), ["| | a |", "| --- | --- |", "| b | 2 |"])


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (8.8934, 0.1312, "8.89 ± 0.13"),
        (8.8934, 0.0412, "8.893 ± 0.041"),
        (17.12, 3.64, "17.1 ± 3.6"),
        (1052.3, 113.0, "1050 ± 110"),
        (0.3337, math.nan, "0.334"),
        (0.99996, math.nan, "1.00"),
        (1234.5, math.nan, "1234"),
        (15.5, 1e-16, "15.5"),
        (15.52, 0.00001, "15.52"),
        (0.0, math.nan, "0"),
        (math.nan, math.nan, ""),
        (0.0, 0.0, "0"),
        (1e-17, math.nan, "0"),
    ],
)
def test_a_mean_has_the_digits_that_its_interval_leaves(
    mean: float, half: float, text: str
) -> None:
    assert format_mean(mean, half) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        ((1.0, math.nan, math.nan), "1"),
        ((1.0, 1.0, 1.0), "1"),
        ((1.2433, 1.0512, 1.4634), "1.24 (1.05 to 1.46)"),
        ((1.0251, 1.0183, 1.0332), "1.025 (1.018 to 1.033)"),
        ((2.5, math.nan, math.nan), "2.50"),
    ],
)
def test_a_ratio_has_the_bounds_of_its_interval(
    ratio: tuple[float, float, float], text: str
) -> None:
    assert format_ratio(*ratio) == text


def test_a_speed_up_is_the_inverse_ratio_and_seconds_become_milliseconds() -> None:
    numbers = {"task_s_ratio": 0.5, "task_s_ratio_low": 0.4, "task_s_ratio_high": 0.625}
    assert format_quantity("task_s speed-up", numbers) == "2.00 (1.60 to 2.50)"
    assert format_quantity("task_s ms", {"task_s": 0.0662}) == "66.2"
    assert format_quantity("gaps_percent", {"gaps_percent": 94.444}) == "94.4"
    with pytest.raises(MarkerError, match="no rounds"):
        format_quantity("rounds", numbers)


@pytest.mark.parametrize(
    ("command", "show", "of", "said"),
    [
        ("trunkline reproduce crew/99", "fluid rounds", "x", "expected one of crew/4"),
        ("trunkline reproduce crew/7 --flood", "fluid rounds", "x", "--flood"),
        ("trunkline compare scenarios/no.yaml --vary seed=1", "rounds", "x", "does not exist"),
        ("trunkline reproduce crew/7 --fluid", "fluid rounds", "lifo", "selects 0 results"),
        ("trunkline reproduce crew/7 --fluid", "rounds", "fair", "measures nothing"),
        ("trunkline reproduce crew/7 --fluid", "fluid speed", "fair", "fluid speed: expected"),
        ("trunkline run scenarios/quickstart.yaml", "rounds", "x", "reproduce or compare"),
    ],
)
def test_the_check_refuses_commands_and_values_that_do_not_exist(
    command: str, show: str, of: str, said: str, tmp_path: Path, capsys
) -> None:
    text = f"$ {command}\nshow: {show}\ncolumns: {{a: }}\nrows: {{b: {of}}}"
    page = tmp_path / "page.md"
    page.write_text(mark(text))
    assert figures.check([page]) == 1
    assert "page.md:1: name: " in (shown := capsys.readouterr().out) and said in shown


def test_the_check_lists_old_tables_and_those_by_hand_and_fails_for_an_unmarked_one(
    tmp_path: Path, capsys
) -> None:
    study = (
        "$ trunkline reproduce crew/7 --fluid\nshow: fluid rounds\ncolumns: {a: fair}\nrows: {b: }"
    )
    code = table_code.hash_table(read(mark(study)))
    cells = hash_cells(read(mark(study)), ["| | a |", "| --- | --- |", "| b | 1 |"])
    pages = {
        "new.md": mark(f"{study}\nmade: 2026-11-23 at 1dac291, code {code}, cells {cells}"),
        "old.md": mark(f"{study}\nmade: 2026-11-23 at 1dac291, code 00000000, cells {cells}"),
        "hand.md": mark("by hand: the values of the paper"),
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bare.md").write_text("| | a |\n| --- | --- |\n| b | 1 |\n")
    assert figures.check([tmp_path / name for name in pages]) == 0
    assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == (
        "Tables that are out of date (1):\n"
        "  old.md:1: name: made 2026-11-23; its command, scenario or script has changed\n"
        "Tables that no command makes (1):\n"
        "  hand.md:1: name: changed at an unknown time: the values of the paper\n"
        f"1 tables of numbers are up to date. {reference_results.describe_age()}\n"
    )
    (tmp_path / "new.md").write_text(pages["new.md"].replace("| b | 1 |", "| b | 2 |"))
    assert figures.check([tmp_path / "new.md"]) == 1
    assert "new.md:1: name: a cell is not what the command made" in capsys.readouterr().out
    assert figures.check([tmp_path / "bare.md"]) == 1
    assert "bare.md:1: a table of numbers without a marker" in capsys.readouterr().out


def test_a_change_of_lines_has_the_day_of_the_latest_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(table_commands, "ROOT", tmp_path)
    who = ("AUTHOR", "COMMITTER")

    def git(*words: str, date: str = "2026-01-01") -> None:
        names = {f"GIT_{each}_{what}": "a@b" for each in who for what in ("NAME", "EMAIL")}
        dates = {f"GIT_{each}_DATE": f"{date}T12:00:00Z" for each in who}
        subprocess.run(["git", *words], cwd=tmp_path, env=os.environ | names | dates, check=True)

    git("init", "--quiet")
    for number, date in enumerate(("2026-02-01", "2026-02-02", "2026-02-03")):
        lines = ["a", "b", "c"][: number + 1]
        page.write_text("\n".join(lines) + "\n")
        git("add", "page.md")
        git("commit", "--quiet", "--message", "a line", date=date)
    assert table_commands.find_change(page, 1, 1) == "2026-02-01"
    assert table_commands.find_change(page, 1, 2) == "2026-02-02"
    assert table_commands.find_change(page, 1, 3) == "2026-02-03"


def test_the_results_of_a_comparison_are_its_tables(tmp_path: Path) -> None:
    study = table_commands.read_study(
        "trunkline reproduce crew/7 --vary scheme.weights=null,uniform"
    )
    study = replace(study, folder=tmp_path, cells=study.cells[:2])
    (tmp_path / "tables").mkdir()
    head = "scheme.discipline,scheme.weights"
    (tmp_path / "tables" / "cells.csv").write_text(f"{head},rounds\nfcfs,null,3\nfcfs,uniform,4\n")
    trials = ("fcfs,null,0,1,2,pass", "fcfs,null,1,2,4,pass", "fcfs,uniform,0,1,9,pass")
    table = "\n".join((f"{head},trial,seed,rounds,verdict", *trials))
    (tmp_path / "tables" / "fluid.csv").write_text(table)
    null, uniform = table_commands.read_results(study)
    assert (null.values, null.numbers["rounds"]) == (("fcfs", "null"), 3)
    assert (null.numbers["fluid rounds"], uniform.numbers["fluid rounds"]) == (3, 9)
    assert uniform.numbers["rounds"] == 4


def test_wording_does_not_make_a_table_out_of_date_but_code_does(tmp_path: Path) -> None:
    texts = {
        "a.py": '"""Doc."""\nx = 1  # why\ndef f():\n    """Doc."""\n    return "#"\n',
        "b.py": '"""Other words.\n\nMore.\n"""\n\nx = 1\n\n\ndef f():\n    return "#"\n',
        "c.py": 'x = 2\ndef f():\n    return "#"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    a, b, c = (table_code.read_code(tmp_path / name) for name in texts)
    assert a == b != c


def test_a_table_of_runs_depends_on_its_scenario_and_on_reference_results() -> None:
    fluid = table_code.find_basis("trunkline reproduce crew/7 --fluid")
    assert (fluid.files, fluid.sides) == ((), {"fluid"})
    assert {"crew", "preduce"} <= fluid.names and any("rate_factor" in each for each in fluid.facts)
    assert table_code.find_basis("trunkline reproduce crew/7").sides == {"fluid", "measured"}
    assert table_code.find_basis("trunkline compare scenarios/quickstart.yaml").sides == {
        "measured"
    }


def test_a_table_of_a_model_of_its_own_depends_on_its_code() -> None:
    basis = table_code.find_basis("trunkline reproduce owl/9 --fluid")
    assert "rack_step.py" in {file.name for file in basis.files} and not basis.sides


def test_a_script_depends_on_its_code_its_scenarios_and_its_schemes() -> None:
    basis = table_code.find_basis("python benchmarks/plan_knowledge.py")
    assert [file.name for file in basis.files] == ["plan_knowledge.py", "cells.py"]
    assert "fapt" in basis.names and any("internet2" in fact for fact in basis.facts)
    assert basis.sides == {"fluid", "measured"}


HISTORY = """\
command,cell,quantity,value,since
trunkline reproduce crew/4 --trials 1,"{plan: crew}, true",task_s,4,2026-11-20 08:00
trunkline reproduce crew/4 --trials 1,"{plan: opr}, true",task_s,10,2026-11-20 08:00
trunkline reproduce crew/4 --trials 1,"{plan: opr}, true",task_s,9,2026-11-24 08:00
trunkline reproduce p-reduce/8 --trials 3,"{name: p-reduce}, 3",accuracy_percent,70,2026-11-20 08:00
trunkline reproduce p-reduce/8 --trials 3,"{name: p-reduce}, 3",accuracy_percent,77,2026-11-24 08:00
"""


@pytest.mark.parametrize(
    ("command", "made", "said"),
    [
        ("crew/4", "2026-11-23", "since then: crew/4 {plan: opr}, true: task_s: -10.0 %"),
        ("crew/4", "2026-11-19", "{plan: crew}, true: task_s: unknown before 2026-11-20 08:00"),
        ("crew/4", "2026-11-24", "since then: crew/4"),
        ("crew/4", "2026-11-24 09:00", ""),
        ("crew/4 --fluid", "2026-11-23", ""),
        ("crew/7", "2026-11-23", ""),
        ("netstorm/15", "2026-11-23", ""),
        ("p-reduce/8", "2026-11-23", "p-reduce/8 {name: p-reduce}, 3: accuracy_percent: +10.0 %"),
        ("p-reduce/frozen", "2026-11-23", ""),
    ],
)
def test_a_table_is_old_when_a_reference_result_of_its_scheme_has_moved(
    command: str, made: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.csv"
    file.write_text(HISTORY)
    monkeypatch.setattr(reference_results, "FILE", file)
    reference_results.list_moves.cache_clear()
    command = f"trunkline reproduce {command}"
    study = f"$ {command}\nshow: fluid rounds\ncolumns: {{a: fair}}\nrows: {{b: }}\n"
    code = table_code.hash_table(read(mark(study)))
    marker = read(mark(f"{study}made: {made} at 1dac291, code {code}, cells 00000000"))
    age = figures.find_age(marker)
    reference_results.list_moves.cache_clear()
    assert said in age and bool(said) == bool(age)


def test_a_reference_result_is_written_again_only_when_it_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.csv"
    file.write_text(
        "# all made again 2026-11-19 08:00 at 0000000\ncommand,cell,quantity,value,since\n"
    )
    monkeypatch.setattr(reference_results, "FILE", file)
    monkeypatch.setattr(
        reference_results, "COMMANDS", {"trunkline reproduce crew/4 --trials 1": ("task_s", 0.03)}
    )
    monkeypatch.setattr(reference_results, "run", lambda command: "")

    def compare(task_s: float, now: str) -> list[str]:
        numbers = {"task_s": task_s, "fluid task_s": 2.0}
        results = [Result(("{plan: crew}", "true"), numbers)]
        monkeypatch.setattr(reference_results, "read_results", lambda study: results)
        return list(reference_results.compare(now))

    assert compare(4.0, "2026-11-20 08:00") == []
    assert compare(4.1, "2026-11-21 08:00") == []
    assert compare(4.4, "2026-11-22 08:00") == ["crew/4 {plan: crew}, true: task_s: +10.0 %"]
    rows = file.read_text().splitlines()
    assert [row.rpartition('",')[2] for row in rows[2:]] == [
        "task_s,4,2026-11-20 08:00",
        "fluid task_s,2,2026-11-20 08:00",
        "task_s,4.4,2026-11-22 08:00",
    ]


def test_it_is_told_when_all_reference_runs_were_made_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    file = tmp_path / "results.csv"
    file.write_text("command,cell,quantity,value,since\na,b,c,1.5,2026-11-19 08:00\n")
    monkeypatch.setattr(reference_results, "FILE", file)
    assert "unknown when all reference runs" in reference_results.describe_age()
    monkeypatch.setattr(reference_results, "COMMANDS", {})
    assert reference_results.main() == 0
    told = reference_results.describe_age()
    commit = table_commands.find_commit()
    assert f"at {commit}. Commits since then that change agents, harness" in told
    assert told.endswith(": 0.")
    assert file.read_text().endswith("\na,b,c,1.5,2026-11-19 08:00\n")
    file.write_text("# all made again 2026-11-19 08:00 at 0000000\n")
    assert reference_results.describe_age().endswith(": unknown.")


def test_every_named_scheme_has_reference_results() -> None:
    table = pd.read_csv(reference_results.FILE, keep_default_na=False, comment="#")
    assert set(table["command"]) == set(reference_results.COMMANDS)
    for name, values in SCHEMES.items():
        made_of = {name, str(values["policy"]), str(values["plan"])}
        moves = reference_results.find_moves(made_of, "2020-01-01", {"fluid", "measured"})
        assert moves, name


def test_a_table_is_made_by_its_command_and_then_is_up_to_date(tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.md"
    command = "trunkline reproduce owl/9 --fluid --trials 1 --vary topology.alpha=1.0,0.2"
    page.write_text(
        mark(
            f"$ {command} --vary workload.model=vgg-19 --quiet --out {tmp_path / 'out'}\n"
            "show: fluid update_s ratio\ncorner: alpha\n"
            'columns: {1: "1.0", 0.2: "0.2"}\nrows: {IPart / OWL: ipart}'
        )
    )
    figures.make(page, "name")
    (row,) = (line for line in page.read_text().split("\n") if line.startswith("| IPart"))
    assert all(1 <= float(cell) < 2 for cell in row.split("|")[2:4])
    assert figures.check([page]) == 0
    assert "1 tables of numbers are up to date" in capsys.readouterr().out
    (tmp_path / "out" / "tables" / "fluid.csv").unlink()
    figures.make(page, None)
    assert not (tmp_path / "out" / "tables" / "fluid.csv").exists()
    with pytest.raises(MarkerError, match="table other: expected one of name"):
        figures.make(page, "other")


def test_a_command_that_fails_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    command = "trunkline reproduce owl/9 --fluid --quiet --set topology.alpha=fast"
    text = mark(f"$ {command}\nshow: fluid update_s\ncolumns: {{a: ipart}}\nrows: {{b: }}")
    page.write_text(text.replace("ipart", "[ipart, dfn, '1.0']"))
    before = page.read_text()
    with pytest.raises(MarkerError, match="exit code 64; the page stays as it is"):
        figures.make(page, None)
    assert page.read_text() == before


def test_a_command_ends_with_the_program_that_runs_it(tmp_path: Path) -> None:
    script, fifo = tmp_path / "slow.py", tmp_path / "fifo"
    os.mkfifo(fifo)
    tell = f"with open({str(fifo)!r}, 'w') as file: file.write(str(os.getpid()))"
    script.write_text(f"import os, time\n{tell}\ntime.sleep(600)\n")
    program = f"import table_commands; table_commands.run('python {script}')"
    path = {"PYTHONPATH": str(Path(table_commands.__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **path}) as running:
        pidfd = os.pidfd_open(int(fifo.read_text()))
        running.kill()
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)


def test_the_check_also_reads_the_readme(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(figures, "check", lambda pages: seen.extend(pages) or 0)
    monkeypatch.setattr("sys.argv", ["figures.py", "--check"])
    assert figures.main() == 0
    names = [path.name for path in seen]
    assert names[0] == "README.md" and "accuracy.md" in names
    monkeypatch.undo()
    assert figures.check(seen[:1]) == 0
