"""Virtual time for what takes none by itself: computing, and polls that find nothing (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from trunkline.workloads.option_rules import OptionError, Rule, positive, whole

Charge: TypeAlias = int | float | bool | str | Mapping[str, int | float]
"""The value of `factor`, `cores`, `record`, `replay`, or of a site's name: its factor and cores."""

Mode = Literal["measure", "record", "replay"]
"""Charges are measured; measured and kept; or those that another run has kept."""

POLL_S = 20e-6
"""The virtual time of an empty poll, unless a scenario says otherwise."""

POLLS = 100
"""From this number of empty polls in a row on they take time, unless a scenario says otherwise."""

RULES: Mapping[str, Rule] = {"factor": positive(1000), "cores": whole(1, 64)}
LONGEST_POLL = positive(1.0)
KEYS = (*RULES, "record", "replay")

KEPT = "charges.txt"
"""The charges of a run, in its folder: a site, a process, its position and the ns on each line."""


@dataclass(frozen=True, slots=True)
class SiteTime:
    """What takes virtual time at a site.

    Attributes:
        factor: the virtual time of computing, in parts of its processor time; 0: it takes none.
        cores: how many processors the site has, if computing takes time.
        poll_s: what an empty poll takes, in seconds; 0: nothing.
        polls: from which number of empty polls in a row on it does.
        mode: where charges come from.
    """

    factor: float = 0.0
    cores: int = 1
    poll_s: float = POLL_S
    polls: int = POLLS
    mode: Mode = "measure"


def place(site: str, charge: Mapping[str, Charge], poll_s: float | None) -> SiteTime:
    """What takes time at this site."""
    own = charge.get(site, {})
    values = {"factor": 1.0, "cores": 1, **charge, **(own if isinstance(own, Mapping) else {})}
    factor, cores = (values[key] for key in RULES) if charge else (0, 1)
    assert isinstance(factor, int | float)
    assert isinstance(cores, int)
    polls = (POLL_S, POLLS) if poll_s is None else (poll_s, 1)
    return SiteTime(factor, cores, *polls, find_mode(charge))


def find_mode(charge: Mapping[str, Charge]) -> Mode:
    """Where charges come from."""
    return "replay" if "replay" in charge else "record" if charge.get("record") else "measure"


def problems(
    sites: Sequence[str], charge: Mapping[str, Charge], poll_s: float | None
) -> Iterator[OptionError]:
    """Everything that is wrong with these options."""
    if poll_s and not LONGEST_POLL.holds(poll_s):
        yield OptionError("poll", poll_s, "0 s to 1 s")
    for key, value in charge.items():
        if key in RULES:
            yield from _check(f"charge.{key}", key, value)
        elif key == "record":
            if value is not True and value is not False:
                yield OptionError("charge.record", value, "true or false")
            elif value and "replay" in charge:
                yield OptionError("charge.record", value, "false with charge.replay")
        elif key == "replay":
            if not isinstance(value, str) or not value:
                yield OptionError("charge.replay", value, "the folder of a run")
        elif key not in sites:
            yield OptionError(f"charge.{key}", value, ", ".join((*KEYS, *sites)))
        elif not isinstance(value, Mapping):
            yield OptionError(f"charge.{key}", value, "a mapping with factor, cores or both")
        else:
            for name, one in value.items():
                yield from _check(f"charge.{key}.{name}", name, one)


def _check(path: str, key: str, value: object) -> Iterator[OptionError]:
    if key not in RULES:
        yield OptionError(path, value, "factor or cores")
    elif not RULES[key].holds(value):
        yield OptionError(path, value, RULES[key].allowed)
