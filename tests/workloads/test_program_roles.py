"""Which programs run at which sites, with which words, variables and rules."""

from pathlib import Path

import pytest

from trunkline.workloads.option_rules import OptionError
from trunkline.workloads.program import files, missing_files, place_programs, problems
from trunkline.workloads.program_roles import (
    MASTER_PORT,
    Readiness,
    RestartRule,
    Role,
    find_programs,
    list_targets,
)

SITES = ("n1", "n2", "n3")
ROLES = {
    "lighthouse": Role(("serve", 29510), ("n2",), ready=Readiness(29510), exit="any"),
    "trainer": Role(
        ("train",),
        arguments={"n3": ("--lr", 0.1)},
        env={"GROUP": {"n1": 0, "n3": 1}, "COLOUR": "red"},
        folder="trainers",
        start_s={"n3": 4.0},
        after=("lighthouse",),
        exit=(0, 1, "SIGTERM"),
        restart=RestartRule("failure", 2.0, 3),
    ),
}


def test_each_role_has_a_program_at_each_of_its_sites_with_ranks_of_its_own():
    placed = place_programs(SITES, {"programs": ROLES, "folder": "/f", "env": {"COLOUR": "blue"}})
    assert list(placed) == ["n2.lighthouse", "n1.trainer", "n2.trainer", "n3.trainer"]
    served, first, third = placed["n2.lighthouse"], placed["n1.trainer"], placed["n3.trainer"]
    assert (served.command, served.sites, served.site_rank) == (("serve", "29510"), ("n2",), 1)
    assert (served.master_port, first.master_port) == (MASTER_PORT, MASTER_PORT + 1)
    assert (first.command, third.command) == (("train",), ("train", "--lr", "0.1"))
    assert (first.env, third.env) == (
        {"COLOUR": "red", "GROUP": "0"},
        {"COLOUR": "red", "GROUP": "1"},
    )
    assert placed["n2.trainer"].env == {"COLOUR": "red"}
    assert (served.env, first.folder) == ({"COLOUR": "blue"}, Path("/f/trainers"))
    assert (first.start_s, third.start_s, third.sites) == (0.0, 4.0, SITES)


def test_a_program_without_a_role_has_the_name_of_its_site():
    placed = place_programs(SITES, {"command": {"n3": ("a",), "n1": ("b",)}, "exit": (4,)})
    assert list(placed) == ["n1", "n3"]
    assert placed["n3"].command == ("a",)
    assert placed["n3"].sites == ("n1", "n3")
    assert placed["n1"].may_end_with(4) and not placed["n1"].may_end_with(0)


def test_the_rules_of_a_role_say_which_exits_are_right_and_which_are_followed_by_a_restart():
    placed = place_programs(SITES, {"programs": ROLES})
    trainer, lighthouse = placed["n1.trainer"], placed["n2.lighthouse"]
    assert [trainer.may_end_with(code) for code in (0, 1, 2, -15, -9)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert lighthouse.may_end_with(-11)
    assert [trainer.comes_back(code, 0) for code in (0, 1, -9)] == [False, True, True]
    assert (trainer.comes_back(1, 2), trainer.comes_back(1, 3)) == (True, False)
    assert not lighthouse.comes_back(1, 0)


def test_without_a_time_of_its_own_each_restart_comes_later_than_the_one_before():
    assert [RestartRule().delay_s(before) for before in (0, 1, 2, 3, 4, 5, 10**9)] == [
        1.0,
        2.0,
        4.0,
        8.0,
        10.0,
        10.0,
        10.0,
    ]
    assert [RestartRule(after_s=0.5).delay_s(before) for before in (0, 9)] == [0.5, 0.5]


def test_a_program_is_given_up_only_after_an_exit_that_its_rule_is_for():
    trainer = place_programs(SITES, {"programs": ROLES})["n1.trainer"]
    assert [trainer.is_given_up(1, before) for before in (2, 3)] == [False, True]
    assert not trainer.is_given_up(0, 3)
    assert trainer.last_restart == "after restart 3 of 3 (restart.at_most)"
    assert not place_programs(SITES, {"programs": ROLES})["n2.lighthouse"].is_given_up(1, 99)


def test_a_name_means_one_program_or_those_of_a_site_or_those_of_a_role():
    placed = place_programs(SITES, {"programs": ROLES})
    assert find_programs(placed, "n2") == ("n2.lighthouse", "n2.trainer")
    assert find_programs(placed, "trainer") == ("n1.trainer", "n2.trainer", "n3.trainer")
    assert find_programs(placed, "n1.trainer") == ("n1.trainer",)
    assert find_programs(placed, "n1.lighthouse") == ()
    assert list_targets(placed)["n1"] == ("n1.trainer",)


def test_a_preload_needs_one_command_that_runs_a_python_file():
    roles = {"a": Role(("python3", "x.py")), "b": Role(("serve",))}
    assert problems(SITES, programs=roles, preload=("fractions",)) == []
    (problem,) = problems(SITES, programs={"b": roles["b"]}, preload=("fractions",))
    assert problem.allowed == "a command python3 FILE.py"
    with pytest.raises(OptionError, match="preload"):
        place_programs(SITES, {"programs": {"b": roles["b"]}, "preload": ("fractions",)})


def test_what_is_missing_is_looked_for_in_the_folder_of_each_role(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("")
    (tmp_path / "a" / "y.txt").write_text("")
    role = Role(("python3", "x.py"), arguments={"n1": ("y.txt",)}, folder="a")
    given = {"programs": {"r": role}, "folder": str(tmp_path)}
    assert missing_files(**given) == []
    assert files(**given) == [tmp_path / "a" / "x.py", tmp_path / "a" / "y.txt"]
    other = {"r": Role(("python3", "x.py")), "s": Role(("true",), folder="b")}
    keys = [each.key for each in missing_files(programs=other, folder=str(tmp_path))]
    assert keys == ["programs.r.command", "programs.s.folder"]
