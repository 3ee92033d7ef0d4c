"""What a user's code may return: every result is checked, because agents rely on it.

A wrong value or an exception becomes an error that names the file and the line.
"""

from __future__ import annotations

import functools
import inspect
import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np

from trunkline.agents.planning.plan import PlanError, WrongPlanError
from trunkline.agents.policies.policy import Decision, Policy, Traits
from trunkline.harness.config.document import shorten
from trunkline.harness.scenario import compute_limit
from trunkline.harness.scenario.compute_limit import ComputedTooLongError, limited_call
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Workload, gives_changes
from trunkline.workloads.layered import layer_rules
from trunkline.workloads.layered.model import LayeredModel
from trunkline.workloads.option_rules import OptionError


class UserFileError(Exception):
    """A user's file cannot be used; the message says why."""


class UserCodeError(ValueError):
    """A user's workload or policy failed; the message says where and how."""


@dataclass(frozen=True, slots=True)
class Result:
    """The results that a function may return: a condition, its description, and a conversion.

    The conversion may raise ValueError for what is wrong within a result.
    """

    holds: Callable[[Any], bool]
    allowed: str
    convert: Callable[[Any], Any] = lambda given: given


_ANYTHING = Result(lambda _: True, "")


def instance_of(kind: type) -> Result:
    """Only an instance of this class."""
    return Result(lambda given: isinstance(given, kind), f"a {kind.__name__}")


def check_results(
    function: Callable[..., Any],
    file: str,
    result: Result,
    error: type[ValueError],
    owner: str = "",
) -> Callable[..., Any]:
    """Wrap a function of the file, so that it returns an allowed result or raises this error."""
    name = f"{owner}{function.__name__}"
    wrong = WrongPlanError if error is PlanError else error

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            with limited_call():
                made = function(*arguments, **options)
        except error:
            raise
        except ComputedTooLongError as reason:
            text = describe_excess(reason, file, f"{name}()")
            raise error(f"{file}: {text}") from None
        except (Exception, SystemExit) as reason:
            raise wrong(f"{file}: {describe(reason, file)}") from reason
        if not result.holds(made):
            raise wrong(f"{file}: {name} gave {_show(made)}: expected {result.allowed}")
        try:
            return result.convert(made)
        except ValueError as reason:
            raise error(f"{file}: {name} gave {reason}") from None

    return checked


def _check_methods(thing: Any, file: str, results: Mapping[str, Result], owner: str = "") -> Any:
    """An object with these methods of a thing, each of them checked."""
    return SimpleNamespace(
        **{
            name: check_results(getattr(thing, name), file, result, UserCodeError, owner)
            for name, result in results.items()
        }
    )


def describe(error: BaseException, file: str) -> str:
    """Describe an exception: the line of the file, the type and the message."""
    return f"{_find_line(error, file)}{type(error).__name__}: {error}"


def describe_excess(error: BaseException, file: str, who: str) -> str:
    """Say which call computed for too long, and the line of the file where it was stopped."""
    return f"{_find_line(error, file)}{who} computed for more than {compute_limit.CALL_S:g} s"


def _find_line(error: BaseException, file: str) -> str:
    """`line 7: ` for the last line of the file that an exception passed; empty if there is none."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == file]
    return f"line {lines[-1]}: " if lines else ""


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return shorten(repr(value), 60)


# -- policies -------------------------------------------------------------------------------------


def complete_policy(made: Any, file: str) -> None:
    """Check the form of the results of the policies that the module creates.

    `agents.control.decision_rules` checks the values of their decisions.
    """
    create = made.create
    form = "a pair: the state, and a tuple of Start, Proceed and Wake"

    @functools.wraps(create)
    def checked(sites: tuple[str, ...], **options: Any) -> Policy:
        policy = create(sites, **options)
        traits = Traits.of(policy)
        initial = check_results(lambda: policy.initial, file, _ANYTHING, UserCodeError)()
        found: Policy = _check_methods(policy, file, {"step": Result(_is_step, form)})
        found.initial = initial  # type: ignore[misc]
        for declared in fields(traits):
            setattr(found, declared.name, getattr(traits, declared.name))
        return found

    made.create = checked


def _is_step(given: Any) -> bool:
    match given:
        case (_, tuple(decisions)):
            return all(isinstance(each, Decision) for each in decisions)
    return False


# -- workloads ------------------------------------------------------------------------------------

_OF_CHANGES = ("commit", "change")
"""The methods that a workload may leave out."""

_DEFAULTS = {"EVALUATES": False, "problems": lambda _, **__: [], "preload": lambda **_: None}
"""Defaults of the functions and values that a workload's file may leave out."""


def complete_workload(made: Any, file: str, options: Iterable[str]) -> None:
    """Complete a module with `build` and these options to a workload kind."""
    if not hasattr(made, "model_bytes"):
        raise UserFileError("expected a file with a function model_bytes(*, ...) too")
    if hasattr(made, "PROGRAMS"):
        raise UserFileError("expected a file without PROGRAMS: kind: program runs programs")
    for name, default in _DEFAULTS.items():
        if not hasattr(made, name):
            setattr(made, name, default)
    for name, (form, result) in _FUNCTIONS.items():
        if not hasattr(made, name):
            continue
        function = getattr(made, name)
        try:
            place = form.partition("*")[0].count(",") * [()]
            inspect.signature(function).bind(*place, **dict.fromkeys(options))
        except TypeError as reason:
            text = f"expected {name} in the form {form} with the options of build"
            raise UserFileError(f"{text}: {reason}") from None
        setattr(made, name, check_results(function, file, result, UserCodeError))
    build, model_bytes = made.build, made.model_bytes
    in_layers = hasattr(made, "layers")
    if in_layers:
        _check_layers(made, file)
    else:
        _refuse_lost_layers(made)
    if hasattr(made, "compute_times"):
        _check_compute_times(made, file)

    @functools.wraps(build)
    def checked(*place: Any, **given: Any) -> Workload:
        workload = build(*place, **given)
        methods = _workload_methods(model_bytes(**given) // ELEMENT_BYTES)
        if in_layers:
            if not hasattr(workload, "layers"):
                raise UserCodeError(f"{file}: its workload has no layers: expected one with layers")
            hooks = ("begin", "receive", "compute_branch")  # if it really computes each branch
            methods |= {name: _ANYTHING for name in hooks if hasattr(workload, name)}
            methods["layers"] = _layers_of(made, given)
        missing = [name for name in _OF_CHANGES if not hasattr(workload, name)]
        if missing and (gives_changes(made) or len(missing) < len(_OF_CHANGES)):
            allowed = "commit and change, or neither of them and no GIVES_CHANGES"
            raise UserCodeError(f"{file}: its workload has no {missing[0]}: expected {allowed}")
        for name in missing:
            del methods[name]
        found: Workload = _check_methods(workload, file, methods)
        return found

    made.build = checked


def _check_layers(made: Any, file: str) -> None:
    """Check that a file with `layers` has all functions for them, and that its sizes agree."""
    for name in ("tensor_bytes", "compute_times"):
        if not hasattr(made, name):
            raise UserFileError(f"expected a file with layers and a function {name} too")
    layers = made.layers

    @functools.wraps(layers)
    def checked(**given: Any) -> LayeredModel:
        result = _layers_of(made, given)
        found: LayeredModel = check_results(layers, file, result, UserCodeError)(**given)
        return found

    made.layers = checked


def _refuse_lost_layers(made: Any) -> None:
    """Refuse a file whose workload is in layers, but which has no function `layers`."""
    for each in vars(made).values():
        is_own = isinstance(each, type) and each.__module__ == made.__name__
        is_workload = hasattr(each, "install") or hasattr(each, "time_s")
        if is_own and is_workload and callable(getattr(each, "layers", None)):
            text = f"{each.__name__} has a method layers"
            raise UserFileError(f"{text}: expected a file with a function layers(*, ...) too")


def _check_compute_times(made: Any, file: str) -> None:
    """Check what a file knows of iterations before the run: their times, and their branches."""
    compute_times = made.compute_times

    @functools.wraps(compute_times)
    def checked(*place: Any, **given: Any) -> Any:
        times = compute_times(*place, **given)
        methods = {"time_s": _TIME}
        if hasattr(made, "layers"):
            methods["layers"] = _layers_of(made, given)
        for name in methods:
            if not callable(getattr(times, name, None)):
                what = f"compute_times gave {_show(times)}"
                raise UserCodeError(f"{file}: {what}: expected an object with a method {name}")
        return _check_methods(times, file, methods, "compute_times(...).")

    made.compute_times = checked


def _layers_of(made: Any, options: Mapping[str, Any]) -> Result:
    """The allowed layers of a workload kind with these options."""
    sizes = made.tensor_bytes(**options)
    return replace(_LAYERED, convert=lambda given: layer_rules.check(given, sizes))


def _workload_methods(elements: int) -> dict[str, Result]:
    """The allowed results of the methods of a workload whose model has so many elements."""

    def is_model(given: Any) -> bool:
        flat = isinstance(given, np.ndarray) and given.shape == (elements,)
        return flat and given.dtype == np.float32 and given.flags.c_contiguous

    def is_evaluation(given: Any) -> bool:
        return isinstance(given, Evaluation | None)

    def plain(given: Evaluation | None) -> Evaluation | None:
        if given is None:
            return None
        return Evaluation(float(given.accuracy_percent), float(given.loss), int(given.samples))

    model = Result(is_model, f"contiguous float32 of shape ({elements},)")
    return {
        "compute": _TIME,
        "commit": _ANYTHING,
        "change": model,
        "contribution": model,
        "install": _ANYTHING,
        "evaluate": Result(is_evaluation, "an Evaluation", plain),
    }


def _is_time(given: Any) -> bool:
    return isinstance(given, Real) and 0 <= float(given) < math.inf


def _is_size(given: Any) -> bool:
    return type(given) is int and given > 0 and not given % ELEMENT_BYTES


def _are_sizes(given: Any) -> bool:
    return isinstance(given, tuple) and all(map(_is_size, given))


def _are_problems(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(each, OptionError) for each in given)


_SIZE = f"an int above 0, a multiple of {ELEMENT_BYTES} (float32)"

_TIME = Result(_is_time, "a time in seconds", float)
_LAYERED = instance_of(LayeredModel)

_FUNCTIONS = {
    "model_bytes": ("model_bytes(*, ...)", Result(_is_size, _SIZE)),
    "tensor_bytes": ("tensor_bytes(*, ...)", Result(_are_sizes, f"a tuple; each of it {_SIZE}")),
    "layers": ("layers(*, ...)", _LAYERED),
    "compute_times": ("compute_times(rank, sites, seed, *, ...)", _ANYTHING),
    "problems": ("problems(sites, *, ...)", Result(_are_problems, "a list of OptionError")),
    "preload": ("preload(*, ...)", _ANYTHING),
    "files": ("files(*, ...)", _ANYTHING),
    "try_out": ("try_out(*, ...)", Result(_are_problems, "a list of OptionError")),
}
"""The functions that take the options of `build`: their forms and allowed results."""
