"""The folders of Trunkline's own files, in a checkout or in an installation; names of scenarios."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import trunkline

PACKAGE = Path(trunkline.__file__).parent
"""The folder of the import package: `trunkline.agents` is its `agents`."""

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds `agents`, `harness` and the others; in a checkout, the repository."""

SCENARIOS = ROOT / "scenarios"
VAGRANT = ROOT / "vagrant"

OWN_FOLDERS = ("/dev", "/dev/shm", "/run", "/tmp")
"""The folders in whose place a private run has empty ones of its own."""


def find_scenario_folder() -> Path:
    """The folder `scenarios` here, or else that of this installation."""
    here = Path("scenarios")
    return here if here.is_dir() else SCENARIOS


def name_after(file: str) -> str:
    """The name of the scenario in a file that gives none: plain letters of the file's name."""
    parts = unicodedata.normalize("NFKD", Path(file).stem)
    plain = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._") or "scenario"
