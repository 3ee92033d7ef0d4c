"""Reads the data of a scenario section by section, and notes all of its problems (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from trunkline.harness.config.document import Document, list_keys
from trunkline.harness.config.options import UNKNOWN_KEY, make_type, read_options
from trunkline.harness.config.paths import name_after
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.scenario import failover_timeouts
from trunkline.harness.scenario.extensions import Extensions
from trunkline.harness.scenario.scheme_settings import PROGRAMS, Component, Scheme
from trunkline.harness.scenario.sections import (
    background_section,
    capture_section,
    expect_section,
    scheme_section,
    section_rules,
    timeline_section,
    topology_section,
    workload_section,
)
from trunkline.harness.scenario.sections.limits import Limits
from trunkline.harness.scenario.sections.section_reading import SectionReader
from trunkline.harness.scenario.settings import Basics, Clock, Scenario, Stop
from trunkline.workloads.program_roles import list_targets

KEYS = tuple(field.name.removesuffix("_site") for field in fields(Scenario) if field.compare)
"""The top-level keys of a file."""

SECTION_KEYS = {
    "topology": ("builder", "sites", "rates", "delays"),
    "workload": ("kind", "model", "compute"),
    "scheme": ("policy", "plan", "p", *(field.name for field in fields(Scheme))),
}
"""Keys of sections whose other keys depend on components."""


class Reader:
    """Reads one document section by section, so that a problem hides as few others as possible."""

    def __init__(self, source: Document, extensions: Extensions, files: Read) -> None:
        self._reader = SectionReader(source, extensions, files)
        self._source = source
        self._data: dict[str, Any] = source.data

    def scenario(self) -> Scenario | None:
        """Read the scenario; None if it has problems, which are then in the document."""
        basics = self._basics()
        topology = topology_section.read(self._reader, basics["seed"])
        sites = topology.site_names if topology else topology_section.find_sites(self._reader)
        workload = workload_section.read(self._reader, sites, basics["seed"])
        programs = self._reader.runs_programs
        scheme = None if programs else self._scheme(sites, workload)
        basics["limits"] = self._fit_task_budget(basics["limits"])
        targets = self._find_targets(sites, workload) if programs else None
        timeline = timeline_section.read(
            self._source,
            topology,
            basics["limits"].run_s,
            self._reader.files,
            targets,
        )
        if topology:
            basics["capture"] = capture_section.read(self._source, basics["capture"], topology)
        section_rules.check_sites(self._source, sites)
        background_section.check(
            self._source, basics["background"], basics["network"].mtu, topology
        )
        kinds = self._reader.extensions.workloads
        expect_section.check(
            self._source,
            basics["expect"],
            sites,
            topology,
            targets=targets,
            evaluates=workload is None or workload.module.EVALUATES,
            ends_s=section_rules.list_ends_s(basics),
        )
        section_rules.check_limits(self._source, basics)
        section_rules.check_network(self._source, basics, topology)
        if basics["backend"] == "host":
            section_rules.check_correlation(self._source, topology, timeline)
        if programs:
            scheme = PROGRAMS
            module = kinds[self._data["workload"]["kind"]]
            section_rules.check_programs(self._source, basics["stop"], sites, workload, module)
            section_rules.check_virtual_time(self._source, basics)
        else:
            section_rules.check_stop(self._source, basics, workload, kinds)
            self._check_scheme(scheme, workload, sites)
        if not (topology and workload and scheme):
            return None
        if not programs:
            basics["evaluation"] = section_rules.choose_evaluated(
                self._source, basics["evaluation"], scheme, workload
            )
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
            scheme_section.check_plan(self._reader, scenario)
        return None if self._source.problems else scenario

    def _check_scheme(
        self, scheme: Scheme | None, workload: Component | None, sites: tuple[str, ...]
    ) -> None:
        """Check what a scheme asks of the workload."""
        if scheme:
            size = workload_section.model_bytes(self._reader, workload)
            section_rules.check_chunk(self._source, scheme.chunk_bytes, size)
        if sites and workload and scheme and self._source.is_sound("scheme", "workload"):
            scheme_section.check_updates(self._reader, scheme, workload, sites)

    def _find_targets(self, sites: Sequence[str], workload: Component | None) -> tuple[str, ...]:
        """What faults may stop in a run of programs; nothing if it is not known."""
        if workload is None or not self._source.is_sound("topology", "workload"):
            return ()
        return tuple(list_targets(workload.module.place_programs(sites, workload.options)))

    def _basics(self) -> dict[str, Any]:
        """The value of every key of `Basics`; the default if the file has a wrong value."""
        options = read_options(Basics)
        for key in self._data.keys() - set(KEYS):
            home = self._find_section(key)
            hint = f"did you mean {home}.{key}? expected one of {', '.join(KEYS)}" if home else ""
            self._source.refuse((key,), f"{UNKNOWN_KEY}: {hint or list_keys(KEYS, key)}")
        stop = {"exit": "all"} if self._reader.runs_programs else {}
        given = {"name": name_after(self._source.file), "stop": stop} | self._data
        if stop and isinstance(given["stop"], dict):
            given["stop"] = stop | given["stop"]
        values = {}
        for option in options:
            values[option.key] = option.default
            if option.key in given:
                value = self._reader.read(
                    (option.key,), make_type(option.annotation), given[option.key]
                )
                values[option.key] = option.default if value is None else value
        return values

    def _scheme(self, sites: tuple[str, ...], workload: Component | None) -> Scheme | None:
        model_bytes = workload_section.model_bytes(self._reader, workload)
        return scheme_section.read(self._reader, sites, model_bytes)

    def _fit_task_budget(self, limits: Limits) -> Limits:
        """Limit the default budget of a task to that of the run."""
        given = self._data.get("limits")
        if isinstance(given, dict) and "task" not in given:
            return replace(limits, task_s=min(limits.task_s, limits.run_s))
        return limits

    def _find_section(self, key: str) -> str:
        """The section that has this key; empty if none has it."""
        sections = dict(SECTION_KEYS)
        for option in read_options(Basics):
            if isinstance(option.annotation, type) and is_dataclass(option.annotation):
                sections[option.key] = tuple(each.key for each in read_options(option.annotation))
        known = self._reader.extensions
        for section, selector, modules in (
            ("topology", "builder", known.topologies),
            ("workload", "kind", known.workloads),
        ):
            module = modules.get(str(self._source.get((section, selector))))
            options = read_options(module.build) if module else ()
            sections[section] += tuple(option.key for option in options)
        return next((name for name, keys in sections.items() if key in keys), "")
