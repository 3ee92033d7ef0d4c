"""A scenario: what a YAML file describes, parsed strictly and completely before anything starts.

`load` either returns a `Scenario` in which every value is valid and every default is filled in, or
raises `ScenarioErrors` with everything that is wrong with the file at once. `resolve` writes a
scenario so that `load` gives an equal one. The values are in `harness.scenario.settings`, the rules
in `harness.scenario.reader`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trunkline.harness.config import document, units
from trunkline.harness.config.document import Problem, ScenarioErrors
from trunkline.harness.config.options import render
from trunkline.harness.faults.fault_syntax import Read
from trunkline.harness.faults.fault_types import FaultError
from trunkline.harness.scenario import timeline_section, user_code
from trunkline.harness.scenario.extensions import Extensions, discover
from trunkline.harness.scenario.reader import SCHEME, SCHEMES, Reader
from trunkline.harness.scenario.settings import (
    Component,
    Scenario,
)
from trunkline.topologies import explicit


class CannotRunError(RuntimeError):
    """Something that the scenario asks for is not here; the message says what."""


def load(path: str | Path, overrides: Sequence[str] = (), seed: int | None = None) -> Scenario:
    """Read a scenario file, apply `key.path=value` overrides, then the seed.

    Raises ScenarioErrors with every problem found.
    """
    return parse(read_file(path), str(path), overrides, seed)


def read_file(path: str | Path) -> str:
    """The text of a scenario file. Raises ScenarioErrors if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        reason += " (see: trunkline list scenarios)" * isinstance(error, FileNotFoundError)
        raise ScenarioErrors([Problem(str(path), None, "", "", f"cannot read: {reason}")]) from None
    except UnicodeDecodeError:
        raise ScenarioErrors([Problem(str(path), None, "", "", "allowed is UTF-8 text")]) from None


def parse(
    text: str,
    file: str,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    extensions: Extensions | None = None,
) -> Scenario:
    """`load` for a text; `file` is what problems call it, its stem is the default name."""
    source = document.read(text, file)
    if not source.problems and not isinstance(source.data, dict):
        source.refuse((), "allowed is a mapping (key: value lines)")
    if source.problems:
        raise ScenarioErrors(source.problems)
    _expand_names(source.data)
    for assignment in overrides:
        source.set(assignment)
        _expand_names(source.data)
    _expand_scheme(source.data)
    if seed is not None:
        source.data["seed"] = seed
        source.places["seed",] = (f"--seed {seed}", None)
    read = read_beside(Path(file).parent)
    known = user_code.find(extensions or discover(), source, read)
    scenario = Reader(source, known, read).scenario()
    if scenario is None or source.problems:
        raise ScenarioErrors(source.problems)
    return _anchor_folder(scenario, file)


def resolve(scenario: Scenario) -> str:
    """YAML with every default, draw and lookup spelled out; `load` makes it this scenario again."""
    topology = {"builder": "explicit", **explicit.options(scenario.topology)}
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
            "topology": render(topology, None),
            "network": render(scenario.network, None),
            "workload": {"kind": scenario.workload.kind, **_render_options(scenario.workload)},
            **({} if scenario.runs_programs else chosen),
            "stop": render(scenario.stop, None),
            "failover": render(scenario.failover, None),
            "limits": render(scenario.limits, None),
            "timeline": timeline_section.write_entries(scenario.timeline),
            "outputs": render(scenario.outputs, None),
            **({"code": dict(scenario.code)} if scenario.code else {}),
        }
    )


def read_beside(folder: Path) -> Read:
    """Reads what a timeline names, relative to a folder."""

    def read(name: str) -> str:
        path = folder / name
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise FaultError(f"{name}: allowed is a regular file")
            return path.read_text(encoding="utf-8-sig")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise FaultError(f"{name}: cannot read: {reason}") from None
        except UnicodeDecodeError:
            raise FaultError(f"{name}: allowed is UTF-8 text") from None
        except ValueError as error:  # no name that a file can have
            raise FaultError(f"{name!r}: cannot read: {error}") from None

    return read


def _anchor_folder(scenario: Scenario, file: str) -> Scenario:
    """A workload's folder is relative to the folder of the scenario's own file."""
    workload = scenario.workload
    named = workload.options.get("folder")
    if not isinstance(named, str):
        return scenario
    folder = os.path.normpath(Path(file).absolute().parent / named)
    options = {**workload.options, "folder": folder}
    return dataclasses.replace(scenario, workload=dataclasses.replace(workload, options=options))


def _expand_names(data: dict[str, Any]) -> None:
    """A bare name stands for a component without options: `topology: internet2`."""
    for section, key in (("topology", "builder"), ("workload", "kind")):
        if isinstance(data.get(section), str):
            data[section] = {key: data[section]}
    if isinstance(scheme := data.get("scheme"), str) and scheme in SCHEMES:
        data["scheme"] = {"name": scheme}


def _expand_scheme(data: dict[str, Any]) -> None:
    """A scheme's name stands for its policy, plan and options, where the file has no others.

    Of options that have options of their own it stands for each of these.
    """
    scheme = data.get("scheme")
    name = scheme.get("name") if isinstance(scheme, dict) else None
    if isinstance(scheme, dict) and isinstance(name, str) and name in SCHEMES:
        chosen = {key: value for key, value in scheme.items() if key != "name"}
        for key, known in SCHEMES[name].items():
            if isinstance(known, Mapping) and isinstance(chosen.get(key), dict):
                chosen[key] = {**known, **chosen[key]}
        data["scheme"] = {**SCHEMES[name], **chosen}


def _render_options(component: Component) -> dict[str, Any]:
    """A component's options as a file spells them."""
    named = ((units.split_name(name), value) for name, value in component.options.items())
    return {key: render(value, dimension) for (key, dimension), value in named}
