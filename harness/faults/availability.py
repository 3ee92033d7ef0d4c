"""When sites are available: files, and one word with all switches (pure).

A file has times and states (`on`, `off`), or a row for each span in which a site is on (`start,
end`). For several sites, it has a column named `site`, or a column of states for each of them.
Before the first switch a site is on; with spans it is off outside of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trunkline.harness.config import units
from trunkline.harness.config.units import TIME_S, QuantityError
from trunkline.harness.faults.fault_types import FaultError, Switch
from trunkline.harness.faults.trace_columns import Column, Columns, find_sites, find_time, squash
from trunkline.harness.faults.trace_tables import Row, list_cells, read_table
from trunkline.harness.faults.trace_times import FIRST, SECONDS, is_date, read_times
from trunkline.harness.faults.traces import Reading, check_count, find_times
from trunkline.topologies.node_names import name_site
from trunkline.topologies.quantities import quote

ALL = "all"
"""Instead of a site: all sites that the file names."""


def _list(words: str) -> list[str]:
    return words.split()


_ON = _list("on up 1 1.0 true yes online available connected active alive")
_OFF = _list("off down 0 0.0 false no offline unavailable disconnected inactive dead")
_STATES = ["state", "status", "availability", *_ON]
_ENDS = _list("end stop until to endtime off")
_STARTS = _list("start begin from since starttime on")
_ALLOWED = "expected on or off, up or down, 1 or 0, or the like"


def read(text: str, name: str, site: str, reading: Reading) -> tuple[Switch, ...]:
    """Read when a site is available from a file's text; `name` is its name.

    Raises:
        FaultError: the text is no such file, or does not name the site.
    """
    table = read_table(text, name)
    check_count(name, len(table.rows))
    names = tuple(reading.columns.split(",")) if reading.columns else table.names
    words = [squash(each) for each in names]
    rows = table.rows
    sites = find_sites(names)
    if sites is not None:
        rows = [row for row, (_, cell) in zip(rows, list_cells(rows, sites), strict=True)
                if _is_site(cell, site)]  # fmt: skip
        if not rows:
            raise FaultError(f"{name}: no row for {site}")
    ends, starts = (next((i for i, word in enumerate(words) if word in group), None)
                    for group in (_ENDS, _STARTS))  # fmt: skip
    if starts is not None and ends is not None:
        return _read_spans(rows, (names[starts], starts), (names[ends], ends), reading.start)
    place, time = _find_states(names, rows, table.where, site, bool(reading.step))
    columns = Columns({"time": time} if time else {})
    times_s = find_times(rows, columns, reading, table.where)
    states = [_read_state(cell, where) for where, cell in list_cells(rows, place)]
    return _merge(list(zip(times_s, states, strict=True)), name)


def list_sites(text: str, name: str, known: Sequence[str]) -> list[str]:
    """The sites that a file names, in the order of `known`. Raises FaultError if there are none."""
    table = read_table(text, name)
    place = find_sites(table.names)
    if place is not None:
        given = [cell for _, cell in list_cells(table.rows, place)]
    else:
        given = [each for each in table.names if find_time(each) is None and each]
    found = [site for site in known if any(_is_site(each, site) for each in dict.fromkeys(given))]
    others = [
        each for each in dict.fromkeys(given) if not any(_is_site(each, site) for site in known)
    ]
    if others or not found:
        shown = f"{quote(others[0])}: " if others else ""
        raise FaultError(f"{name}: {shown}expected a column site, or a column for each site")
    return found


def parse_switches(word: str) -> tuple[Switch, ...] | None:
    """Read the switches in a word from `write`; None if the word is the name of a file."""
    if not re.match(r"[0-9.]+(us|ms|s|min|h):", word):
        return None
    check_count("steps", word.count(",") + 1)
    found: list[Switch] = []
    for text in word.split(","):
        time, _, state = text.partition(":")
        try:
            at_s = float(units.parse(time, TIME_S))
        except QuantityError as error:
            raise FaultError(f"steps: {time}: {error}") from None
        if found and at_s <= found[-1].at_s:
            raise FaultError(f"steps: {text}: expected times that grow")
        found.append(Switch(at_s, _read_state(state, "steps")))
    return tuple(found)


def write(steps: Sequence[Switch]) -> str:
    """Write switches as one word: `0s:on,5s:off`."""
    times = (units.render(step.at_s, TIME_S).replace(" ", "") for step in steps)
    return ",".join(
        f"{time}:{'on' if step.on else 'off'}" for time, step in zip(times, steps, strict=True)
    )


def _is_site(text: str, site: str) -> bool:
    return text in (site, f"node-{site}") or name_site(text) == site


def _find_states(
    names: Sequence[str], rows: Sequence[Row], where: str, site: str, has_step: bool
) -> tuple[int, Column | None]:
    """The column of states, and that of times."""
    if not names:
        place = 0 if has_step else 1
        if max(len(cells) for _, cells in rows) != place + 1:
            allowed = "expected state" if has_step else "expected time,state"
            raise FaultError(f"{where}: {allowed}, or a header row")
        return place, None if has_step else Column(0, SECONDS)
    times = {i: found for i, each in enumerate(names) if (found := find_time(each))}
    if not times and names[0] == "" and rows[0][1] and is_date(rows[0][1][0]):
        times[0] = ("time", SECONDS)
    others = [i for i, each in enumerate(names) if i not in times and each not in ("", "-")]
    own = [i for i in others if _is_site(names[i], site)]
    states = [i for i in others if squash(names[i]) in _STATES]
    chosen = own or states
    if len(chosen) != 1:
        raise FaultError(f"{where}: columns {','.join(names)}: expected a column state or {site}")
    first = next(iter(times), None)
    time = None if first is None or has_step else Column(first, times[first][1])
    return chosen[0], time


def _read_spans(
    rows: Sequence[Row], start: tuple[str, int], end: tuple[str, int], zero: str
) -> tuple[Switch, ...]:
    """The switches of spans in which a site is on; those that touch are one."""
    unit = (find_time(start[0]) or ("", SECONDS))[1]
    times = list_cells(rows, start[1]), list_cells(rows, end[1])
    cells = [cell for pair in zip(*times, strict=True) for cell in pair]
    kept = [cell for i, cell in enumerate(cells) if not i or cell[1] != cells[i - 1][1]]
    places_s = dict(zip((text for _, text in kept), read_times(kept, unit, zero), strict=True))
    pairs: list[tuple[float, bool]] = []
    for (_, text), is_on in zip(cells, [True, False] * len(rows), strict=True):
        at_s = places_s[text]
        if pairs and pairs[-1][0] == at_s:
            pairs.pop()
        else:
            pairs.append((at_s, is_on))
    if pairs[0][0] > 0 or zero not in ("", FIRST):
        pairs.insert(0, (min(0.0, pairs[0][0] - 1), False))
    return _merge(pairs, start[0])


def _merge(pairs: Sequence[tuple[float, bool]], name: str) -> tuple[Switch, ...]:
    """The switches, without those that change nothing; those before 0 are one at 0."""
    found: list[Switch] = []
    for at_s, is_on in pairs:
        if found and at_s <= 0:
            found.pop()
        if not found or found[-1].on != is_on:
            found.append(Switch(max(0.0, at_s), is_on))
    if not found:
        raise FaultError(f"{name}: no row: {_ALLOWED}")
    return tuple(found)


def _read_state(text: str, where: str) -> bool:
    if text.lower() in (*_ON, *_OFF):
        return text.lower() in _ON
    raise FaultError(f"{where}: {quote(text)}: {_ALLOWED}")
