"""Rules for the options of workloads, and the error that names a broken rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Sites: TypeAlias = int | Sequence[str]
"""How many sites there are, or their names in rank order."""


class OptionError(ValueError):
    """An option has a value that is not allowed; `key` is its name in a scenario file."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"workload.{key}: {value!r}: expected {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on one value, and its description for error messages."""

    holds: Callable[[Any], bool]
    allowed: str


def whole(lowest: int, highest: int) -> Rule:
    """Allow the whole numbers from `lowest` to `highest`."""
    return Rule(
        lambda value: type(value) is int and lowest <= value <= highest,
        f"a whole number from {lowest} to {highest}",
    )


def number(lowest: float, below: float) -> Rule:
    """Allow the numbers from `lowest` up to, but not including, `below`."""
    return Rule(
        lambda value: _is_number(value) and lowest <= value < below,
        f"a number from {lowest:g} to below {below:g}",
    )


def positive(highest: float) -> Rule:
    """Allow the numbers above 0 up to `highest`."""
    return Rule(
        lambda value: _is_number(value) and 0 < value <= highest,
        f"a number above 0, at most {highest:g}",
    )


def one_of(*values: str) -> Rule:
    """Allow these words."""
    return Rule(lambda value: value in values, " or ".join(values))


def find_broken(rules: Mapping[str, Rule], options: Mapping[str, Any]) -> list[OptionError]:
    """Return an error for each given option that breaks its rule."""
    return [
        OptionError(key, options[key], rule.allowed)
        for key, rule in rules.items()
        if key in options and not rule.holds(options[key])
    ]


def find_rank(option: str, site: object, sites: Sites) -> int:
    """Return the rank of a site that an option names by its name or its rank.

    Raises OptionError with the name of the `option` for a site that does not exist.
    """
    names = [] if isinstance(sites, int) else list(sites)
    count = sites if isinstance(sites, int) else len(names)
    if site in names:
        return names.index(str(site))
    if str(site).isdecimal() and int(str(site)) < count:
        return int(str(site))
    known = f"{', '.join(names)}, or " if names else ""
    raise OptionError(option, site, f"{known}a rank from 0 to {count - 1}")


def reject(problems: Sequence[OptionError]) -> None:
    """Raise the first problem, if there is one."""
    if problems:
        raise problems[0]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
