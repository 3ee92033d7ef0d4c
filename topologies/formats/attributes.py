"""What the attributes of edges and nodes mean, in the words of many programs (pure).

The same words are read in every format. Upper and lower case, spaces and `_` are alike. A unit may
stand in the value (`10 Gbps`), or at the end of the name: `bw_gbps`, `latencyMs`, `Delay (us)`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trunkline.topologies.formats.quantities import (
    LENGTH,
    PACKETS,
    PERCENT,
    QUEUE,
    RATE,
    SHARE,
    TIME,
    Unit,
    has_unit,
    quote,
    read_quantity,
)
from trunkline.topologies.links import TopologyError

FIBRE_KM_PER_MS = 299.792458 * 2 / 3
"""Light in fibre: two thirds of its speed in vacuum."""

_WORDS: Mapping[str, tuple[Unit, str]] = {
    "rate": (
        RATE,
        "rate linkrate bw bandwidth linkbandwidth capacity linkcapacity cap speed datarate "
        "bitrate throughput goodput tput",
    ),
    "delay": (
        TIME,
        "delay linkdelay latency linklatency propagationdelay propdelay onewaydelay owd",
    ),
    "rtt": (TIME, "rtt roundtrip roundtriptime ping srtt"),
    "length": (LENGTH, "length distance dist linklength fiberlength fibrelength"),
    "jitter": (TIME, "jitter delayvariation ipdv pdv"),
    "loss": (PERCENT, "loss"),
    "share": (
        SHARE,
        "packetloss packetlossrate packetlossratio lossrate lossratio lossprobability plr "
        "droprate dropprobability",
    ),
    "reorder": (PERCENT, "reorder reordering"),
    "duplicate": (PERCENT, "duplicate duplicates duplication"),
    "corrupt": (PERCENT, "corrupt corruption"),
    "queue": (QUEUE, "queue queuesize queuelimit buffer buffersize"),
    "packets": (PACKETS, "maxqueuesize queuelength queuelen qlen"),
    "up": (
        RATE,
        "hostbandwidthup bandwidthup uplink upload uploadbandwidth uploadrate uprate upstream up",
    ),
    "down": (
        RATE,
        "hostbandwidthdown bandwidthdown downlink download downloadbandwidth downloadrate "
        "downrate downstream down",
    ),
}
"""What a word means -> the unit of its numbers, and the words, most usual first."""

_RARE = ("reorder", "duplicate", "corrupt")
_EDGE = ("rate", "delay", "rtt", "length", "jitter", "loss", "share", "queue", "packets", *_RARE)
_NODE = ("up", "down")

_MEAN = re.compile("^(avg|average|mean|median)")
"""What may stand before a word: `avg_rtt_ms`."""

SPEED_UNITS = {"K": "kbit/s", "M": "Mbit/s", "G": "Gbit/s"}
"""The values of `LinkSpeedUnits`."""

_ZOO = ("linkspeedraw", "linkspeed", "linkspeedunits")

_STEMS = (
    "rate", "band", "bw", "capac", "speed", "delay", "latenc", "rtt", "jitter", "loss", "drop",
    "queue", "buffer", "distan", "length", "weight", "cost", "metric", "uplink", "downlink",
    "upload", "download", "mtu", "throughput", "burst", "reorder", "duplic", "corrupt", "packet",
)  # fmt: skip
"""How words begin that describe a property of a link or of a node."""

_FORWARDS = ("router", "switch")
"""Values of attributes of nodes that could mean that the node has no site."""

Attributes = Mapping[str, Any]
Unused = tuple[tuple[str, str], ...]
_Found = tuple[str, float, str]
"""An attribute, its number, and how the number follows from it."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a file says about a link: each value, or None; the delay and the jitter are one-way.

    Attributes:
        origins: the attribute that each value is from, by the name of its field.
        unused: the attributes that look like properties of a link and were not used, with values.
    """

    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    queue_bytes: int | None = None
    reorder_percent: float | None = None
    duplicate_percent: float | None = None
    corrupt_percent: float | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    unused: Unused = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The rates of a node's own connection in Mbit/s, their attributes, and what was not used."""

    rates_mbps: tuple[float, float] | None = None
    origin: str = ""
    unused: Unused = ()


def read_link(attributes: Attributes) -> Values:
    """Read what the attributes of an edge say about its link.

    Raises:
        TopologyError: a value is impossible; the message has a line for each, with its attribute.
    """
    plain = _keep_plain(attributes)
    found, problems = _read_words(plain, _EDGE)
    with _noting(problems):
        found["rate"] += _read_zoo_speed(plain)
    found["loss"] += found.pop("share")
    found["queue"] += found.pop("packets")
    if found["delay"] and found["rtt"] and found["delay"][0][1] != found["rtt"][0][1] / 2:
        problems.append("expected either a delay or an rtt")
    if problems:
        raise TopologyError("\n".join(problems))
    found["delay"] += [(name, value / 2, f"half of {name}") for name, value, _ in found.pop("rtt")]
    found["delay"] += [
        (name, round(km / FIBRE_KM_PER_MS, 3), f"{name} (light in fibre)")
        for name, km, _ in found.pop("length")
    ]
    first = {kind: each[0] for kind, each in found.items() if each}
    spare = [
        name
        for kind, (_, chosen, _) in first.items()
        for name, value, _ in found[kind][1:]
        if value != chosen
    ]
    keys = {"rate": "rate_mbps", "delay": "delay_ms", "jitter": "jitter_ms",
            "loss": "loss_percent", "queue": "queue_bytes",
            **{kind: f"{kind}_percent" for kind in _RARE}}  # fmt: skip
    values: dict[str, Any] = {keys[kind]: value for kind, (_, value, _) in first.items()}
    if "queue_bytes" in values:
        values["queue_bytes"] = round(values["queue_bytes"])
    origins = {keys[kind]: origin for kind, (_, _, origin) in first.items()}
    return Values(**values, origins=origins, unused=_list_unused(plain, _EDGE, spare))


def read_access(attributes: Attributes) -> Access:
    """Read the rates of a node's own connection; one that is missing is as the other one.

    Raises:
        TopologyError: a value is impossible.
    """
    plain = _keep_plain(attributes)
    found, problems = _read_words(plain, _NODE)
    if problems:
        raise TopologyError("\n".join(problems))
    up, down = (next(iter(found[a] + found[b]), None) for a, b in (_NODE, _NODE[::-1]))
    roles = [(name, str(value)) for name, value in plain.items() if str(value) in _FORWARDS]
    unused = (*_list_unused(plain, _NODE, ()), *roles)
    if up is None or down is None:
        return Access(unused=unused)
    return Access((up[1], down[1]), ", ".join(dict.fromkeys((up[0], down[0]))), unused)


def flatten(attributes: Attributes, depth: int = 0) -> dict[str, Any]:
    """The attributes with one value each: what is in mappings in them, by its own name.

    An inner name follows the outer one if that says what the value is (`latency: {ms: 80}`), or if
    there is another attribute of this name. A `value` and its `unit` are one value.
    """
    plain: dict[str, Any] = {}
    nested: list[tuple[str, Attributes]] = []
    for name, value in attributes.items():
        rows = value if isinstance(value, list | tuple) else [value]
        if depth < _DEPTH and rows and all(isinstance(each, Mapping) for each in rows):
            titles = [str(name)] if len(rows) == 1 else [f"{name}[{i}]" for i in range(len(rows))]
            nested += zip(titles, rows, strict=True)
        elif rows:
            plain[str(name)] = rows[0] if len(rows) == 1 else str(value)
    for name, value in nested:
        inner = flatten(value, depth + 1)
        if "value" in inner and len(inner) == 1 + ("unit" in inner):
            inner = {"": f"{inner['value']} {inner.get('unit', '')}"}
        says = find_quantity(name) is not None or name.endswith("]")
        for key, each in inner.items():
            plain[f"{name} {key}".strip() if says or not key or key in plain else key] = each
    return plain


_DEPTH = 8
"""What is nested more deeply is one value, as a text."""


def find_quantity(name: str) -> tuple[str, Unit] | None:
    """What an attribute of an edge or a node says, and the unit of its numbers; None if nothing."""
    for kind in (*_EDGE, *_NODE):
        if (match := _match(name, kind)) is not None:
            return kind, match[1]
    return None


def find_meaning(name: str) -> str:
    """What an attribute of an edge says, such as `rate`; empty if it is none that is read."""
    kinds = (kind for kind in _EDGE if _match(name, kind))
    return next(kinds, "rate" if _squash(name) in _ZOO else "")


def list_words() -> list[str]:
    """All words that are read as attributes of edges."""
    return [word for kind in _EDGE for word in _WORDS[kind][1].split()]


def read_degrees(attributes: Attributes, words: str) -> float | None:
    """The value of an attribute of one of these names, in degrees; None if there is none."""
    for name, value in attributes.items():
        if _squash(name) in words.split():
            try:
                return float(value)
            except (TypeError, ValueError):
                allowed = "expected a number of degrees"
                text = f"{words.split()[0]} {quote(str(value))}: {allowed}"
                raise TopologyError(text) from None
    return None


def _keep_plain(attributes: Attributes) -> dict[str, Any]:
    """The attributes with one value that is there."""
    return {
        str(name): value
        for name, value in attributes.items()
        if isinstance(value, int | float | str) and str(value).strip() not in ("", "-", "None")
    }


def _read_words(
    plain: Attributes, kinds: Sequence[str]
) -> tuple[dict[str, list[_Found]], list[str]]:
    """The attributes of each kind with their numbers, most usual names first, and problems."""
    ranked: dict[str, list[tuple[int, str, float]]] = {kind: [] for kind in kinds}
    problems: list[str] = []
    said = _list_units(plain)
    for name, value in plain.items():
        for kind in kinds:
            if (match := _match(name, kind)) is not None:
                rank, unit = match
                with _noting(problems, f"{name} "):
                    if of_name := said.get(_squash(name)):
                        unit = _take_unit(unit, of_name, str(plain[of_name]))
                    ranked[kind].append((rank, name, read_quantity(value, unit)))
    found = {
        kind: [(name, value, name) for _, name, value in sorted(rows)]
        for kind, rows in ranked.items()
    }
    return found, problems


def _list_units(plain: Attributes) -> dict[str, str]:
    """The attributes that say the unit of another one, by its word: `bandwidth_unit`."""
    found = ((re.fullmatch(r"(.+)units?", _squash(name)), name) for name in plain)
    return {match[1]: name for match, name in found if match}


def _take_unit(unit: Unit, of_name: str, given: str) -> Unit:
    """The unit of an attribute's numbers, which the attribute `of_name` says."""
    if unit.find_size(given) is None:
        raise TopologyError(f"has {of_name} {quote(given)}: expected a unit such as {unit.plain}")
    return replace(unit, plain=given)


def _match(name: str, kind: str) -> tuple[int, Unit] | None:
    """The rank of a name among the words of a kind, and the unit of its numbers."""
    unit, text = _WORDS[kind]
    words = text.split()
    for base, plain in _split(name):
        if plain and unit.find_size(plain) is None:
            continue
        for word, behind in ((base, 0), (_MEAN.sub("", base), len(words))):
            if word in words:
                rank = words.index(word) + behind
                return rank, replace(unit, plain=plain) if plain else unit
    return None


def _split(name: str) -> Iterator[tuple[str, str]]:
    """A name's word and the unit at its end, in each way in which it could have one."""
    if match := re.fullmatch(r"(.+?)[\s_]*[(\[](.+)[)\]]\s*|(.+)[\s_.-]([^\s_.-]+)", name):
        yield _squash(match[1] or match[3]), match[2] or match[4]
    if not re.search(r"[%()\[\]]", name):  # the unit of `loss (%)` must not be overlooked
        yield _squash(name), ""
    joined = re.sub(r"[\s_.-]", "", name)
    shortest = 1 if joined.endswith("%") else 2
    for at in range(len(joined) - shortest, 1, -1):  # latencyMs, bandwidthMbps, loss%
        yield joined[:at].lower(), joined[at:]


def _squash(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _read_zoo_speed(plain: Attributes) -> list[_Found]:
    """The rate in the words of the Topology Zoo."""
    names = {_squash(name): name for name in plain}
    raw, speed, units = (names.get(each, "") for each in _ZOO)
    with _naming(raw or speed):
        if raw:
            return [(raw, read_quantity(plain[raw], replace(RATE, plain="bit/s")), raw)]
        if speed and (units or not has_unit(plain[speed])):
            unit = SPEED_UNITS.get(str(plain.get(units)))
            if unit is None:
                given = f" {quote(str(plain[units]))}" if units else ""
                allowed = ", ".join(SPEED_UNITS)
                raise TopologyError(f"with LinkSpeedUnits{given}: expected one of {allowed}")
            return [(speed, read_quantity(plain[speed], replace(RATE, plain=unit)), speed)]
        return [(speed, read_quantity(plain[speed], RATE), speed)] if speed else []


def _list_unused(plain: Attributes, kinds: Sequence[str], spare: Sequence[str]) -> Unused:
    """The attributes that were not used, although they look like properties of a link or a node."""
    words = {_squash(name) for name in plain if any(_match(name, kind) for kind in kinds)}
    said = [name for word, name in _list_units(plain).items() if word in words]
    names = [
        name
        for name, value in plain.items()
        if name in spare
        or (
            not any(_match(name, kind) for kind in kinds)
            and _squash(name) not in _ZOO
            and name not in said
            and (_looks_used(name) or has_unit(value))
            and not (_squash(name) == "weight" and str(value) in ("1", "1.0"))  # tools write that
        )
    ]
    return tuple((name, str(plain[name])) for name in names)


def _looks_used(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return any(word.lower().startswith(_STEMS) or word.lower() == "lat" for word in words)


@contextlib.contextmanager
def _noting(problems: list[str], where: str = "") -> Iterator[None]:
    try:
        yield
    except TopologyError as error:
        problems.extend(f"{where}{text}" for text in error.problems)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except TopologyError as error:
        raise TopologyError(f"{name} {error}") from None
