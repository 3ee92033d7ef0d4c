"""What a user's own code may give and raise: whatever else it does is an error with its line."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from trunkline.workloads.option_rules import Rule

ANYTHING = Rule(lambda _: True, "")


class OwnError(Exception):
    """A file that is not what the scenario says it is; the message says why."""


class OwnCodeError(ValueError):
    """A workload or policy of a user's own went wrong; the message says where and how."""


def guarded(
    function: Callable[..., Any], file: str, rule: Rule, error: type[ValueError]
) -> Callable[..., Any]:
    """A function of the file that gives nothing but what the rule allows, or raises this error."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            made = function(*arguments, **options)
        except error:
            raise
        except Exception as reason:
            raise error(f"{file}: {said(reason, file)}") from reason
        if not rule.holds(made):
            what = f"{function.__name__} gave {_shown(made)}"
            raise error(f"{file}: {what}: allowed is {rule.allowed}")
        return made

    return guarded


def said(error: BaseException, file: str) -> str:
    """What went wrong, and in which line of the file."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == file]
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"{value!r:.60}"
