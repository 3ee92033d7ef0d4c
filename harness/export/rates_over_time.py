"""What sites did and what links carried over time, with columns per site or link."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.agents.events.lifecycle import Doing
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.record.calls import list_calls
from trunkline.harness.record.transfers import union
from trunkline.harness.report.overlay.link_load import count_bytes, count_counted_bytes

STEPS, MOST_STEPS = 200, 1_000_000
"""The steps of a run if no length is asked for, and the most of any."""

OF_AGENTS = {Doing.COMPUTING: "computing", Doing.WAITING: "waiting", Doing.IN_TASK: "in a task"}


def find_edges_ns(
    run: RunFiles, step_s: float | None = None, steps: int = STEPS
) -> NDArray[np.float64]:
    """The edges of equal steps until all sites had finished: of this length, or so many.

    With a length, the last step may end later. Raises ValueError for a wrong or too small one.
    """
    if step_s is not None and not (isinstance(step_s, Real) and step_s > 0):
        raise ValueError(f"step_s={step_s!r}: expected a number of seconds, more than 0")
    end_ns = max(run.history.active_end_ns, 1)
    if step_s is not None and end_ns / 1e9 / step_s > MOST_STEPS:
        least_s = end_ns / 1e9 / MOST_STEPS
        raise ValueError(f"step_s={step_s}: expected {least_s:.2g} or more: {MOST_STEPS} steps")
    step_ns = end_ns / steps if step_s is None else step_s * 1e9
    count = steps if step_s is None else max(1, math.ceil(end_ns / step_ns))
    return np.array([number * step_ns for number in range(count + 1)], dtype=np.float64)


def tabulate_link_rates(run: RunFiles, edges_ns: NDArray[np.float64]) -> pd.DataFrame:
    """What each directed link carried in each step, in Mbit/s: a column per link, (src, dst).

    Steps lie between the edges; the index is their start in seconds. In a run of agents it is
    payload, as `link_load` spreads it over time; in one of programs what interfaces counted,
    headers included.
    """
    links = tuple((link.src, link.dst) for link in run.scenario.topology.links)
    if run.scenario.runs_programs:
        moved = count_counted_bytes(run.history, links, edges_ns)
    else:
        moved, _ = count_bytes(run.history, run.scenario.topology, links, edges_ns)
    columns = pd.MultiIndex.from_tuples(links, names=("src", "dst"))
    return pd.DataFrame(moved * 8e3 / np.diff(edges_ns)[:, None], _name_times(edges_ns), columns)


def tabulate_activity(run: RunFiles, edges_ns: NDArray[np.float64]) -> pd.DataFrame:
    """The share of each step that each site spent in each activity.

    There is a column per site and activity, (site, activity): computing, waiting and in a task, or
    of programs computing and in a call. What processes of a site do at once counts once.
    """
    shares = {}
    for (site, name), spans_ns in _list_spans_ns(run).items():
        spent_ns = np.zeros(len(edges_ns))  # until each edge
        for start_ns, end_ns in union(spans_ns):
            spent_ns += np.clip(edges_ns, start_ns, end_ns) - start_ns
        shares[site, name] = np.diff(spent_ns) / np.diff(edges_ns)
    columns = pd.MultiIndex.from_tuples(shares, names=("site", "activity"))
    return pd.DataFrame(np.array([*shares.values()]).T, _name_times(edges_ns), columns)


def _list_spans_ns(run: RunFiles) -> Mapping[tuple[str, str], Sequence[tuple[int, int]]]:
    """When each site did what, by site and activity, in nanoseconds. Spans may overlap."""
    history, programs = run.history, run.scenario.runs_programs
    names = {Doing.COMPUTING: "computing"} if programs else OF_AGENTS
    calls = defaultdict[str, list[tuple[int, int]]](list)
    for call in list_calls(history):
        end_ns = history.active_end_ns if call.finished is None else call.finished.t_ns
        calls[call.started.site].append((call.started.t_ns, end_ns))
    found: dict[tuple[str, str], Sequence[tuple[int, int]]] = {}
    for site in run.scenario.topology.site_names:
        phases = history.phases.get(site, ())
        for doing, name in names.items():
            found[site, name] = [(p.start_ns, p.end_ns) for p in phases if p.doing is doing]
        if programs:
            found[site, "in a call"] = calls[site]
    return found


def _name_times(edges_ns: NDArray[np.float64]) -> pd.Index[float]:
    """The index of tables over time: each step's start in seconds."""
    return pd.Index(edges_ns[:-1] / 1e9, name="t_s")
