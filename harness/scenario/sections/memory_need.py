"""Whether the models of a run can fit into the memory of its guest (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.harness.config.units import SIZE_BYTES, render, short

if TYPE_CHECKING:
    from trunkline.harness.scenario.settings import Scenario


def find_shortage(scenario: Scenario) -> str | None:
    """Why a run cannot fit, as a clause with its remedy; None if it may.

    One copy of each site's model is the least that a run needs: most runs need two or three. With
    Python code of the user nothing is known, as its sites may share a model.
    """
    if scenario.backend != "embedded" or scenario.runs_programs or scenario.code:
        return None
    sites = len(scenario.topology.site_names)
    least, given = sites * scenario.model_bytes, scenario.limits.memory_bytes
    if least <= given:
        return None
    return (
        f"limits.memory, {render(given, SIZE_BYTES)}: the models of {sites} sites alone take "
        f"{short(least, SIZE_BYTES)}; remedy: a smaller model, fewer sites, or more limits.memory"
    )
