"""The section on the programs of a run: how each ended, and the end of its output (pure)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from trunkline.harness.config.units import count_of
from trunkline.harness.report.pages import charts, frame
from trunkline.harness.report.pages.markup import Child, make_table, tag
from trunkline.harness.report.run_data import Outputs

MAX_PROGRAMS = 200
"""The most programs that the table shows; the file has all."""

MAX_OUTPUTS = 32
"""The most outputs that the page shows; those of programs that failed come first."""

MAX_NAMES = 8
"""The most programs with the same output that are named."""

NOISE = re.compile(
    "|".join(
        (
            r"^frame #\d+: ",
            r"^<omitting python frames>",
            r"^\[W\d.* (socket|ProcessGroup\w*|NNPACK|TCPStore)\.cpp:\d+\]",
            r"^W\d+ \d+ torch/distributed/run\.py:\d+\] (\*+)?$",
            r"OMP_NUM_THREADS environment variable",
            r"destroy_process_group\(\) was not called",
            r"Failed to initialize NumPy",
        )
    )
)
"""Lines of PyTorch that are no reason why a program failed: its C++ frames, unknown names of hosts,
and advice on threads."""

STREAMS = {"out": "standard output", "err": "standard error"}


def count_ended(programs: pd.DataFrame) -> str:
    """How the programs ended, in a few words."""
    never = int((programs["processes"] == 0).sum())
    failed = int(_find_failed(programs).sum())
    asked = int(programs["asked"].sum())
    well = int(((programs["exit_code"].fillna(-1) == 0) & ~programs["asked"]).sum())
    killed = int((_find_killed(programs)).sum())
    others = int(programs["end_s"].notna().sum()) - well - asked - killed - failed
    restarts = int((programs["processes"] - 1).clip(lower=0).sum())
    words = [f"{well} with exit code 0"] * bool(well)
    words += [f"{others} with another exit that is allowed"] * bool(others > 0)
    words += [f"{asked} {'was' if asked == 1 else 'were'} told to end"] * bool(asked)
    words += [f"{killed} killed by faults"] * bool(killed)
    words += [f"{failed} failed"] * bool(failed)
    words += [f"{never} never started"] * bool(never)
    words += [f"{count_of(restarts, 'restart')}"] * bool(restarts)
    return ", ".join(words)


def write_section(
    programs: pd.DataFrame, sites: pd.DataFrame, regions: Mapping[str, str], outputs: Outputs
) -> list[Child]:
    """A table of the programs, and the end of the output of each.

    The first program of a site has the site's bytes.
    """
    found = programs[:MAX_PROGRAMS].merge(sites.drop(columns="programs"), on="site", how="left")
    found = found.assign(first=~found["site"].duplicated())
    several = programs["command"].nunique() > 1
    again = bool((programs["processes"] > 1).any())
    heads = ["program" if programs["role"].any() else "site"]
    heads += ["processes"] * again + ["ended (s)", "how", "sent (MB)", "received (MB)"]
    heads += ["command"] * several + ["region"] * any(regions.values())
    rows = [
        [
            row["program"],
            *([str(row["processes"])] if again else ()),
            charts.format_known(row["end_s"], ".3f"),
            describe_exit(row),
            *(
                f"{row[column] / 1e6:.2f}" if row["first"] else ""
                for column in ("bytes_sent", "bytes_received")
            ),
            *([charts.truncate(row["command"], 400)] if several else ()),
            *([regions[row["site"]]] if any(regions.values()) else ()),
        ]
        for row in found.to_dict("records")
    ]
    words = "Bytes are those of the site's interfaces, headers included"
    shared = ", for all of its programs together" if found["site"].duplicated().any() else ""
    parts: list[Child] = []
    if not several:
        parts.append(tag("p", "Every site runs ", tag("code", programs["command"].iloc[0]), "."))
    numbers = (1, 2, 4, 5) if again else (1, 3, 4)
    parts.append(make_table(heads, rows, "programs", numbers))
    more = len(programs) - len(found)
    left = f" The first {len(found)}; tables/programs.csv has all." if more else ""
    parts.append(tag("p", f"{words}{shared}.{left}"))
    return [*parts, *_write_outputs(programs, outputs)]


def _write_outputs(programs: pd.DataFrame, outputs: Outputs) -> list[Child]:
    """The outputs that are not empty: errors of failed programs, and all others in one fold.

    Programs that wrote the same share a text.
    """
    failed = set(programs["program"][_find_failed(programs)])
    same = defaultdict[tuple[bool, str, str], list[str]](list)
    for (name, stream), text in outputs.items():
        same[name in failed and stream == "err", stream, text].append(name)
    ranks = {name: rank for rank, name in enumerate(programs["program"])}
    order = sorted(
        same.items(),
        key=lambda each: (not each[0][0], ranks.get(each[1][0], 0), each[0][1] != "out"),
    )
    parts: list[Child] = []
    folded: list[Child] = []
    for (is_error, stream, text), names in order[:MAX_OUTPUTS]:
        whose = "its" if len(names) == 1 else "their"
        alike = "" if len(names) == 1 else ", the same for each"
        title = f"{_list_names(names)}: the end of {whose} {STREAMS[stream]}{alike}"
        if is_error:
            parts += [tag("h3", title), *_write_errors(text)]
        else:
            folded += [tag("p", title), tag("pre", text, tabindex="0")]
    if folded:
        left = len(order) - MAX_OUTPUTS
        more = tag("p", f"log/ has {count_of(left, 'more output')}.") if left > 0 else None
        title = "The last lines of each program's output"
        parts.append(frame.fold(title, *folded, more, file="log/"))
    return parts


def _list_names(names: Sequence[str]) -> str:
    left = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {left} more" if left > 0 else "")


def _write_errors(text: str) -> Iterator[Child]:
    """The errors of a failed program; below them, folded, the lines of NOISE."""
    lines = text.splitlines()
    noise = [line for line in lines if NOISE.search(line)]
    said = [line for line in lines if not NOISE.search(line)]
    if said:
        yield tag("pre", "\n".join(said), tabindex="0")
    if noise:
        count = f"{len(noise)} line{'s' * (len(noise) > 1)}"
        title = f"{count} of PyTorch that say nothing about the failure"
        yield frame.fold(title, tag("pre", "\n".join(noise), tabindex="0"), file="log/")


def _find_failed(programs: pd.DataFrame) -> pd.Series[bool]:
    unended = programs["end_s"].isna() & (programs["processes"] > 0)
    return (programs["failed"] | unended).astype(bool)


def _find_killed(programs: pd.DataFrame) -> pd.Series[bool]:
    """The programs whose last process a fault killed."""
    killed = programs["signal"].fillna(0) == 9
    return (killed & ~programs["asked"] & ~programs["failed"]).astype(bool)


def describe_exit(row: Mapping[Any, Any]) -> str:
    """How a program ended, in words."""
    if not row["processes"]:
        return "never started"
    if pd.isna(row["end_s"]):
        return "unknown"
    how = (
        f"by signal {row['signal']}" if pd.notna(row["signal"]) else f"exit code {row['exit_code']}"
    )
    how += ", given up after all restarts" if row.get("given_up") else ""
    return f"{how}, told to end" if row["asked"] else how
