"""Users' plans, policies, workloads and topologies: Python files that a scenario names.

`plan: mine.py` is the file `mine.py` beside the scenario. It has a function `build` or `create`,
like a file in `agents/plans`, `agents/policies`, `workloads` or `topologies`. The scenario keeps
the text of its files under `code:`, so the resolved scenario in a run's folder needs no other file.
It does not keep the code of a topology, because the resolved scenario has all sites and links.

Every result of a user's code is checked, because agents rely on it. A wrong value or an exception
becomes an error that names the file and the line.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from trunkline.agents.planning.plan import Plan, PlanError, WrongPlanError
from trunkline.agents.policies.policy import Decision, Policy, Traits
from trunkline.harness.config.document import Document, ScenarioErrors
from trunkline.harness.config.options import make_model, read_options
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.scenario import compute_limit
from trunkline.harness.scenario.compute_limit import ComputedTooLongError, limited_call
from trunkline.harness.scenario.extensions import Extensions
from trunkline.topologies.model import Topology, TopologyError
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Workload, gives_changes
from trunkline.workloads.layered import layer_rules
from trunkline.workloads.layered.model import LayeredModel
from trunkline.workloads.option_rules import OptionError

SUFFIX = ".py"


class UserFileError(Exception):
    """A user's file cannot be used; the message says why."""


class UserCodeError(ValueError):
    """A user's workload or policy failed; the message says where and how."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a scenario that may name a user's file.

    Attributes:
        section: the section of the scenario.
        key: the key that names the file.
        kind: the kind of extension, a field of `Extensions`.
        form: the name and the parameters of the function that the file needs.
        value: the type of the function's result.
        error: the type of errors that the function raises.
    """

    section: str
    key: str
    kind: str
    form: str
    value: type
    error: type[ValueError]

    @property
    def entry(self) -> str:
        """The name of the function."""
        return self.form.partition("(")[0]

    @property
    def arguments(self) -> int:
        """The number of arguments that the function takes besides its options."""
        return self.form.partition("*")[0].count(",")


TOPOLOGY = Place("topology", "builder", "topologies", "build(rng, *, ...)", Topology, TopologyError)
POLICY = Place("scheme", "policy", "policies", "create(sites, *, ...)", Policy, ValueError)
PLAN = Place("scheme", "plan", "plans", "build(request, *, ...)", Plan, PlanError)
WORKLOAD = Place(
    "workload", "kind", "workloads", "build(rank, sites, seed, *, ...)", Workload, UserCodeError
)


def find(known: Extensions, source: Document, read: Read) -> Extensions:
    """Run the files that a scenario names, and add them to the extensions.

    Args:
        known: the extensions so far.
        source: the scenario's document; `code` has the text of the files afterwards.
        read: reads a file by its name.

    Raises:
        ScenarioErrors: a file cannot be used. Its options are then unknown, so reading stops here.
    """
    code = source.data.get("code", {})
    code = code if isinstance(code, dict) else {}
    named: list[str] = []
    kept: dict[str, Any] = {}
    failed = False
    for place in (TOPOLOGY, WORKLOAD, POLICY, PLAN):
        path = (place.section, place.key)
        name = source.get(path)
        if not isinstance(name, str) or not name.endswith(SUFFIX):
            continue
        named.append(name)
        try:
            text = code[name] if name in code else read(name)
            made = _run_file(place, name, str(text))
        except (UserFileError, FaultError) as reason:
            source.refuse(path, str(reason).removeprefix(f"{name}: "))
            failed = True
            continue
        known = replace(known, **{place.kind: {**getattr(known, place.kind), name: made}})
        if place is not TOPOLOGY:
            kept[name] = text
    if failed:
        raise ScenarioErrors(source.problems)
    for name in code.keys() - named:
        allowed = "expected what workload.kind, scheme.plan or scheme.policy names"
        source.refuse(("code", name), allowed, "")
    if isinstance(source.data.get("code", {}), dict):
        source.data["code"] = kept
    return known


@functools.cache
def _run_file(place: Place, name: str, text: str) -> ModuleType:
    """Run the text of a file; returns its module with checked functions. Raises UserFileError.

    The cache lets a command that reads a scenario twice run its files once.
    """
    made = ModuleType(f"{name.removesuffix(SUFFIX)}_{hashlib.sha256(text.encode()).hexdigest()}")
    made.__file__ = name
    sys.modules[made.__name__] = made  # dataclasses look up their module there
    try:
        # A program may parse our standard output.
        with contextlib.redirect_stdout(sys.stderr), limited_call():
            exec(compile(text, name, "exec"), made.__dict__)
    except SyntaxError as reason:
        raise UserFileError(f"line {reason.lineno}: {reason.msg}") from None
    except ComputedTooLongError as reason:
        raise UserFileError(_describe_excess(reason, name, "it")) from None
    except (Exception, SystemExit) as reason:
        raise UserFileError(_describe(reason, name)) from None
    function = getattr(made, place.entry, None)
    if not callable(function):
        raise UserFileError(f"expected a file with a function {place.form}")
    options = _read_options(place, function)
    setattr(
        made, place.entry, _check_results(function, name, _instance_of(place.value), place.error)
    )
    if place is WORKLOAD:
        _complete_workload(made, name, options)
    if place is POLICY:
        _check_policy(made, name)
    return made


def _read_options(place: Place, function: Callable[..., Any]) -> list[str]:
    """The names of a function's options. Raises UserFileError if its form is not the place's."""
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    passed = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    others = {kind for kind in passed if kind not in plain} - {inspect.Parameter.KEYWORD_ONLY}
    if sum(kind in plain for kind in passed) != place.arguments or others:
        allowed = f"expected {place.entry} in the form {place.form}, options after the *"
        raise UserFileError(allowed)
    try:
        options = read_options(function)
        make_model(place.entry, options)
    except Exception as reason:
        text = f"an option of {place.entry} has no type that a file can have: {reason}"
        raise UserFileError(text) from None
    return [option.name for option in options]


# -- results of a user's code ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Result:
    """The results that a function may return: a condition, its description, and a conversion.

    The conversion may raise ValueError for what is wrong within a result.
    """

    holds: Callable[[Any], bool]
    allowed: str
    convert: Callable[[Any], Any] = lambda given: given


_ANYTHING = _Result(lambda _: True, "")


def _instance_of(kind: type) -> _Result:
    return _Result(lambda given: isinstance(given, kind), f"a {kind.__name__}")


def _check_results(
    function: Callable[..., Any],
    file: str,
    result: _Result,
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
            text = _describe_excess(reason, file, f"{name}()")
            raise error(f"{file}: {text}") from None
        except Exception as reason:
            raise wrong(f"{file}: {_describe(reason, file)}") from reason
        if not result.holds(made):
            raise wrong(f"{file}: {name} gave {_show(made)}: expected {result.allowed}")
        try:
            return result.convert(made)
        except ValueError as reason:
            raise error(f"{file}: {name} gave {reason}") from None

    return checked


def _check_methods(thing: Any, file: str, results: Mapping[str, _Result], owner: str = "") -> Any:
    """An object with these methods of a thing, each of them checked."""
    return SimpleNamespace(
        **{
            name: _check_results(getattr(thing, name), file, result, UserCodeError, owner)
            for name, result in results.items()
        }
    )


def _describe(error: BaseException, file: str) -> str:
    """Describe an exception: the line of the file, the type and the message."""
    return f"{_find_line(error, file)}{type(error).__name__}: {error}"


def _describe_excess(error: BaseException, file: str, who: str) -> str:
    """Say which call computed for too long, and the line of the file where it was stopped."""
    return f"{_find_line(error, file)}{who} computed for more than {compute_limit.CALL_S:g} s"


def _find_line(error: BaseException, file: str) -> str:
    """`line 7: ` for the last line of the file that an exception passed; empty if there is none."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == file]
    return f"line {lines[-1]}: " if lines else ""


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"{value!r:.60}"


# -- policies -------------------------------------------------------------------------------------


def _check_policy(made: Any, file: str) -> None:
    """Check the form of the results of the policies that the module creates.

    `agents.control.decision_rules` checks the values of their decisions.
    """
    create = made.create
    form = "a pair: the state, and a tuple of Start, Proceed and Wake"

    @functools.wraps(create)
    def checked(sites: tuple[str, ...], **options: Any) -> Policy:
        policy = create(sites, **options)
        traits = Traits.of(policy)
        initial = _check_results(lambda: policy.initial, file, _ANYTHING, UserCodeError)()
        found: Policy = _check_methods(policy, file, {"step": _Result(_is_step, form)})
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


def _complete_workload(made: Any, file: str, options: Iterable[str]) -> None:
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
        setattr(made, name, _check_results(function, file, result, UserCodeError))
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
        found: LayeredModel = _check_results(layers, file, result, UserCodeError)(**given)
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


def _layers_of(made: Any, options: Mapping[str, Any]) -> _Result:
    """The allowed layers of a workload kind with these options."""
    sizes = made.tensor_bytes(**options)
    return replace(_LAYERED, convert=lambda given: layer_rules.check(given, sizes))


def _workload_methods(elements: int) -> dict[str, _Result]:
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

    model = _Result(is_model, f"contiguous float32 of shape ({elements},)")
    return {
        "compute": _TIME,
        "commit": _ANYTHING,
        "change": model,
        "contribution": model,
        "install": _ANYTHING,
        "evaluate": _Result(is_evaluation, "an Evaluation", plain),
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

_TIME = _Result(_is_time, "a time in seconds", float)
_LAYERED = _instance_of(LayeredModel)

_FUNCTIONS = {
    "model_bytes": ("model_bytes(*, ...)", _Result(_is_size, _SIZE)),
    "tensor_bytes": ("tensor_bytes(*, ...)", _Result(_are_sizes, f"a tuple; each of it {_SIZE}")),
    "layers": ("layers(*, ...)", _LAYERED),
    "compute_times": ("compute_times(rank, sites, seed, *, ...)", _ANYTHING),
    "problems": ("problems(sites, *, ...)", _Result(_are_problems, "a list of OptionError")),
    "preload": ("preload(*, ...)", _ANYTHING),
    "files": ("files(*, ...)", _ANYTHING),
}
"""The functions that take the options of `build`: their forms and allowed results."""
