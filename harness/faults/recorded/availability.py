"""When sites are available: files, and one word with all switches (pure).

A file has times and states (`on`, `off`), or a row for each span in which a site is on (`start,
end`). For several sites, it has a column named `site`, or a column of states for each of them.
Before the first switch a site is on; with spans it is off outside of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from trunkline.harness.config import units
from trunkline.harness.config.units import TIME_S
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_problems import FaultProblems
from trunkline.harness.faults.recorded.recorded_faults import Switch
from trunkline.harness.faults.recorded.trace_columns import (
    Column,
    Columns,
    find_clock,
    find_sites,
    find_time,
    squash,
)
from trunkline.harness.faults.recorded.trace_tables import Row, Table, list_cells, read_table
from trunkline.harness.faults.recorded.trace_times import SECONDS, read_times
from trunkline.harness.faults.recorded.traces import (
    Reading,
    check_count,
    find_dates,
    find_times,
    split_steps,
)
from trunkline.topologies.formats.node_names import name_site
from trunkline.topologies.formats.quantities import quote

ALL = "all"
"""Instead of a site: all sites that the file names."""


_ON = ["on", "up", "1", "1.0", "true", "yes", "online", "available", "connected", "active", "alive"]
_OFF = ["off", "down", "0", "0.0", "false", "no", "offline", "unavailable", "disconnected",
        "inactive", "dead"]  # fmt: skip
_STATES = ["state", "status", "availability", *_ON]
_STARTS = ["start", "begin", "from", "since", "starttime", "on"]
_ENDS = ["end", "stop", "until", "to", "endtime", "off"]
_ALLOWED = "expected on or off, up or down, 1 or 0, or the like"


def read(text: str, name: str, site: str, reading: Reading) -> tuple[Switch, ...]:
    """Read when a site is available from a file's text; `name` is its name.

    Raises:
        FaultError: the text is no such file, or does not name the site.
    """
    table = read_table(text, name)
    if len(table.names) == 1 and squash(table.names[0]) in {*_ON, *_OFF} and _is_bare(table):
        table = replace(table, names=(), rows=[(table.where, list(table.names)), *table.rows])
    check_count(name, len(table.rows))
    if reading.columns:
        table = replace(table, names=tuple(reading.columns.split(",")))
    rows = table.rows
    if (sites := find_sites(table.names)) is not None:
        cells = list_cells(rows, sites)
        rows = [rows[i] for i, (_, cell) in enumerate(cells) if _is_site(cell, site)]
        if not rows:
            raise FaultError(f"{name}: no row for {site}")
    words = [squash(each) for each in table.names]
    starts, ends = (next((i for i, word in enumerate(words) if word in group), None)
                    for group in (_STARTS, _ENDS))  # fmt: skip
    if starts is not None and ends is not None:
        return _read_spans(table, rows, starts, ends, reading.start)
    place, time = _find_states(table, site, bool(reading.step))
    columns = Columns({"time": time} if time else {})
    problems, times_s, states = FaultProblems(), list[float](), list[bool]()
    for where, cell in list_cells(rows, place):
        with problems.noting():
            states.append(_read_state(cell, where))
    with problems.noting():
        times_s = find_times(rows, columns, reading, table.where, table.rows)
    problems.refuse()
    return _merge(list(zip(times_s, states, strict=True)))


def _is_bare(table: Table) -> bool:
    """Whether all rows are states in words, so that the first one is no header."""
    return all(squash(row[0]) in {*_ON, *_OFF} and not row[0].isdigit() for _, row in table.rows)


def list_sites(text: str, name: str, known: Sequence[str]) -> list[str]:
    """The sites that a file names, in the order of `known`. Raises FaultError if there are none."""
    table = read_table(text, name)
    place = find_sites(table.names)
    if place is not None:
        given = {cell: None for _, cell in list_cells(table.rows, place)}
    else:
        given = {each: None for each in table.names if find_time(each) is None and each}
    others = [each for each in given if not any(_is_site(each, site) for site in known)]
    if others or not given:
        shown = f"{quote(others[0])}: " if others else ""
        allowed = "expected a column site, or a column for each site, and names of sites"
        raise FaultError(f"{name}: {shown}{allowed}")
    return [site for site in known if any(_is_site(each, site) for each in given)]


def parse_switches(word: str) -> tuple[Switch, ...] | None:
    """Read the switches in a word from `write`; None if the word is the name of a file."""
    if (rows := split_steps(word)) is None:
        return None
    return tuple(Switch(at_s, _read_state(":".join(cells), "steps")) for at_s, cells in rows)


def write(steps: Sequence[Switch]) -> str:
    """Write switches as one word: `0s:on,5s:off`."""
    times = (units.render(step.at_s, TIME_S).replace(" ", "") for step in steps)
    return ",".join(
        f"{time}:{'on' if step.on else 'off'}" for time, step in zip(times, steps, strict=True)
    )


def _is_site(text: str, site: str) -> bool:
    return text == site or _name(text) == site


_name = functools.lru_cache(4096)(name_site)


def _find_states(table: Table, site: str, has_step: bool) -> tuple[int, Column | None]:
    """The column of states, and that of times."""
    names, where = table.names, table.where
    if not names:
        place = 0 if has_step else 1
        if max(len(cells) for _, cells in table.rows) != place + 1:
            allowed = "expected state" if has_step else "expected time,state"
            raise FaultError(f"{where}: {allowed}, or a header row")
        return place, None if has_step else Column(0, SECONDS)
    own = [i for i, each in enumerate(names) if _is_site(each, site)]
    chosen = own or [i for i, each in enumerate(names) if squash(each) in _STATES]
    if len(chosen) != 1:
        raise FaultError(f"{where}: columns {','.join(names)}: expected a column state or {site}")
    time, _ = find_clock(names, find_dates(table))
    return chosen[0], None if has_step else time


def _read_spans(
    table: Table, rows: Sequence[Row], starts: int, ends: int, zero: str
) -> tuple[Switch, ...]:
    """The switches of spans in which a site is on; those that touch are one."""
    unit = (find_time(table.names[starts]) or ("", SECONDS))[1]
    pairs = zip(list_cells(rows, starts), list_cells(rows, ends), strict=True)
    cells = [cell for pair in pairs for cell in pair]
    kept = [cell for i, cell in enumerate(cells) if not i or cell[1] != cells[i - 1][1]]
    times_s = read_times(kept, unit, zero, list_cells(table.rows, starts))
    places_s = dict(zip((text for _, text in kept), times_s, strict=True))
    switches = [(min(0.0, times_s[0]) - 1, False)]
    for (_, text), is_on in zip(cells, [True, False] * len(rows), strict=True):
        if switches[-1][0] == places_s[text]:
            switches.pop()
        else:
            switches.append((places_s[text], is_on))
    return _merge(switches)


def _merge(pairs: Sequence[tuple[float, bool]]) -> tuple[Switch, ...]:
    """The switches, without those that change nothing; those before 0 are one at 0."""
    found: list[Switch] = []
    for at_s, is_on in pairs:
        if found and at_s <= 0:
            found.pop()
        if not found or found[-1].on != is_on:
            found.append(Switch(max(0.0, at_s), is_on))
    return tuple(found)


def _read_state(text: str, where: str) -> bool:
    if text.lower() in (*_ON, *_OFF):
        return text.lower() in _ON
    raise FaultError(f"{where}: {quote(text)}: {_ALLOWED}")
