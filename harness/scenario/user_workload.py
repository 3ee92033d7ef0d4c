"""What a workload of a user's own leaves out, and what it must not get wrong.

Its file needs `build` and `model_bytes` only. Agents trust a workload with every byte that they
send, so what a site's workload gives is looked at whenever it gives it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from trunkline.harness.scenario.user_code_guard import ANYTHING, OwnCodeError, OwnError, guarded
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Vector, Workload
from trunkline.workloads.option_rules import OptionError, Rule

DEFAULTS = {"EVALUATES": False, "problems": lambda _, **__: [], "preload": lambda **_: None}
"""What a file need not have."""


def complete(made: Any, file: str, options: Iterable[str]) -> None:
    """Make a module that has `build` with these options a kind of workload. Raises OwnError."""
    if not hasattr(made, "model_bytes"):
        raise OwnError("allowed is a file with a function model_bytes(*, ...) too")
    if hasattr(made, "PROGRAMS"):
        raise OwnError("allowed is a file without PROGRAMS: kind: program runs programs")
    for name, default in DEFAULTS.items():
        if not hasattr(made, name):
            setattr(made, name, default)
    for name, (form, rule) in _ASKED.items():
        if not hasattr(made, name):
            continue
        function = getattr(made, name)
        try:
            inspect.signature(function).bind(*form.count("sites") * [()], **dict.fromkeys(options))
        except TypeError as reason:
            text = f"allowed for {name} is the form {form} with the options of build"
            raise OwnError(f"{text}: {reason}") from None
        setattr(made, name, guarded(function, file, rule, OwnCodeError))
    build, model_bytes = made.build, made.model_bytes

    @functools.wraps(build)
    def watched(*place: Any, **options: Any) -> Workload:
        return _Watched(build(*place, **options), file, model_bytes(**options) // ELEMENT_BYTES)

    made.build = watched


class _Watched:
    """The workload of one site; a mistake of its is a OwnCodeError."""

    def __init__(self, workload: Workload, file: str, elements: int) -> None:
        def times(given: Any) -> bool:
            return isinstance(given, Real) and 0 <= float(given) < math.inf

        def models(given: Any) -> bool:
            flat = isinstance(given, np.ndarray) and given.shape == (elements,)
            return flat and given.dtype == np.float32 and given.flags.c_contiguous

        model = f"contiguous float32 of shape ({elements},)"
        rules = {
            "compute": Rule(times, "a time in seconds"),
            "contribution": Rule(models, model),
            "install": ANYTHING,
            "evaluate": Rule(lambda given: isinstance(given, Evaluation | None), "an Evaluation"),
        }
        self._do = {
            name: guarded(getattr(workload, name), file, rule, OwnCodeError)
            for name, rule in rules.items()
        }

    def compute(self, iteration: int) -> float:
        return float(self._do["compute"](iteration))

    def contribution(self) -> Vector:
        given: Vector = self._do["contribution"]()
        return given

    def install(self, result: Vector) -> None:
        self._do["install"](result)

    def evaluate(self) -> Evaluation | None:
        found: Evaluation | None = self._do["evaluate"]()
        if found is None:
            return None
        return Evaluation(float(found.accuracy_percent), float(found.loss), int(found.samples))


def _is_size(given: Any) -> bool:
    return type(given) is int and given > 0 and not given % ELEMENT_BYTES


def _are_sizes(given: Any) -> bool:
    return isinstance(given, tuple) and all(map(_is_size, given))


def _are_problems(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(each, OptionError) for each in given)


_SIZE = f"an int above 0, a multiple of {ELEMENT_BYTES} (float32)"

_ASKED = {
    "model_bytes": ("model_bytes(*, ...)", Rule(_is_size, _SIZE)),
    "tensor_bytes": ("tensor_bytes(*, ...)", Rule(_are_sizes, f"a tuple; each of it {_SIZE}")),
    "problems": ("problems(sites, *, ...)", Rule(_are_problems, "a list of OptionError")),
    "preload": ("preload(*, ...)", ANYTHING),
    "files": ("files(*, ...)", ANYTHING),
}
"""What is called with the options of `build`: its form, and what it may give."""
