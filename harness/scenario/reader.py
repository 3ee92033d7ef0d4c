"""Reads the data of a scenario section by section, and notes all of its problems (pure)."""

from __future__ import annotations

import functools
import inspect
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.two_sided import share_model
from trunkline.agents.policies import random_draws
from trunkline.agents.policies.policy import Traits
from trunkline.harness.config import units
from trunkline.harness.config.document import MISSING, Document, KeyPath, list_choices
from trunkline.harness.config.options import (
    REQUIRED,
    UNKNOWN_KEY,
    Option,
    check,
    make_model,
    make_type,
    read_options,
    read_values,
)
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.scenario import exact_rates, failover_timeouts, plan_dry_run
from trunkline.harness.scenario.extensions import Extensions
from trunkline.harness.scenario.named_schemes import DEFAULT_SCHEME, SCHEMES
from trunkline.harness.scenario.sections import (
    awareness_section,
    background_section,
    capture_section,
    section_rules,
    timeline_section,
)
from trunkline.harness.scenario.settings import (
    PROGRAMS,
    Basics,
    Clock,
    Component,
    Limits,
    Scenario,
    Scheme,
    Stop,
)
from trunkline.topologies import explicit
from trunkline.topologies.access import AccessLink, add_access_links
from trunkline.topologies.model import LinkOverride, Topology, TopologyError
from trunkline.workloads.base import gives_changes, tensor_bytes_of

KEYS = tuple(field.name.removesuffix("_site") for field in fields(Scenario) if field.compare)
"""The top-level keys of a file."""

NETWORK = (
    Option("overrides", "overrides", None, list[LinkOverride], ()),
    Option("access", "access", None, list[AccessLink], ()),
    Option("burst", "burst", None, float, 1.0),
)
"""The options of every topology, beside those of its builder."""

SCHEME = tuple(option for option in read_options(Scheme) if option.name not in ("policy", "plan"))
"""The options of all schemes, besides those of their policy and plan."""


def choose(key: str, name: str, default: Any = REQUIRED) -> Option:
    """The option with which a section names its extension; `name` is the one it has named."""
    return Option(key, key, None, Literal[name], default)


def merge(*options: Option) -> tuple[Option, ...]:
    """Remove options whose name occurs before: a policy and a plan may share a key."""
    return tuple({option.name: option for option in reversed(options)}.values())[::-1]


def pick(values: Mapping[str, Any], options: Sequence[Option]) -> dict[str, Any]:
    """The values of these options only, by their Python names."""
    return {option.name: values[option.name] for option in options}


def takes_files(build: Callable[..., Any]) -> bool:
    """Whether a builder has the parameter `read`, a function that reads a text file by its name."""
    return "read" in inspect.signature(build).parameters


@functools.cache
def _prepare(
    build: Callable[..., Any], section: str, key: str, name: str
) -> tuple[type[BaseModel], tuple[Option, ...]]:
    """The model and the options of a component that is built by this function."""
    options = read_options(build)
    options += NETWORK if section == "topology" else ()
    return make_model(name, (choose(key, name), *options)), options


def _find_owners(choices: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """The policies and plans with an option of this name, in words; empty if none has it."""
    functions = {"policy": "create", "plan": "build"}
    return ", ".join(
        f"{kind} {name}"
        for kind, modules in choices.items()
        for name, module in modules.items()
        if any(option.key == key for option in read_options(getattr(module, functions[kind])))
    )


def _read_sound(model: Any, given: Mapping[str, Any]) -> tuple[set[str], Any]:
    """The keys of a mapping that a model accepts, and what it reads from them.

    That is None if it needs one of the others.
    """
    refused = {refusal.path[0] for refusal in check(model, given)[1] if refusal.path}
    sound = {key: value for key, value in given.items() if key not in refused}
    return set(sound), check(model, sound)[0]


class Reader:
    """Reads one document section by section, so that a problem hides as few others as possible."""

    def __init__(self, source: Document, extensions: Extensions, files: Read) -> None:
        self._source = source
        self._files = files
        self._data: dict[str, Any] = source.data
        self._extensions = extensions

    def scenario(self) -> Scenario | None:
        """Read the scenario; None if it has problems, which are then in the document."""
        basics = self._basics()
        topology = self._topology(basics["seed"])
        sites = topology.site_names if topology else self._find_sites()
        workload = self._workload(sites, basics["seed"])
        programs = self._runs_programs()
        scheme = None if programs else self._scheme(sites, self._model_bytes(workload))
        basics["limits"] = self._fit_task_budget(basics["limits"])
        timeline = timeline_section.read(
            self._source, topology, basics["limits"].run_s, self._files, programs
        )
        if topology:
            basics["capture"] = capture_section.read(self._source, basics["capture"], topology)
        section_rules.check_sites(self._source, sites)
        background_section.check(
            self._source, basics["background"], basics["network"].mtu, topology
        )
        section_rules.check_limits(self._source, basics)
        section_rules.check_network(self._source, basics, topology)
        if programs:
            scheme = PROGRAMS
            module = self._extensions.workloads[self._data["workload"]["kind"]]
            section_rules.check_programs(self._source, basics["stop"], sites, workload, module)
        else:
            section_rules.check_stop(self._source, basics, workload, self._extensions.workloads)
            if scheme:
                size = self._model_bytes(workload)
                section_rules.check_chunk(self._source, scheme.chunk_bytes, size)
            if sites and workload and scheme and self._source.is_sound("scheme", "workload"):
                self._check_updates(scheme, workload, sites)
        if not (topology and workload and scheme):
            return None
        clock: Clock = basics["clock"] or ("virtual" if basics["backend"] == "embedded" else "real")
        controller = basics.pop("controller")
        basics["failover"] = failover_timeouts.with_defaults(basics["failover"], topology, clock)
        # A wrong `stop` has been noted. A valid one here lets the plan be checked all the same.
        if not isinstance(basics["stop"], Stop):
            basics["stop"] = Stop(rounds=1)
        scenario = Scenario(
            **basics
            | {"clock": clock, "clocks": basics["clocks"] or {}, "code": basics["code"] or {}},
            topology=topology,
            workload=workload,
            scheme=scheme,
            timeline=timeline,
            controller_site=controller.site or sites[0],
        )
        if not programs and self._source.is_sound("scheme", "workload"):
            self._check_plan(scenario)
        return None if self._source.problems else scenario

    def _basics(self) -> dict[str, Any]:
        """The value of every key of `Basics`; the default if the file has a wrong value."""
        options = read_options(Basics)
        for key in self._data.keys() - set(KEYS):
            self._source.refuse((key,), f"{UNKNOWN_KEY}: {list_choices(KEYS, key)}")
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(self._source.file).stem).strip("-._")
        stop = {"exit": "all"} if self._runs_programs() else {}
        given = {"name": stem or "scenario", "stop": stop} | self._data
        if stop and isinstance(given["stop"], dict):
            given["stop"] = stop | given["stop"]
        values = {}
        for option in options:
            values[option.key] = option.default
            if option.key in given:
                value = self._read((option.key,), make_type(option.annotation), given[option.key])
                values[option.key] = option.default if value is None else value
        return values

    def _topology(self, seed: int) -> Topology | None:
        """Build the topology with its overrides, and give every queue an explicit size."""
        builders = self._extensions.topologies
        module, options = self._component("topology", "builder", builders, "build")
        if module is None or options is None:
            return None
        overrides, access, burst = (options.pop(option.name) for option in NETWORK)
        given = {"read": self._read_file} if takes_files(module.build) else {}
        try:
            topology: Topology = module.build(random.Random(seed), **options, **given)
        except TopologyError as error:
            for text in error.problems:
                self._refuse_option("topology", error.key, text, options)
            return None
        if burst != 1.0:
            links = tuple(replace(link, burst=burst) for link in topology.links)
            try:
                topology = replace(topology, links=links)
            except TopologyError as error:
                self._source.refuse(("topology", "burst"), str(error))
        for index, override in enumerate(overrides):
            try:
                topology = topology.with_overrides([override])
            except TopologyError as error:
                self._refuse_override(index, error)
        try:
            topology = add_access_links(topology, access)
        except TopologyError as error:
            self._source.refuse(("topology", "access"), str(error).removeprefix("access: "))
        made = explicit.build(random.Random(seed), **explicit.options(topology))
        return replace(made, notes=topology.notes)

    def _find_sites(self) -> tuple[str, ...]:
        """The sites of a topology with wrong rates or delays, so that other sections are checked.

        Values that have units do not determine the sites, so defaults may take their place. Without
        a topology, and after other problems of it, there are none.
        """
        given = self._data.get("topology")
        builder = given.get("builder") if isinstance(given, dict) else None
        module = self._extensions.topologies.get(builder) if isinstance(builder, str) else None
        if module is None or not isinstance(given, dict):
            return ()
        options = read_options(module.build)
        asked = {option.key: given[option.key] for option in options if option.key in given}
        sound, values = _read_sound(make_model("topology", options), asked)
        plain = {option.key for option in options if option.dimension is None}
        if values is None or plain & (asked.keys() - sound):
            return ()
        files = {"read": self._read_file} if takes_files(module.build) else {}
        try:
            made = module.build(random.Random(0), **read_values(values, options), **files)
        except TopologyError:
            return ()
        return made.site_names  # type: ignore[no-any-return]

    def _read_file(self, name: str) -> str:
        """Read a file that is named in the topology, relative to the scenario."""
        try:
            return self._files(name)
        except FaultError as error:
            raise TopologyError(str(error).removeprefix(f"{name}: ")) from None

    def _workload(self, sites: Sequence[str], seed: int) -> Component | None:
        kinds = self._extensions.workloads
        module, options = self._component("workload", "kind", kinds, "build")
        if module is None or options is None or not self._read_texts(module, options):
            return None
        try:
            for problem in module.problems(sites, **options) if sites else ():
                path: KeyPath = ("workload", *problem.key.split("."))
                self._source.refuse(path, f"expected {problem.allowed}")
            if self._source.is_sound("workload"):
                size = module.model_bytes(**options)
                cut_model(size, max(size, 1), tensor_bytes_of(module, options))
                if hasattr(module, "layers"):
                    module.layers(**options)
                    if sites:
                        module.compute_times(0, sites, seed, **options).layers(0)
        except ValueError as error:  # from a user's file
            self._source.refuse(("workload",), str(error), value="")
            return None
        return Component(self._data["workload"]["kind"], options, module)

    def _read_texts(self, module: Any, options: dict[str, Any]) -> bool:
        """Replace the names of files by their texts, which the scenario then keeps.

        Returns False if a file cannot be read.
        """
        for name, ending in getattr(module, "FILE_OPTIONS", {}).items():
            file = options[name]
            if file.endswith(ending) and "\n" not in file:
                try:
                    options[name] = self._files(file)
                except FaultError as error:
                    text = str(error).removeprefix(f"{file}: ")
                    self._source.refuse(("workload", name), text)
                    return False
        return True

    def _component(
        self, section: str, key: str, modules: Mapping[str, Any], entry: str
    ) -> tuple[Any, dict[str, Any] | None]:
        """The module that a section names, and its options; None for those that are wrong."""
        given = self._data.get(section)
        name = given.get(key) if isinstance(given, dict) else None
        if not isinstance(given, dict):
            allowed = f"{list_choices(modules, given)}, or a mapping with {key}: and its options"
            self._source.refuse((section,), allowed)
            return None, None
        if not isinstance(name, str) or name not in modules:
            self._source.refuse((section, key), list_choices(modules, name))
            extra = NETWORK if section == "topology" else ()
            self._check_apart(section, (key,), [getattr(m, entry) for m in modules.values()], extra)
            return None, None
        model_type, options = _prepare(getattr(modules[name], entry), section, key, name)
        model = self._read((section,), model_type, given)
        return modules[name], None if model is None else read_values(model, options)

    def _check_apart(
        self,
        section: str,
        selectors: Sequence[str],
        functions: Sequence[Callable[..., Any]],
        extra: Sequence[Option],
    ) -> None:
        """Note the other problems of a section that names no known component.

        A key must be an option of some component, and its value valid for one of them.
        """
        known: dict[str, list[Option]] = {}
        for option in (
            *extra,
            *(each for function in functions for each in read_options(function)),
        ):
            known.setdefault(option.key, []).append(option)
        for key, value in self._data[section].items():
            if key in selectors:
                continue
            if key not in known:
                self._source.refuse(
                    (section, key), f"{UNKNOWN_KEY}: {list_choices([*selectors, *known], key)}"
                )
            elif all(
                check(make_type(option.annotation, option.dimension), value)[1]
                for option in known[key]
            ):
                first = known[key][0]
                self._read((section, key), make_type(first.annotation, first.dimension), value)

    def _model_bytes(self, workload: Component | None) -> int | None:
        """The size of the model; None if it is not known."""
        if workload is None or not self._source.is_sound("workload"):
            return None
        size: int = self._extensions.workloads[workload.kind].model_bytes(**workload.options)
        return size

    def _scheme(self, sites: tuple[str, ...], model_bytes: int | None) -> Scheme | None:
        """Read policy and plan, which share a mapping: a key may be an option of one or of both.

        The default chunk is no larger than the model, if its size is known.
        """
        given = self._data.get("scheme", {})
        if not isinstance(given, dict):
            allowed = (
                f"{list_choices(SCHEMES, given)}, or a mapping with policy:, plan: and options"
            )
            self._source.refuse(("scheme",), allowed)
            return None
        if "name" in given:  # a known name has been expanded before
            self._source.refuse(("scheme", "name"), list_choices(SCHEMES, given["name"]))
            return None
        names = {**DEFAULT_SCHEME, **given}
        choices = {"policy": self._extensions.policies, "plan": self._extensions.plans}
        for key, modules in choices.items():
            if not isinstance(names[key], str) or names[key] not in modules:
                self._source.refuse(("scheme", key), list_choices(modules, names[key]))
        if not self._source.is_sound("scheme"):
            functions = [module.create for module in choices["policy"].values()]
            functions += [module.build for module in choices["plan"].values()]
            self._check_apart("scheme", tuple(choices), functions, SCHEME)
            return None
        policy = self._extensions.policies[names["policy"]]
        plan = self._extensions.plans[names["plan"]]
        policy_options, plan_options = read_options(policy.create), read_options(plan.build)
        choice = choose("policy", names["policy"]), choose("plan", names["plan"])
        options = merge(*SCHEME, *policy_options, *plan_options)
        find_owners = partial(_find_owners, choices)
        checked = make_model("scheme", (*choice, *options))
        model = self._read(("scheme",), checked, names, find_owners)
        if model is None:
            sound, rest = _read_sound(checked, names)
            if rest is not None:
                values = read_values(rest, options)
                taken = pick(values, policy_options)
                self._check_policy(policy.create, taken, sites, values["servers"], sound)
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
            self._source.refuse(("scheme", "awareness", key), allowed)
        chosen = self._place_servers(chosen, sites)
        self._check_policy(policy.create, chosen.policy.options, sites, chosen.servers)
        if chosen.sends_early and not hasattr(plan, "default"):
            able = [name for name, each in choices["plan"].items() if hasattr(each, "default")]
            allowed = f"only with plan {', '.join(able)}; {names['plan']} has no default split"
            self._source.refuse(("scheme", "scatter"), allowed)
        return chosen

    def _place_servers(self, scheme: Scheme, sites: tuple[str, ...]) -> Scheme:
        """Check the servers; the first site is the server of a policy that needs one."""
        path, given = ("scheme", "servers"), scheme.servers
        if not given and random_draws.uses_servers(scheme.policy.module.create):
            if self._source.get(path) == []:
                allowed = "expected a site or more; without this key, the first site is the server"
                self._source.refuse(path, allowed)
            given = sites[:1]
        for index, site in enumerate(given):
            if site not in sites and sites:
                self._source.refuse((*path, index), list_choices(sites, site))
            elif site in given[:index]:
                self._source.refuse((*path, index), "expected each site once")
        if sites and len(set(given)) >= len(sites):
            self._source.refuse(path, "expected fewer than all sites; the others are workers")
        if given and scheme.scatter != "blocking":
            self._source.refuse(
                ("scheme", "scatter"), "expected blocking, because there are servers"
            )
        return replace(scheme, servers=given)

    def _check_policy(
        self,
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
                self._refuse_option("scheme", first_word, str(error), options, "policy")

    def _check_updates(self, scheme: Scheme, workload: Component, sites: tuple[str, ...]) -> None:
        """Check that the workload suits the servers, and gives updates if the policy wants them."""
        workers = tuple(site for site in sites if site not in scheme.servers)
        create, options = scheme.policy.module.create, scheme.policy.options
        traits = Traits.of(random_draws.create_policy(create, workers, options, "", scheme.servers))
        if traits.gives == "update" and not gives_changes(workload.module):
            known = self._extensions.workloads
            able = ", ".join(name for name, kind in known.items() if gives_changes(kind))
            allowed = (
                f"expected one of {able}, which give the updates of policy {scheme.policy.kind}"
            )
            self._source.refuse(("workload", "kind"), allowed)
        wanted, batch = options.get("batch"), workload.options.get("batch")
        if wanted is not None and wanted != batch:
            allowed = f"expected the workload's batch, {batch}"
            if batch is None:
                allowed = f"only with a workload that has a batch; {workload.kind} has none"
            self._source.refuse(("scheme", "batch"), allowed)
        for problem in workload.module.problems(workers, **workload.options):
            path: KeyPath = ("workload", *problem.key.split("."))
            self._source.refuse(path, f"expected {problem.allowed}")
        size = workload.module.model_bytes(**workload.options)
        tensors = tensor_bytes_of(workload.module, workload.options)
        try:
            share_model(scheme.servers, cut_model(size, scheme.chunk_bytes, tensors))
        except ValueError as error:
            self._source.refuse(("scheme", "servers"), f"expected fewer servers: {error}")

    def _runs_programs(self) -> bool:
        """Whether sites run programs instead of agents."""
        given = self._data.get("workload")
        kind = given.get("kind") if isinstance(given, dict) else None
        module = self._extensions.workloads.get(kind) if isinstance(kind, str) else None
        return getattr(module, "PROGRAMS", False)

    def _fit_task_budget(self, limits: Limits) -> Limits:
        """Limit the default budget of a task to that of the run."""
        given = self._data.get("limits")
        if isinstance(given, dict) and "task" not in given:
            return replace(limits, task_s=min(limits.task_s, limits.run_s))
        return limits

    def _check_plan(self, scenario: Scenario) -> None:
        if scenario.network.connections > 1 and scenario.scheme.awareness is not None:
            allowed = "expected 1 with awareness, which measures links by single connections"
            self._source.refuse(("network", "connections"), allowed)
        if refusal := exact_rates.find_refusal(scenario):
            self._source.refuse(("scheme", refusal[0]), refusal[1])
        if found := plan_dry_run.find_refusal(scenario):
            component: Component = getattr(scenario.scheme, found.key)
            name = found.text.partition(":")[0]
            self._refuse_option("scheme", name, found.text, component.options, found.key)

    def _read(
        self,
        path: KeyPath,
        annotation: Any,
        value: Any,
        find_owners: Callable[[str], str] = lambda key: "",
    ) -> Any:
        """Read a value as a type; None if it is refused, and then note each refusal.

        `find_owners` says of a key that is unknown here which components have it.
        """
        result, refusals = check(annotation, value)
        for refusal in refusals:
            text = refusal.text
            if text.startswith(UNKNOWN_KEY) and (owners := find_owners(str(refusal.path[0]))):
                text = text.replace(UNKNOWN_KEY, f"{UNKNOWN_KEY} (an option of {owners})", 1)
            self._source.refuse((*path, *refusal.path), text)
        return result

    def _refuse_option(
        self, section: str, name: str, text: str, options: Mapping[str, Any], selector: str = ""
    ) -> None:
        """Note an extension's error: at the option that it names, or else at its selector."""
        key, _ = units.split_name(name)
        if name in options:
            text = text.removeprefix(f"{name}: ").removeprefix(f"{options[name]!r}: ")
            self._source.refuse((section, key), text)
        elif selector:
            named = self._source.get((section, selector))
            self._source.refuse((section, selector), text.removeprefix(f"{named}: "))
        else:
            self._source.refuse((section,), text, value="")

    def _refuse_override(self, index: int, error: TopologyError) -> None:
        path: KeyPath = ("topology", "overrides", index)
        key, _ = units.split_name(error.key)
        named = self._source.get((*path, key)) is not MISSING
        self._source.refuse((*path, key if named else "link"), str(error))
