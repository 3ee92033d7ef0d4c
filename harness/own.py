"""Plans, policies and topologies of a user's own: Python files that a scenario names.

`plan: mine.py` is the file `mine.py` beside the scenario, with the function `build` or `create`
that a file of `agents/plans`, `agents/policies` or `topologies` has. The scenario keeps the text of
plans and policies under `code:`, so that its resolved form, and with it a run's folder, needs no
other file. Of topologies it keeps what they built.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from agents import registry
from agents.plan import Plan, PlanError
from agents.policy import Policy
from harness.document import Document, ScenarioErrors
from harness.extensions import Extensions
from harness.faults import FaultError
from harness.options import model_of, options_of
from harness.settings import Scenario
from harness.wording import Read
from topologies.model import Topology, TopologyError

SUFFIX = ".py"


@dataclass(frozen=True, slots=True)
class Place:
    """A key that may name a file, the kind of extension that this is, the function that it needs.

    That function gives a `value`; whatever goes wrong in it counts as an `error`.
    """

    section: str
    key: str
    kind: str
    form: str
    value: type
    error: type[ValueError]


TOPOLOGY = Place("topology", "builder", "topologies", "build(rng, *, ...)", Topology, TopologyError)
POLICY = Place("scheme", "policy", "policies", "create(sites, *, ...)", Policy, ValueError)
PLAN = Place("scheme", "plan", "plans", "build(request, *, ...)", Plan, PlanError)


class OwnError(Exception):
    """A file that is no plan, policy or topology; the message says why."""


def plan(scenario: Scenario) -> ModuleType:
    """The module of the scenario's plan, its own or one of `agents.plans`."""
    name = scenario.scheme.plan.kind
    text = scenario.code.get(name)
    return registry.plans()[name] if text is None else _module(PLAN, name, text)


def policy(scenario: Scenario) -> ModuleType:
    """The module of the scenario's policy, its own or one of `agents.policies`."""
    name = scenario.scheme.policy.kind
    text = scenario.code.get(name)
    return registry.policies()[name] if text is None else _module(POLICY, name, text)


def extended(known: Extensions, source: Document, read: Read) -> Extensions:
    """The extensions with the files that a scenario names, whose text it then has under `code`.

    Runs these files. Raises ScenarioErrors where one cannot be used: what its options are is then
    not known.
    """
    code = source.data.get("code", {})
    code = code if isinstance(code, dict) else {}
    named: list[str] = []
    kept: dict[str, Any] = {}
    failed = False
    for place in (TOPOLOGY, POLICY, PLAN):
        path = (place.section, place.key)
        name = source.get(path)
        if not isinstance(name, str) or not name.endswith(SUFFIX):
            continue
        named.append(name)
        try:
            text = code[name] if name in code else read(name)
            made = _module(place, name, str(text))
        except (OwnError, FaultError) as reason:
            source.refuse(path, str(reason).removeprefix(f"{name}: "))
            failed = True
            continue
        known = replace(known, **{place.kind: {**getattr(known, place.kind), name: made}})
        if place is not TOPOLOGY:
            kept[name] = text
    if failed:
        raise ScenarioErrors(source.problems)
    for name in code.keys() - named:
        source.refuse(("code", name), "allowed is what scheme.plan or scheme.policy names", "")
    if isinstance(source.data.get("code", {}), dict):
        source.data["code"] = kept
    return known


@functools.cache
def _module(place: Place, name: str, text: str) -> ModuleType:
    """What the text of a file defines. Raises OwnError."""
    made = ModuleType(f"{name.removesuffix(SUFFIX)}_{hashlib.sha256(text.encode()).hexdigest()}")
    made.__file__ = name
    sys.modules[made.__name__] = made  # where dataclasses look for their module
    try:
        exec(compile(text, name, "exec"), made.__dict__)
    except SyntaxError as reason:
        raise OwnError(f"line {reason.lineno}: {reason.msg}") from None
    except (Exception, SystemExit) as reason:
        raise OwnError(_said(reason, name)) from None
    entry = place.form.partition("(")[0]
    function = getattr(made, entry, None)
    if not callable(function):
        raise OwnError(f"allowed is a file with a function {place.form}")
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    others = {kind for kind in kinds if kind not in plain}
    if sum(kind in plain for kind in kinds) != 1 or others - {inspect.Parameter.KEYWORD_ONLY}:
        raise OwnError(f"allowed for {entry} is the form {place.form}, options after the *")
    try:
        model_of(entry, options_of(function))
    except Exception as reason:
        raise OwnError(f"an option of {entry} has no type that a file can have: {reason}") from None
    setattr(made, entry, _guarded(function, name, place))
    return made


def _guarded(function: Callable[..., Any], name: str, place: Place) -> Callable[..., Any]:
    """The function, which gives nothing else and raises no other error than the place says."""
    value, error = place.value, place.error

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            made = function(*arguments, **options)
        except error:
            raise
        except Exception as reason:
            raise error(f"{name}: {_said(reason, name)}") from reason
        if not isinstance(made, value):
            text = f"{function.__name__} gave {made!r:.60}, which is no {value.__name__}"
            raise error(f"{name}: {text}")
        return made

    return guarded


def _said(error: BaseException, name: str) -> str:
    """What went wrong, and in which line of the file."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == name]
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"
