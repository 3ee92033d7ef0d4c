"""Modules to preload that would make something for all sites together."""

import sys
from pathlib import Path

import pytest

from trunkline.workloads import program
from trunkline.workloads.option_rules import OptionError


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("import multiprocessing as m\nkept = m.Lock()", "the lock sem."),
        ("import mmap\nkept = mmap.mmap(-1, 4096)", "the shared memory /dev/zero"),
        ("import os\nkept = os.pipe()", "pipe:["),
        ("import socket\nkept = [each.detach() for each in socket.socketpair()]", "socket:["),
    ],
)
def test_a_module_that_all_sites_would_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, made: str
) -> None:
    name = f"shared_{abs(hash(made))}"
    (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "private.py").write_text("import threading\nkept = threading.Lock()")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"command": ("python3", "private.py"), "folder": str(tmp_path)}
    program.preload(**options, preload=("private",))
    with pytest.raises(OptionError) as refused:
        program.preload(**options, preload=("private", name))
    assert made in str(refused.value)
    assert name in str(refused.value)
    sys.modules.pop(name)
    sys.modules.pop("private")
