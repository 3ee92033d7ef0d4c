"""A page's sites: what each did in numbers, and of many sites which ones have a row (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.markup import Child, make_table, tag
from trunkline.harness.report.run_data import RunData

MOST_SITES = 80
"""If there are more sites, only CHOSEN of them have a row of their own."""

CHOSEN = 40

BUSIEST = 5

SHARES = {"least": 0.0, "10 %": 0.1, "median": 0.5, "90 %": 0.9, "most": 1.0}
"""The quantiles of all sites, by their names."""

TIMES, SIZES = ("compute_s", "wait_s", "sync_s"), ("bytes_sent", "bytes_received")


def choose_sites(data: RunData) -> tuple[str, ...]:
    """The sites that have a row, in the order of the topology.

    Of many sites these are servers, sites that faults touched (at most half of the rows), the
    BUSIEST that moved most bytes, such as the middle of a star, and those that computed and
    synchronized for longest: others waited for them.
    """
    sites = data.scenario.topology.site_names
    if len(sites) <= MOST_SITES:
        return sites
    touched = {
        name
        for fault in data.history.faults
        for target in fault.started.targets
        for name in target.split(" -> ")
    }
    first = () if data.scenario.runs_programs else data.scenario.scheme.servers
    chosen = dict.fromkeys((*first, *[site for site in sites if site in touched][: CHOSEN // 2]))
    workers = data.tables["workers"]
    moved = workers[list(SIZES)].sum(axis="columns").sort_values(ascending=False)
    chosen |= dict.fromkeys(workers["site"][moved.index[:BUSIEST]])
    busy_s = workers["compute_s"].fillna(0) + workers["sync_s"].fillna(0)
    chosen |= dict.fromkeys(workers["site"][busy_s.sort_values(ascending=False).index])
    chosen |= dict.fromkeys(sites)
    shown = set([*chosen][:CHOSEN])
    return tuple(site for site in sites if site in shown)


def explain_choice(data: RunData) -> list[Child]:
    """Which of many sites have a row; nothing if all have one."""
    sites, shown = data.scenario.topology.site_names, choose_sites(data)
    if shown == sites:
        return []
    named = "" if data.scenario.runs_programs else "servers, "
    words = (
        f"{len(shown)} of {len(sites)} sites have a row: {named}sites that faults touched, "
        f"{BUSIEST} that moved most bytes, and those that computed and synchronized for longest."
    )
    return [tag("p", words)]


def write_sites(data: RunData) -> list[Child]:
    """What sites did: a row for each, or for some of many with the quantiles of all."""
    if data.scenario.runs_programs:
        return []
    workers, shown = data.tables["workers"], choose_sites(data)
    workers = workers.assign(all_rounds=workers["rounds"] + workers["rounds_alone"])
    rows = _write_rows(data, workers[workers["site"].isin(shown)])
    words = "These numbers are of the whole run, the warm-up included."
    of_whole: list[Child] = [tag("p", words)] if data.scenario.warm_up.unit else []
    if len(shown) == len(workers):
        return [*of_whole, rows]
    file = tag("p", f"All {len(workers)} sites are in ", tag("code", "tables/workers.csv"), ".")
    return [*of_whole, _write_quantiles(workers), *explain_choice(data), rows, file]


def _write_quantiles(workers: pd.DataFrame) -> Child:
    """A row for each quantile over all sites."""
    heads = [f"of {len(workers)} sites", "rounds in all", "computed (s)", "waited (s)",
             "synchronized (s)", "sent (MB)", "received (MB)"]  # fmt: skip
    rows = [
        (
            name,
            f"{workers['all_rounds'].quantile(share):g}",
            *(f"{workers[column].quantile(share):.2f}" for column in TIMES),
            *(f"{workers[column].quantile(share) / 1e6:.2f}" for column in SIZES),
        )
        for name, share in SHARES.items()
    ]
    return make_table(heads, rows, "quantiles of sites", range(1, len(heads)))


def _write_rows(data: RunData, found: pd.DataFrame) -> Child:
    regions = {site.name: site.region for site in data.scenario.topology.sites}
    heads = ["site", "rounds in all", "computed (s)", "waited (s)", "synchronized (s)", "sent (MB)",
             "received (MB)"]  # fmt: skip
    has_regions = any(regions.values())
    compares = found[["similarity", "excluded_s"]].notna().any(axis=None)
    if compares:
        heads += ["similarity", "excluded (s)"]
    has_alone = found["rounds_alone"].any()
    heads += ["of these rounds alone"] if has_alone else []
    rows = [
        (
            str(row["site"]),
            str(row["all_rounds"]),
            *(f"{row[column]:.2f}" for column in TIMES),
            *(f"{row[column] / 1e6:.2f}" for column in SIZES),
            *(
                charts.format_known(row[column], ".2f")
                for column in (("similarity", "excluded_s") if compares else ())
            ),
            *([str(row["rounds_alone"])] if has_alone else ()),
            *([regions.get(str(row["site"]), "")] if has_regions else ()),
        )
        for row in found.to_dict("records")
    ]
    numbers = range(1, len(heads))
    return make_table([*heads, *(["region"] if has_regions else ())], rows, "sites", numbers)
