"""Python imports this when a program starts: has its calls timed, then acts as if it were not here.

A `sitecustomize` of the user's own, which this one hides, is carried out as usual.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def _load(spec: importlib.machinery.ModuleSpec | None) -> None:
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        if spec.name == "trunkline_call_timing":
            module.install()


sys.path[:] = [folder for folder in sys.path if not folder or Path(folder) != _HERE]
_load(importlib.util.spec_from_file_location("trunkline_call_timing", _HERE / "call_timing.py"))
_load(importlib.machinery.PathFinder.find_spec("sitecustomize"))
