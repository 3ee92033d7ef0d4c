"""The scheme of a scenario: policy and plan with their options, and common ones (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel

from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.two_sided import share_model
from trunkline.agents.policies import random_draws
from trunkline.agents.policies.policy import Traits
from trunkline.harness.config import units
from trunkline.harness.config.document import KeyPath, list_choices
from trunkline.harness.config.options import Option, make_model, read_options, read_values
from trunkline.harness.scenario import exact_rates, plan_dry_run
from trunkline.harness.scenario.named_schemes import DEFAULT_SCHEME, SCHEMES, suggest
from trunkline.harness.scenario.scheme_settings import Component, Scheme
from trunkline.harness.scenario.sections import awareness_section
from trunkline.harness.scenario.sections.section_reading import (
    SectionReader,
    choose,
    has_option,
    merge,
    pick,
    read_sound,
)
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads.base import gives_changes, tensor_bytes_of

SCHEME = tuple(option for option in read_options(Scheme) if option.name not in ("policy", "plan"))
"""The options of all schemes, besides those of their policy and plan."""


def read(reader: SectionReader, sites: tuple[str, ...], model_bytes: int | None) -> Scheme | None:
    """Read policy and plan, which share a mapping: a key may be an option of one or of both.

    The default chunk is no larger than the model, if its size is known.
    """
    given = reader.source.data.get("scheme", {})
    choices = {"policy": reader.extensions.policies, "plan": reader.extensions.plans}
    if not isinstance(given, dict):
        allowed = _name_choices(reader, given, SCHEMES)
        allowed += ", or a mapping with policy:, plan: and options"
        reader.source.refuse(("scheme",), allowed)
        return None
    if "name" in given:  # a known name has been expanded before
        reader.source.refuse(("scheme", "name"), _name_choices(reader, given["name"], SCHEMES))
        return None
    names = {**DEFAULT_SCHEME, **given}
    for key, modules in choices.items():
        if not isinstance(names[key], str) or names[key] not in modules:
            reader.source.refuse(("scheme", key), _name_choices(reader, names[key], modules))
    if not reader.source.is_sound("scheme"):
        functions = [module.create for module in choices["policy"].values()]
        functions += [module.build for module in choices["plan"].values()]
        reader.check_apart("scheme", tuple(choices), functions, SCHEME)
        return None
    policy = reader.extensions.policies[names["policy"]]
    plan = reader.extensions.plans[names["plan"]]
    policy_options, plan_options = read_options(policy.create), read_options(plan.build)
    checked, options = _prepare(names["policy"], names["plan"], policy.create, plan.build)
    find_owners = partial(_find_owners, choices)
    reader.leave_out_replaced("scheme", tuple(choices), options, find_owners)
    names = {**DEFAULT_SCHEME, **given}
    model = reader.read(("scheme",), checked, names, find_owners)
    if model is None:
        sound, rest = read_sound(checked, names)
        if rest is not None:
            values = read_values(rest, options)
            taken = pick(values, policy_options)
            _check_policy(reader, policy.create, taken, sites, values["servers"], sound)
        return None
    values = read_values(model, options)
    if model_bytes is not None and "chunk" not in given:
        values["chunk_bytes"] = min(values["chunk_bytes"], model_bytes)
    scheme = Scheme(
        Component(names["policy"], pick(values, policy_options), policy),
        Component(names["plan"], pick(values, plan_options), plan),
        **{each.name: values[each.name] for each in SCHEME},
    )
    chosen = awareness_section.with_defaults(scheme)
    for key, allowed in awareness_section.find_refusals(chosen, sites):
        reader.source.refuse(("scheme", "awareness", key), allowed)
    chosen = _place_servers(reader, chosen, sites)
    _check_policy(reader, policy.create, chosen.policy.options, sites, chosen.servers)
    if chosen.sends_early and not hasattr(plan, "default"):
        able = [name for name, each in choices["plan"].items() if hasattr(each, "default")]
        allowed = f"only with plan {', '.join(able)}; {names['plan']} has no default split"
        reader.source.refuse(("scheme", "scatter"), allowed)
    return chosen


@lru_cache(maxsize=256)
def _prepare(
    policy: str, plan: str, create: Callable[..., Any], build: Callable[..., Any]
) -> tuple[type[BaseModel], Sequence[Option]]:
    """The model and the options of a policy and a plan that are built by these functions."""
    options = merge(*SCHEME, *read_options(create), *read_options(build))
    return make_model("scheme", (choose("policy", policy), choose("plan", plan), *options)), options


def check_updates(
    reader: SectionReader, scheme: Scheme, workload: Component, sites: tuple[str, ...]
) -> None:
    """Check that the workload suits the servers, and gives updates if the policy wants them."""
    workers = tuple(site for site in sites if site not in scheme.servers)
    create, options = scheme.policy.module.create, scheme.policy.options
    traits = Traits.of(random_draws.create_policy(create, workers, options, "", scheme.servers))
    if traits.gives == "update" and not gives_changes(workload.module):
        known = reader.extensions.workloads
        able = ", ".join(name for name, kind in known.items() if gives_changes(kind))
        allowed = f"expected one of {able}, which give the updates of policy {scheme.policy.kind}"
        reader.source.refuse(("workload", "kind"), allowed)
    wanted, batch = options.get("batch"), workload.options.get("batch")
    if wanted is not None and wanted != batch:
        allowed = f"expected the workload's batch, {batch}"
        if batch is None:
            allowed = f"only with a workload that has a batch; {workload.kind} has none"
        reader.source.refuse(("scheme", "batch"), allowed)
    for problem in workload.module.problems(workers, **workload.options):
        path: KeyPath = ("workload", *problem.key.split("."))
        at_work = f"; the servers, {units.join_words(scheme.servers)}, compute nothing"
        reader.source.refuse(path, f"expected {problem.allowed}{at_work if scheme.servers else ''}")
    size = workload.module.model_bytes(**workload.options)
    tensors = tensor_bytes_of(workload.module, workload.options)
    try:
        share_model(scheme.servers, cut_model(size, scheme.chunk_bytes, tensors))
    except ValueError as error:
        reader.source.refuse(("scheme", "servers"), f"expected fewer servers: {error}")


def check_plan(reader: SectionReader, scenario: Scenario) -> None:
    """Check that the scheme can plan a task of the whole scenario."""
    if scenario.network.connections > 1 and scenario.scheme.awareness is not None:
        allowed = "expected 1 with awareness, which measures links by single connections"
        reader.source.refuse(("network", "connections"), allowed)
    if refusal := exact_rates.find_refusal(scenario):
        reader.source.refuse(("scheme", refusal[0]), refusal[1])
    if found := plan_dry_run.find_refusal(scenario):
        component: Component = getattr(scenario.scheme, found.key)
        name = found.text.partition(":")[0]
        reader.refuse_option("scheme", name, found.text, component.options, found.key)


def _place_servers(reader: SectionReader, scheme: Scheme, sites: tuple[str, ...]) -> Scheme:
    """Check the servers; the first site is the server of a policy that needs one."""
    path, given = ("scheme", "servers"), scheme.servers
    if not given and random_draws.uses_servers(scheme.policy.module.create):
        if reader.source.get(path) == []:
            allowed = "expected a site or more; without this key, the first site is the server"
            reader.source.refuse(path, allowed)
        given = sites[:1]
    for index, site in enumerate(given):
        if site not in sites and sites:
            reader.source.refuse((*path, index), list_choices(sites, site))
        elif site in given[:index]:
            reader.source.refuse((*path, index), "expected each site once")
    if sites and len(set(given)) >= len(sites):
        reader.source.refuse(path, "expected fewer than all sites; the others are workers")
    if given and scheme.scatter != "blocking":
        reader.source.refuse(("scheme", "scatter"), "expected blocking, because there are servers")
    return replace(scheme, servers=given)


def _check_policy(
    reader: SectionReader,
    create: Callable[..., Any],
    options: Mapping[str, Any],
    sites: tuple[str, ...],
    servers: tuple[str, ...],
    sound: Collection[str] | None = None,
) -> None:
    """Check that the policy takes its options.

    With `sound`, only errors at these keys count: the others have defaults for wrong values.
    """
    workers = tuple(site for site in sites if site not in servers)
    if not workers:
        return
    try:
        Traits.of(random_draws.create_policy(create, workers, options, "", servers))
    except ValueError as error:
        first_word = re.split(r"\W", str(error), maxsplit=1)[0]
        if sound is None or units.split_name(first_word)[0] in sound:
            reader.refuse_option("scheme", first_word, str(error), options, "policy")


def _name_choices(reader: SectionReader, value: Any, known: Iterable[str]) -> str:
    """What a value may be, after a hint that names other keys if it belongs there."""
    allowed = list_choices(known, value)
    every = reader.extensions
    hint = suggest(value, known, every.policies, every.plans) if isinstance(value, str) else ""
    if not hint:
        return allowed
    return f"{hint}{';' * (not hint.endswith('?'))} {allowed[allowed.index('expected') :]}"


def _find_owners(choices: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """The policies and plans with an option of this name, in words; empty if none has it."""
    functions = {"policy": "create", "plan": "build"}
    return ", ".join(
        f"{kind} {name}"
        for kind, modules in choices.items()
        for name, module in modules.items()
        if has_option(getattr(module, functions[kind]), key)
    )
