"""What the columns of a trace mean, by their names (pure).

The words for rates, delays, jitter and losses are those of networks from files (`attributes`), also
with a unit at their end: `downlink_mbps`, `Latency (ms)`. Words around them that say who has
measured, or that the values are means, are skipped: `avg_rtt`, `pop_ping_latency_ms`. Columns of
minima, maxima and deviations are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.recorded.trace_times import SECONDS
from trunkline.topologies.formats.attributes import find_quantity
from trunkline.topologies.formats.quantities import PERCENT, RATE, TIME, Unit, quote

RATES = replace(RATE, name="a rate of 0 or more", above_0=False)

POSITIONS = ("time", "rate", "delay", "loss", "jitter")
"""The columns of a file without a header row."""

VALUES = ("rate", "delay", "jitter", "loss")
ALLOWED = "expected time and at least one of rate, delay or rtt, jitter and loss"

_TIME_WORDS = (
    "time t elapsed elapsedtime relativetime timestamp ts datetime dtime date unix unixtime epoch "
    "epochtime utc utctime second seconds sec secs s clock localtime starttime start begin when"
)
_TIMES = _TIME_WORDS.split()
_CLOCKS = {"time", "timestamp", "date", "datetime", "elapsed", "epoch", "seconds", "at"}
_SITES = (re.compile("(site|node|client|device|host|user)(id|name)?"), re.compile("name|label|id"))
_INDEX = re.compile(r"(unnamed: [0-9]+|index|)", re.IGNORECASE)
_SKIPPED_WORDS = (
    "avg mean average median pop ping icmp tcp udp downlink uplink download upload down up dl ul "
    "link network net measured total current available avail starlink lte cell tx rx"
)
_NOT_READ_WORDS = (
    "min max minimum maximum std stddev stdev mdev var variance p5 p10 p25 p75 p90 p95 p99"
)
_MEANS = ("avg", "mean", "average", "median", "in")
_SKIPPED, _NOT_READ = {*_SKIPPED_WORDS.split()}, {*_NOT_READ_WORDS.split()}
_MORE = {
    "bitspersecond": ("rate", replace(RATES, plain="bit/s")),
    "bytespersecond": ("rate", replace(RATES, plain="B/s")),
    "lost": ("loss", PERCENT),
    "lostpercent": ("loss", PERCENT),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its place in a row, the unit of its numbers, and what to multiply them by."""

    place: int
    unit: Unit
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns by what they say (`time`, `rate`, ...), and those that are not read."""

    found: Mapping[str, Column]
    date: int | None = None
    unread: tuple[str, ...] = field(default=())


def find_columns(
    names: Sequence[str], where: str, rate: str = "", unit: str = "", dates: int | None = None
) -> Columns:
    """Find out what columns mean.

    Args:
        names: their names; `-` for one that shall not be read.
        where: the place of the names in errors.
        rate: the column of the rate; needed if several could be.
        unit: the unit of the rate, if its column has none.
        dates: a column that has dates and no name.

    Raises:
        FaultError: two columns say the same, or none is read.
    """
    if rate and rate not in names:  # a word of a hint has no spaces
        rate = next((name for name in names if squash(name) == squash(rate)), rate)
    if rate and rate not in names:
        raise FaultError(f"rate={rate}: expected a column of {where}: {', '.join(names)}")
    found: dict[str, Column] = {}
    time, date = find_clock(names, dates)
    if time is not None:
        found["time"] = time
    place = time.place if time else None
    for i, name in enumerate(names):
        kind, column = _read_name(name, i) if i not in (place, date) else ("", None)
        if rate and name == rate:
            kind, column = "rate", column if kind == "rate" else Column(i, RATES)
        elif kind == "rate" and rate:
            kind = ""
        if kind and column:
            if kind in found:
                first = names[found[kind].place]
                several = f"{quote(first)} and {quote(name)} both say a {kind}"
                fix = "rate=COLUMN" if kind == "rate" else "columns=NAME,-,..., with - for others"
                if kind == "rate" or found[kind].factor == column.factor:
                    raise FaultError(f"{where}: {several}: expected one, chosen by {fix}")
                if column.factor != 1:
                    continue  # a delay is more exact than half of a round trip
            found[kind] = column
    if not any(kind in found for kind in VALUES):
        raise FaultError(f"{where}: columns {','.join(names)}: {ALLOWED}")
    if unit:
        found = _give_unit(found, unit)
    used = {column.place for column in found.values()} | {date}
    unread = [
        name
        for i, name in enumerate(names)
        if i not in used and name != "-" and not _INDEX.fullmatch(name)
    ]
    return Columns(found, date, tuple(unread))


def name_unit(text: str) -> tuple[str, Unit]:
    """What a number with this unit says, and its unit. Raises FaultError if it is none."""
    for kind, unit in (("rate", RATES), ("delay", TIME), ("loss", PERCENT)):
        if unit.find_size(text) is not None:
            return kind, replace(unit, plain=text)
    allowed = "expected a unit of rates, times or shares such as Mbit/s, ms or %, or mahimahi"
    raise FaultError(f"unit={text}: {allowed}")


def find_time(name: str) -> tuple[str, Unit] | None:
    """The word and the unit of a column of times; None for another column."""
    match = re.fullmatch(r"(.*?)[\s_.]*[(\[ _.-]([a-zA-Zµ]+)[)\]]?|(.+)", name.strip())
    if match is None:
        return None
    whole = squash(name)
    if whole in _TIMES:
        return whole, SECONDS
    word = squash(match[1] or "")
    if word in _TIMES and match[2] and SECONDS.find_size(match[2]) is not None:
        return word, replace(SECONDS, plain=match[2])
    if word in _TIMES and (match[2] or "").lower() in ("utc", "gmt", "unix", "epoch"):
        return word, SECONDS
    return None


def find_clock(names: Sequence[str], dates: int | None = None) -> tuple[Column | None, int | None]:
    """The column of times, and one of dates if times are of a day. `dates` is as above.

    If none has the name of a time, the only one with such a word is taken: `Test Date`.
    """
    times = [find_time(name) for name in names]
    words = [each[0] if each else "" for each in times]
    ranks = [(_TIMES.index(word), i) for i, word in enumerate(words) if word]
    if ranks:
        place = min(ranks)[1]
        date = words.index("date") if "date" in words and "time" in words else None
        return Column(place, (times[place] or ("", SECONDS))[1]), date
    if dates is not None:
        return Column(dates, SECONDS), None
    parts = [re.findall(r"[A-Z]?[a-zµ]+|[A-Z]+", name) for name in names]
    clocks = [i for i, each in enumerate(parts) if _CLOCKS.intersection(map(str.lower, each))]
    loose = [i for i in clocks if find_quantity(names[i]) is None]
    if len(loose) != 1:
        return None, None
    unit = parts[loose[0]][-1].lower()
    has_unit = SECONDS.find_size(unit) is not None
    return Column(loose[0], replace(SECONDS, plain=unit) if has_unit else SECONDS), None


def squash(name: str) -> str:
    """The letters and digits of a column's name, in lower case."""
    return re.sub(r"[\W_]", "", name).lower()


def find_sites(names: Sequence[str]) -> int | None:
    """The column that names a site; None if there is none."""
    found = (i for words in _SITES for i, name in enumerate(names) if words.fullmatch(squash(name)))
    return next(found, None)


def _read_name(name: str, place: int) -> tuple[str, Column | None]:
    """What a column says, and how; empty if it is not read."""
    tokens = [each for each in re.split(r"[\s_.\-]+", name.strip()) if each]
    lower = [each.lower() for each in tokens]
    if _NOT_READ.intersection(lower) or lower == ["speed"]:
        return "", None
    means = [each for each in tokens if each.lower() not in _MEANS]
    while means:
        found = _MORE.get("".join(means).lower()) or find_quantity("_".join(means))
        if found is None and len(means) == 1 and RATE.find_size(means[0]) is not None:
            found = ("rate", replace(RATES, plain=means[0])) if len(means[0]) > 1 else None
        if found is not None:
            return _make_column(*found, place, lower)
        if means[0].lower() not in _SKIPPED:
            break
        means = means[1:]
    return "", None


def _make_column(
    kind: str, unit: Unit, place: int, lower: Sequence[str]
) -> tuple[str, Column | None]:
    if kind in ("up", "down"):
        kind = "rate"
    if kind == "rate":
        return "rate", Column(place, replace(unit, name=RATES.name, above_0=False))
    if kind == "rtt" or (kind == "delay" and {"ping", "rtt"}.intersection(lower)):
        return "delay", Column(place, unit, 0.5)
    if kind == "share":
        kind = "loss"
    return (kind, Column(place, unit)) if kind in VALUES else ("", None)


def _give_unit(found: Mapping[str, Column], unit: str) -> dict[str, Column]:
    """The columns, of which the one with this kind of unit gets it."""
    kind, plain = name_unit(unit)
    if kind not in found:
        raise FaultError(f"unit={unit}: expected a column with a {kind}")
    own = found[kind].unit.plain
    if own != {"rate": RATES, "delay": TIME, "loss": PERCENT}[kind].plain and own != unit:
        raise FaultError(f"unit={unit}: expected {own or 'a share'}, as the column's name says")
    return {**found, kind: replace(found[kind], unit=replace(found[kind].unit, plain=plain.plain))}
