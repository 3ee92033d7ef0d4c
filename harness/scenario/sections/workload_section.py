"""The workload of a scenario: a kind with its options (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trunkline.agents.planning.chunks import cut_model
from trunkline.harness.config.document import KeyPath
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.scenario.scheme_settings import Component
from trunkline.harness.scenario.sections.section_reading import SectionReader
from trunkline.workloads.base import tensor_bytes_of


def read(reader: SectionReader, sites: Sequence[str], seed: int) -> Component | None:
    """Read the workload; None if it has problems. It must suit the `sites`, if they are known."""
    kinds = reader.extensions.workloads
    module, options = reader.read_component("workload", "kind", kinds, "build")
    if module is None or options is None or not _read_texts(reader, module, options):
        return None
    try:
        for problem in _find_problems(reader, module, options, sites):
            path: KeyPath = ("workload", *problem.key.split("."))
            reader.source.refuse(path, f"expected {problem.allowed}")
        if reader.source.is_sound("workload"):
            size = module.model_bytes(**options)
            cut_model(size, max(size, 1), tensor_bytes_of(module, options))
            if hasattr(module, "layers"):
                module.layers(**options)
                if sites:
                    module.compute_times(0, sites, seed, **options).layers(0)
    except ValueError as error:  # from a user's file
        reader.source.refuse(("workload",), str(error), value="")
        return None
    return Component(reader.source.data["workload"]["kind"], options, module)


def _find_problems(
    reader: SectionReader, module: Any, options: dict[str, Any], sites: Sequence[str]
) -> Sequence[Any]:
    """What does not suit the sites; a server, which may be the first one by default, has no part.

    The scheme is not known yet. When it is, the workload is checked again, with its own servers.
    """
    if not sites:
        return ()
    scheme = reader.source.data.get("scheme")
    given = scheme.get("servers") if isinstance(scheme, dict) else None
    servers = {*map(str, given)} if isinstance(given, list) else {sites[0]}
    workers = tuple(site for site in sites if site not in servers)
    problems: Sequence[Any] = module.problems(sites, **options)
    if reader.runs_programs:
        return problems
    without: Sequence[Any] = module.problems(workers, **options) if problems and workers else ()
    return without if isinstance(given, list) or not without else problems


def model_bytes(reader: SectionReader, workload: Component | None) -> int | None:
    """The size of the model; None if it is not known."""
    if workload is None or not reader.source.is_sound("workload"):
        return None
    size: int = reader.extensions.workloads[workload.kind].model_bytes(**workload.options)
    return size


def _read_texts(reader: SectionReader, module: Any, options: dict[str, Any]) -> bool:
    """Replace the names of files by their texts, which the scenario then keeps.

    Returns False if a file cannot be read.
    """
    for name, ending in getattr(module, "FILE_OPTIONS", {}).items():
        file = options[name]
        if file.endswith(ending) and "\n" not in file:
            try:
                options[name] = reader.files(file)
            except FaultError as error:
                text = str(error).removeprefix(f"{file}: ")
                reader.source.refuse(("workload", name), text)
                return False
    return True
