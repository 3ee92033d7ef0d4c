"""Loads scenarios from YAML, strictly and completely, before anything starts.

`load` either returns a `Scenario` whose values are all valid and whose defaults are filled in, or
raises `ScenarioErrors` with all problems of the file. `resolve` writes a scenario as YAML that
`load` reads as an equal scenario. `harness.scenario.settings` has the values,
`harness.scenario.reader` the rules of each section, and
`harness.scenario.sections.section_rules` those between sections.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trunkline.harness.config import document, tables, units
from trunkline.harness.config.bounded_files import check_regular
from trunkline.harness.config.document import Document, Problem, ScenarioErrors
from trunkline.harness.config.options import render
from trunkline.harness.config.paths import OWN_FOLDERS, find_scenario_folder
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.scenario import user_code
from trunkline.harness.scenario.compute_limit import limited_calls
from trunkline.harness.scenario.extensions import Extensions, discover
from trunkline.harness.scenario.named_schemes import SCHEMES
from trunkline.harness.scenario.reader import Reader
from trunkline.harness.scenario.scheme_settings import Component
from trunkline.harness.scenario.sections import measured_times, timeline_section
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.harness.scenario.sections.scheme_section import SCHEME
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies import explicit
from trunkline.workloads.option_rules import OptionError
from trunkline.workloads.program import missing_words, search_path

MAX_FILE_BYTES = 100_000_000
"""The size of the largest file that a scenario names."""


Here = Collection[str]
"""What this machine carries out: `programs` or agents at sites, and `checks` of `expect:`."""


class CannotRunError(RuntimeError):
    """This machine lacks something that the scenario needs; the message names it."""


def load(
    path: str | Path,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    *,
    here: Here = (),
) -> Scenario:
    """Load a scenario file.

    Args:
        path: the file.
        overrides: `key.path=value` assignments that change the scenario, in this order.
        seed: replaces the scenario's seed.
        here: what this machine carries out; it is a problem, too, if it lacks the programs.

    Raises:
        ScenarioErrors: the scenario has problems; the error has all of them.
    """
    return parse(read_file(path), str(path), overrides, seed, here=here)


def read_file(path: str | Path) -> str:
    """Read the text of a scenario file. Raises ScenarioErrors if it cannot be read."""
    try:
        check_regular(Path(path))
        with Path(path).open(encoding="utf-8") as file:
            return file.read(document.MAX_CHARACTERS + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, FileNotFoundError):
            beside = _find_near_file(Path(path)) if Path(path).suffix else ""
            found = str(Path(path).with_name(beside)) if beside else ""
            near = found or document.find_near(str(path), _list_scenarios())
            reason += f": did you mean {near}?" if near else " (see: trunkline list scenarios)"
        raise ScenarioErrors([Problem(str(path), None, "", "", f"cannot read: {reason}")]) from None
    except UnicodeDecodeError:
        raise ScenarioErrors([Problem(str(path), None, "", "", "expected UTF-8 text")]) from None


def _list_scenarios() -> list[str]:
    """The names of the scenarios in the folder `scenarios` here, or else of the installation."""
    folder = find_scenario_folder()
    found = (file.relative_to(folder).with_suffix("") for file in folder.rglob("*.yaml"))
    return sorted(map(str, found))


def _find_near_file(path: Path) -> str:
    """The name of the file in the same folder that resembles this one most; empty if none does."""
    try:
        stems = [each.stem for each in path.parent.iterdir() if each.suffix == path.suffix]
    except OSError:
        return ""
    near = document.find_near(path.stem, stems)
    return near and f"{near}{path.suffix}"


def parse(
    text: str,
    file: str,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    extensions: Extensions | None = None,
    *,
    here: Here = (),
) -> Scenario:
    """Load a scenario from a text.

    Args:
        text: the YAML.
        file: the name of its file, for problems, relative paths and the scenario's default name.
        overrides: as in `load`.
        seed: as in `load`.
        extensions: the components that a scenario may name; by default all that are installed.
        here: as in `load`.

    Raises:
        ScenarioErrors: the scenario has problems; the error has all of them.
    """
    source = document.read(text, file)
    if not source.problems and not isinstance(source.data, dict):
        shown = "the file is empty" if source.data is None else None
        source.refuse((), "expected a mapping (key: value lines)", shown)
    if source.problems and Path(file).suffix not in ("", ".yaml", ".yml"):
        source.problems.insert(0, Problem(file, None, "", "", "expected a scenario (.yaml)"))
    if source.problems:
        raise ScenarioErrors(source.problems)
    tables.expand(source, ("topology", "links"))
    if tables.refuse_link_names(source, ("topology", "links")):
        raise ScenarioErrors(source.problems)
    _expand_names(source.data)
    for assignment in overrides:
        source.set(assignment)
        _expand_names(source.data)
    _expand_scheme(source)
    if seed is not None:
        source.data["seed"] = seed
        source.places["seed",] = (f"--seed {seed}", None)
    read = read_beside(Path(file).parent)
    measured_times.expand(source, read)
    with limited_calls():
        known = user_code.find(extensions or discover(), source, read)
        scenario = Reader(source, known, read).scenario()
    if scenario is None or source.problems:
        raise ScenarioErrors(source.problems)
    noted = dataclasses.replace(scenario, overrides=tuple(overrides))
    anchored = _anchor_folders(noted, Path(file).absolute().parent)
    _check_folders(anchored, source)
    for path, problem in _list_missing(anchored, here):
        source.refuse(path, f"expected {problem.allowed}", document.show(problem.value))
    if not source.problems and "programs" in here:
        _try_out(anchored, source)
    if source.problems:
        raise ScenarioErrors(source.problems)
    return anchored


def resolve(scenario: Scenario) -> str:
    """Write a scenario as YAML with all defaults, random draws and measured values written out.

    `load` reads it as an equal scenario.
    """
    topology = render({"builder": "explicit", **explicit.options(scenario.topology)}, None)
    topology["links"] = tables.write_list(topology["links"])
    scheme = scenario.scheme
    chosen = {
        "scheme": {
            "policy": scheme.policy.kind,
            "plan": scheme.plan.kind,
            **{each.key: render(getattr(scheme, each.name), each.dimension) for each in SCHEME},
            **_render_options(scheme.policy),
            **_render_options(scheme.plan),
        },
        "controller": {"site": scenario.controller_site},
    }
    return document.write(
        {
            "name": scenario.name,
            "description": scenario.description,
            "seed": scenario.seed,
            "backend": scenario.backend,
            "clock": scenario.clock,
            **({"clocks": render(scenario.clocks, None)} if scenario.clocks else {}),
            "topology": topology,
            "network": render(scenario.network, None),
            "workload": {"kind": scenario.workload.kind, **_render_options(scenario.workload)},
            **({} if scenario.runs_programs else chosen),
            "stop": render(scenario.stop, None),
            **({"evaluation": render(scenario.evaluation, None)} if scenario.evaluation.of else {}),
            **({"warm_up": render(scenario.warm_up, None)} if scenario.warm_up.unit else {}),
            "failover": render(scenario.failover, None),
            **({"agents": render(scenario.agents, None)} if scenario.agents.per_process else {}),
            "limits": render(scenario.limits, None),
            "timeline": timeline_section.write_entries(scenario.timeline),
            **({"background": render(scenario.background, None)} if scenario.background else {}),
            "files": render(scenario.files, None),
            "outputs": render(scenario.outputs, None),
            **({"capture": render(scenario.capture, None)} if scenario.capture.links else {}),
            **({"expect": _render_expectations(scenario)} if scenario.expect else {}),
            **({"code": dict(scenario.code)} if scenario.code else {}),
        }
    )


def _render_expectations(scenario: Scenario) -> list[dict[str, Any]]:
    """The expectations in the form of a file, without the options that they do not use."""
    unused = render(Expectation(tasks=1, by_s=None), None) | {"tasks": None}
    rows = render(scenario.expect, None)
    return [{key: value for key, value in row.items() if value != unused[key]} for row in rows]


_FIRST_BYTES = {
    b"\x1f\x8b": "a file of gzip: ",
    b"PK": "a file of zip: ",
    b"\xff\xfe": "UTF-16: ",
    b"\xfe\xff": "UTF-16: ",
}


def _describe_bytes(error: UnicodeDecodeError) -> str:
    """What a file is that has no UTF-8 text, or the line with the first wrong byte."""
    line = error.object[: error.start].count(b"\n") + 1
    return _FIRST_BYTES.get(error.object[:2], f"line {line}: ")


def read_beside(folder: Path) -> Read:
    """A function that reads text files relative to a folder. It raises FaultError if it cannot."""

    def read(name: str) -> str:
        path = folder / name
        try:
            if path.exists() and not path.is_file():  # reading a pipe could wait without end
                raise FaultError(f"{name}: expected a regular file")
            if path.stat().st_size > MAX_FILE_BYTES:
                raise FaultError(f"{name}: expected {MAX_FILE_BYTES} bytes or fewer")
            return path.read_text(encoding="utf-8-sig")
        except FaultError:
            raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if isinstance(error, FileNotFoundError) and (near := _find_near_file(path)):
                reason += f": did you mean {Path(name).with_name(near)}?"
            raise FaultError(f"{name}: cannot read: {reason}") from None
        except UnicodeDecodeError as error:
            raise FaultError(f"{name}: {_describe_bytes(error)}expected UTF-8 text") from None
        except ValueError as error:  # no file can have such a name
            raise FaultError(f"{name!r}: cannot read: {error}") from None

    return read


def _anchor_folders(scenario: Scenario, home: Path) -> Scenario:
    """Make the folders that the scenario names absolute; they are relative to `home`."""
    writable = tuple(os.path.normpath(home / folder) for folder in scenario.files.writable)
    files = dataclasses.replace(scenario.files, writable=writable)
    workload = scenario.workload
    options = dict(workload.options)
    if isinstance(named := options.get("folder"), str):
        options["folder"] = os.path.normpath(home / named)
    if scenario.runs_programs and isinstance(run := options["charge"].get("replay"), str):
        options["charge"] = {**options["charge"], "replay": os.path.normpath(home / run)}
    workload = dataclasses.replace(workload, options=options)
    expect = tuple(
        each
        if each.check is None
        else dataclasses.replace(each, folder=os.path.normpath(home / each.folder))
        for each in scenario.expect
    )
    return dataclasses.replace(scenario, files=files, workload=workload, expect=expect)


def _check_folders(scenario: Scenario, source: Document) -> None:
    """Note the folders that a private run cannot share, because it has others in their place."""
    if not scenario.files.private:
        return
    ours = ", ".join(OWN_FOLDERS)
    for index, folder in enumerate(scenario.files.writable):
        if folder == "/" or folder in OWN_FOLDERS:
            allowed = f"expected a folder other than /, {ours}; files.private: false shares all"
            source.refuse(("files", "writable", index), allowed)
    if scenario.workload.options.get("folder") in OWN_FOLDERS:
        allowed = f"expected a folder other than {ours}: every run has its own; or files.private"
        source.refuse(("workload", "folder"), f"{allowed}: false")


def _list_missing(
    scenario: Scenario, here: Here
) -> Iterator[tuple[tuple[str | int, ...], OptionError]]:
    """The folders, programs and files that this machine lacks, each with its place."""
    workload = scenario.workload
    for index, writable in enumerate(scenario.files.writable if "programs" in here else ()):
        if not Path(writable).is_dir():
            problem = OptionError("writable", writable, "a folder that exists: make it first")
            yield ("files", "writable", index), problem
    if "programs" in here and scenario.runs_programs:
        module, options = workload.module, workload.options
        for problem in (*module.missing_files(**options), *module.missing_charges(**options)):
            yield ("workload", *problem.key.split(".")), problem
    for index, expected in enumerate(scenario.expect if "checks" in here else ()):
        folder = Path(expected.folder)
        if expected.check and not folder.is_dir():
            problem = OptionError("folder", str(folder), "a folder that exists")
            yield ("expect", index, "folder"), problem
        elif expected.check:
            for problem in missing_words("check", expected.check, folder, search_path()):
                yield ("expect", index, "check"), problem


def _try_out(scenario: Scenario, source: Document) -> None:
    """Note what goes wrong if this machine tries the workload, for those kinds that can be tried.

    Loading a scenario does not try it, so that reports need neither its data nor the time.
    """
    workload = scenario.workload
    if not hasattr(workload.module, "try_out"):
        return
    try:
        with limited_calls():
            for problem in workload.module.try_out(**workload.options):
                path = ("workload", *problem.key.split("."))
                source.refuse(path, f"expected {problem.allowed}", document.show(problem.value))
    except ValueError as error:  # from a user's file
        source.refuse(("workload",), str(error), "")


def _expand_names(data: dict[str, Any]) -> None:
    """Expand a bare name into a component without options: `topology: internet2`."""
    for section, key in (("topology", "builder"), ("workload", "kind")):
        if isinstance(data.get(section), str):
            data[section] = {key: data[section]}
    if isinstance(scheme := data.get("scheme"), str) and scheme in SCHEMES:
        data["scheme"] = {"name": scheme}


def _expand_scheme(source: Document) -> None:
    """Expand a scheme's name into its policy, plan and options. Values in the file win.

    In an option that is a mapping, values in the file win key by key. A name that `--set` gives
    replaces the policy and plan of the file, and those of its options that the name stands for.
    """
    scheme = source.data.get("scheme")
    name = scheme.get("name") if isinstance(scheme, dict) else None
    if not isinstance(scheme, dict) or not isinstance(name, str) or name not in SCHEMES:
        return
    is_set = source.is_set(("scheme", "name"))
    chosen = {key: value for key, value in scheme.items() if key != "name"}
    for key, known in SCHEMES[name].items():
        if isinstance(known, Mapping) and isinstance(chosen.get(key), dict):
            chosen[key] = {**known, **chosen[key]}
        elif is_set and not source.is_set(("scheme", key)):
            chosen.pop(key, None)
            source.places["scheme", key] = source.places["scheme", "name"]
    source.data["scheme"] = {**SCHEMES[name], **chosen}


def _render_options(component: Component) -> dict[str, Any]:
    """The options of a component in the form of a file."""
    named = ((units.split_name(name), value) for name, value in component.options.items())
    return {key: render(value, dimension) for (key, dimension), value in named}
