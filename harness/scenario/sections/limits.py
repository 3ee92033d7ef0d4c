"""The budgets of a run, and whether its models fit into that of memory (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from trunkline.harness.config.units import SIZE_BYTES, render, short
from trunkline.harness.scenario.scheme_settings import Duration

if TYPE_CHECKING:
    from trunkline.harness.scenario.settings import Scenario


def _check_memory(size_bytes: int) -> int:
    if not 2**29 <= size_bytes <= 2**40:
        raise ValueError("expected 512 MiB to 1 TiB")
    return size_bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets on the scenario's clock, and of memory.

    Options:
        task_s: a task that takes longer is abandoned; the default is at most the budget of the run.
        run_s: a run that takes longer is ended and fails.
        recovery_s: at the end of a run with a timeline, all faults are undone; then all agents must
            finish within this time.
        memory_bytes: the memory of the embedded kernel, of which the host provides only what the
            run touches; 512 MiB to 1 TiB. Large models need more: each site holds several copies.
    """

    task_s: Duration = 600.0
    run_s: Duration = 3600.0
    recovery_s: Duration = 600.0
    memory_bytes: Annotated[int, AfterValidator(_check_memory)] = 6 * 2**30


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
