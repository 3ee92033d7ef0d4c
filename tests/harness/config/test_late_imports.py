import subprocess
import sys

import pytest

PROGRAM = """
import sys
from trunkline.harness.config.late_imports import load_at_first_use
load_at_first_use("late")
import late
import late as again
{first}
"""


@pytest.fixture
def late(tmp_path):
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").write_text(
        "print('loaded', __name__, __file__[-11:])\nfrom late import part\nVALUE = part.VALUE\n"
    )
    (tmp_path / "late" / "part.py").write_text("VALUE = 7\n")

    def run(first):
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.format(first=first)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


def test_a_module_is_not_loaded_before_it_is_used(late):
    assert late("print(type(late).__name__, 'late.part' in sys.modules)").stdout == (
        "_Unused False\n"
    )


@pytest.mark.parametrize(
    "first",
    ["print(late.VALUE)", "from late.part import VALUE; print(VALUE)", "print(again.part.VALUE)"],
)
def test_a_module_is_loaded_once_at_its_first_use(late, first):
    told = late(f"{first}; print(late.VALUE, again is late, type(late).__name__)")
    assert told.stdout == "loaded late __init__.py\n7\n7 True module\n"


def test_a_module_has_only_the_attributes_that_it_has(late):
    told = late("late.nothing")
    assert "module 'late' has no attribute 'nothing'" in told.stderr.splitlines()[-1]


def test_a_module_that_cannot_be_loaded_is_not_kept(late, tmp_path):
    (tmp_path / "late" / "part.py").write_text("1 / 0\n")
    told = late(
        "try: late.VALUE\nexcept ZeroDivisionError: print('late' in sys.modules, file=sys.stderr)"
    )
    assert told.stderr == "False\n"


def test_modules_that_are_loaded_or_missing_are_left_alone(late):
    told = late(
        "load_at_first_use('missing_module'); load_at_first_use('sys'); "
        "print('missing_module' in sys.modules, type(sys).__name__)"
    )
    assert told.stdout == "False module\n"
