"""Python imports this when a program starts: has its calls timed and its steps computed.

Then it acts as if it were not here: a `sitecustomize` of the user's own, which this one hides, is
carried out as usual.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).parent


def _load(spec: importlib.machinery.ModuleSpec | None) -> ModuleType | None:
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _load_own(name: str) -> ModuleType | None:
    path = _HERE / f"{name}.py"
    return _load(importlib.util.spec_from_file_location(f"trunkline_{name}", path))


sys.path[:] = [folder for folder in sys.path if not folder or Path(folder) != _HERE]
_timing, _steps = _load_own("call_timing"), _load_own("step_compute")
if _timing is not None and _steps is not None:
    if _timing.WANTED in os.environ:
        _timing.install()
    _steps.install(_timing)
_load(importlib.machinery.PathFinder.find_spec("sitecustomize"))
