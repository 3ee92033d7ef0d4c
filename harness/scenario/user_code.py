"""Users' plans, policies, workloads and topologies: Python files that a scenario names.

`plan: mine.py` is the file `mine.py` beside the scenario. It has a function `build` or `create`,
like a file in `agents/plans`, `agents/policies`, `workloads` or `topologies`. A topology may also
be a file of Mininet (`topologies.formats.mininet_file`), and the workload `training` may have a
`model: mine.py`, a file with a network (`workloads.own_models`). The scenario keeps
the text of its files under `code:`, so the resolved scenario in a run's folder needs no other file.
It does not keep the code of a topology, because the resolved scenario has all sites and links.

`harness.scenario.user_results` checks every result of a user's code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from trunkline.agents.planning.plan import Plan, PlanError
from trunkline.agents.policies.policy import Policy
from trunkline.harness.config.document import Document, ScenarioErrors
from trunkline.harness.config.options import make_model, read_options
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.scenario.compute_limit import ComputedTooLongError, limited_call
from trunkline.harness.scenario.extensions import Extensions
from trunkline.harness.scenario.user_results import (
    UserCodeError,
    UserFileError,
    check_results,
    complete_policy,
    complete_workload,
    describe,
    describe_excess,
    instance_of,
)
from trunkline.topologies.formats import mininet_file
from trunkline.topologies.links import TopologyError
from trunkline.topologies.model import Topology
from trunkline.workloads.base import Workload

SUFFIX = ".py"


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

TRAINING = "training"
MODEL = Place("workload", "model", "workloads", "model(*, ...)", Workload, UserCodeError)
"""A network for the workload TRAINING, which then is another one."""


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
    for place in (TOPOLOGY, WORKLOAD, MODEL, POLICY, PLAN):
        path = (place.section, place.key)
        name = source.get(path)
        if not isinstance(name, str) or not name.endswith(SUFFIX):
            continue
        if place is MODEL and source.get(("workload", "kind")) != TRAINING:
            continue
        named.append(name)
        try:
            text = code[name] if name in code else read(name)
            made = _run_file(place, name, str(text))
        except (UserFileError, FaultError) as reason:
            source.refuse(path, str(reason).removeprefix(f"{name}: "))
            failed = True
            continue
        called = TRAINING if place is MODEL else name
        found = ChainMap({called: made}, getattr(known, place.kind))
        known = replace(known, **{place.kind: found})
        if place is not TOPOLOGY:
            kept[name] = text
    if failed:
        raise ScenarioErrors(source.problems)
    for name in code.keys() - named:
        allowed = "expected what workload.kind or model, scheme.plan or policy names"
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
    if place is TOPOLOGY:
        _check_topology(text)
    sys.modules[made.__name__] = made  # dataclasses look up their module there
    try:
        # A program may parse our standard output.
        with contextlib.redirect_stdout(sys.stderr), limited_call():
            exec(compile(text, name, "exec"), made.__dict__)
    except SyntaxError as reason:
        raise UserFileError(f"line {reason.lineno}: {reason.msg}") from None
    except ComputedTooLongError as reason:
        raise UserFileError(describe_excess(reason, name, "it")) from None
    except (Exception, SystemExit) as reason:
        raise UserFileError(describe(reason, name)) from None
    if place is TOPOLOGY and mininet_file.has_topo(made):
        made.build = mininet_file.make_build(made)  # type: ignore[attr-defined]
    function = getattr(made, place.entry, None)
    if not callable(function):
        other = ", or a class of mininet.topo.Topo" if place is TOPOLOGY else ""
        raise UserFileError(f"expected a file with a function {place.form}{other}")
    options = _read_options(place, function)
    if place is MODEL:
        place, made = WORKLOAD, _make_kind(made, name)
        function = made.build
        options = _read_options(place, function)
    setattr(made, place.entry, check_results(function, name, instance_of(place.value), place.error))
    if place is WORKLOAD:
        complete_workload(made, name, options)
    if place is POLICY:
        complete_policy(made, name)
    return made


def _make_kind(made: ModuleType, name: str) -> ModuleType:
    """The kind of workload that trains a user's model. Raises UserFileError."""
    from trunkline.workloads.learning import own_models  # few scenarios need it

    if own_models.has_data(made):
        _read_options(replace(MODEL, form="data(*, ...)"), made.data)
    try:
        return own_models.make_kind(made, name)
    except own_models.ModelError as error:
        raise UserFileError(str(error)) from None


def _check_topology(text: str) -> None:
    """Refuse a file that cannot have a topology before it is run: scripts do what they like."""
    try:
        mininet_file.check_script(text)
    except SyntaxError:
        return  # compiling it tells
    except TopologyError as error:
        raise UserFileError(str(error)) from None


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
