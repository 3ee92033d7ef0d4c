"""Plans, policies, workloads and topologies of a user's own: Python files that a scenario names.

`plan: mine.py` is the file `mine.py` beside the scenario, with the function `build` or `create`
that a file of `agents/plans`, `agents/policies`, `workloads` or `topologies` has. The scenario
keeps the text of its files under `code:`, so that its resolved form, and with it a run's folder,
needs no other file. Of topologies it keeps what they built.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from trunkline.agents.planning.plan import Plan, PlanError
from trunkline.agents.policies.policy import Policy
from trunkline.harness.config.document import Document, ScenarioErrors
from trunkline.harness.config.options import model_of, options_of
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.scenario import user_policy, user_workload
from trunkline.harness.scenario.extensions import Extensions
from trunkline.harness.scenario.user_code_guard import OwnCodeError, OwnError, guarded, said
from trunkline.topologies.model import Topology, TopologyError
from trunkline.workloads.base import Workload
from trunkline.workloads.option_rules import Rule

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

    @property
    def arguments(self) -> int:
        """How many the function takes besides its options."""
        return self.form.partition("*")[0].count(",")


TOPOLOGY = Place("topology", "builder", "topologies", "build(rng, *, ...)", Topology, TopologyError)
POLICY = Place("scheme", "policy", "policies", "create(sites, *, ...)", Policy, ValueError)
PLAN = Place("scheme", "plan", "plans", "build(request, *, ...)", Plan, PlanError)
WORKLOAD = Place(
    "workload", "kind", "workloads", "build(rank, sites, seed, *, ...)", Workload, OwnCodeError
)


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
    for place in (TOPOLOGY, WORKLOAD, POLICY, PLAN):
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
        allowed = "allowed is what workload.kind, scheme.plan or scheme.policy names"
        source.refuse(("code", name), allowed, "")
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
        with contextlib.redirect_stdout(sys.stderr):  # what we print may be read by a program
            exec(compile(text, name, "exec"), made.__dict__)
    except SyntaxError as reason:
        raise OwnError(f"line {reason.lineno}: {reason.msg}") from None
    except (Exception, SystemExit) as reason:
        raise OwnError(said(reason, name)) from None
    entry = place.form.partition("(")[0]
    function = getattr(made, entry, None)
    if not callable(function):
        raise OwnError(f"allowed is a file with a function {place.form}")
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    passed = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    others = {kind for kind in passed if kind not in plain} - {inspect.Parameter.KEYWORD_ONLY}
    if sum(kind in plain for kind in passed) != place.arguments or others:
        raise OwnError(f"allowed for {entry} is the form {place.form}, options after the *")
    try:
        options = options_of(function)
        model_of(entry, options)
    except Exception as reason:
        raise OwnError(f"an option of {entry} has no type that a file can have: {reason}") from None
    rule = Rule(lambda given: isinstance(given, place.value), f"a {place.value.__name__}")
    setattr(made, entry, guarded(function, name, rule, place.error))
    if place is WORKLOAD:
        user_workload.complete(made, name, [option.name for option in options])
    if place is POLICY:
        setattr(made, entry, _watched(getattr(made, entry), name))
    return made


def _watched(create: Callable[..., Policy], file: str) -> Callable[..., Policy]:
    @functools.wraps(create)
    def watched(sites: tuple[str, ...], **options: Any) -> Policy:
        return user_policy.Watched(create(sites, **options), file, sites)

    return watched
