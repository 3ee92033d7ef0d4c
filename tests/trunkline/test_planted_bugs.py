"""The list of planted bugs cannot rot: each can be planted in the present code."""

import ast
from pathlib import Path

import pytest
from planted_bugs import MUTANTS

AGENTS = Path(__file__).parents[2] / "agents"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_the_text_that_a_planted_bug_changes_occurs_once_and_its_file_stays_python(mutant):
    text = (AGENTS / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    planted = text.replace(mutant.old, mutant.new)
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text))


def test_every_planted_bug_has_a_name_of_its_own():
    assert len({mutant.breaks for mutant in MUTANTS}) == len(MUTANTS)
