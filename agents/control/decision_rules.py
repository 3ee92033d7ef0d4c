"""What a policy may decide (pure).

A policy may be a user's own file, and all agents rely on its decisions. So the driver checks each
of them before it does anything. The values become plain: tuples, floats and ints.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AnySet
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, get_args

from trunkline.agents.policies.policy import (
    FLOAT32_LARGEST,
    FLOAT32_NUMBERS,
    Decision,
    Exclude,
    Kept,
    Policy,
    Proceed,
    Start,
    Then,
    Traits,
    Wake,
    is_float32,
)
from trunkline.agents.wire.agent_settings import AgentError, ControllerSettings

_BATCH = "a whole number from 1"
_FINITE = f"a number from -{FLOAT32_LARGEST:.7g} to {FLOAT32_LARGEST:.7g} (float32)"

_Rule = tuple[str, bool, str]
"""The field of a decision, whether its value is allowed, and what is allowed."""


class DecisionError(AgentError):
    """A policy decided what is not allowed; the message names policy, value and rule."""


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """The rules for the decisions of one policy in one run.

    Attributes:
        policy: the name of the policy, or of its file.
        sites: all sites of the run, servers included.
        servers: the sites that compute nothing.
        traits: what the policy declares about itself.
    """

    policy: str
    sites: tuple[str, ...]
    servers: tuple[str, ...]
    traits: Traits

    @classmethod
    def of(cls, settings: ControllerSettings, policy: Policy) -> DecisionRules:
        """The rules for a policy in the run of these settings."""
        traits = Traits.of(policy)
        return cls(settings.policy_name, settings.sites, settings.servers, traits)

    def check(self, given: Any, ready: Collection[str] | None = None) -> Decision:
        """The decision with plain values. Raises DecisionError if it is not allowed.

        Only sites that are `ready` may proceed or be active in a task; with None, all may.
        """
        match given:
            case Start():
                self._raise_first(given, self._start_rules(given, ready))
                return make_plain(given)
            case Proceed():
                self._raise_first(given, self._proceed_rules(given, ready))
                return make_plain(given)
            case Exclude():
                self._raise_first(given, self._site_rules(given))
                return given
            case Wake():
                self._raise_first(given, self._wake_rules(given.at_s))
                return make_plain(given)
        allowed = "Start, Proceed, Exclude and Wake"
        raise DecisionError(f"{self.policy}: step gave {given!r:.60}: expected {allowed}")

    def _raise_first(self, decision: Decision, rules: Iterator[_Rule]) -> None:
        for name, holds, allowed in rules:
            if not holds:
                what = f"{type(decision).__name__}.{name} = {getattr(decision, name)!r:.60}"
                raise DecisionError(f"{self.policy}: {what}: expected {allowed}")

    def _start_rules(self, start: Start, ready: Collection[str] | None) -> Iterator[_Rule]:
        """Each rule relies on those before it."""
        group, weights = start.group, start.weights
        known = f"a tuple of sites, each once: {', '.join(self.sites)}"
        yield "group", _are_sites(group, self.sites), known
        named = isinstance(weights, Mapping) and _are_sites([*weights], group)
        yield "weights", named, "a weight for at least one member of the group, and for no others"
        finite = all(map(_is_finite, weights.values()))
        yield "weights", finite, f"{_FINITE} for each member"
        largest = max(map(abs, weights.values()))
        yield "weights", is_float32(largest), f"{FLOAT32_NUMBERS} as the largest"
        yield "scale", is_float32(start.scale), FLOAT32_NUMBERS
        some = "a tuple of members of the group, each once, at least one"
        yield "receivers", start.receivers is None or _are_sites(start.receivers, group), some
        members = {*weights, *start.takers}
        yield "group", members == set(group), "only members that contribute or receive"
        passive = isinstance(start.passive, AnySet) and start.passive <= members
        yield "passive", passive, "a set of members of the group"
        if ready is not None and not self.traits.early:
            active = [site for site in group if site not in {*start.passive, *self.servers}]
            waiting = [site for site in self.sites if site in ready]
            allowed = f"active members that are ready: {', '.join(waiting) or 'none is'}"
            yield "group", set(active) <= set(waiting), allowed
        yield "keep", _is_finite(start.keep), _FINITE
        yield "momentum", _is_finite(start.momentum), _FINITE
        yield "then", start.then in get_args(Then), _list(get_args(Then))
        mixes = self.traits.keeps_initial
        kept = get_args(Kept) if mixes else ("model",)
        more = "" if mixes else "; 'initial' too if the policy has `keeps_initial = True`"
        yield "kept", start.kept in kept, _list(kept) + more
        workers = [site for site in group if site not in self.servers]
        batches = start.batches
        sized = isinstance(batches, Mapping) and all(
            site in workers and _is_batch(batch) for site, batch in batches.items()
        )
        yield "batches", sized, f"{_BATCH} for each of {', '.join(workers) or 'no site'}"

    def _proceed_rules(self, given: Proceed, ready: Collection[str] | None) -> Iterator[_Rule]:
        yield from self._site_rules(given)
        workers = [site for site in self.sites if site not in self.servers]
        waiting = [site for site in workers if ready is None or site in ready]
        allowed = f"a site that is ready: {', '.join(waiting) or 'none is'}"
        yield "site", given.site in waiting, allowed
        yield "batch", given.batch is None or _is_batch(given.batch), f"{_BATCH}, or None"

    def _site_rules(self, given: Proceed | Exclude) -> Iterator[_Rule]:
        workers = [site for site in self.sites if site not in self.servers]
        yield "site", given.site in workers, f"a site that computes: {', '.join(workers)}"

    def _wake_rules(self, at_s: Any) -> Iterator[_Rule]:
        yield "at_s", self.traits.timed, "no Wake, unless the policy has `timed = True`"
        yield "at_s", _is_number(at_s) and math.isfinite(at_s), "a finite time in seconds"


def make_plain(decision: Decision) -> Decision:
    """An allowed decision with tuples, floats and ints, as the log has it."""
    match decision:
        case Proceed(site, batch):
            return Proceed(site, None if batch is None else int(batch))
        case Wake(at_s):
            return Wake(float(at_s))
        case Exclude():
            return decision
    start = decision
    return replace(
        start,
        group=tuple(start.group),
        weights={site: float(weight) for site, weight in start.weights.items()},
        scale=float(start.scale),
        receivers=None if start.receivers is None else tuple(start.receivers),
        passive=frozenset(start.passive),
        keep=float(start.keep),
        momentum=float(start.momentum),
        batches={site: int(batch) for site, batch in start.batches.items()},
    )


def _are_sites(given: Any, allowed: Collection[str]) -> bool:
    if not isinstance(given, tuple | list) or not given:
        return False
    named = all(isinstance(site, str) and site in allowed for site in given)
    return named and len(set(given)) == len(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _is_finite(given: Any) -> bool:
    return _is_number(given) and bool(abs(given) <= FLOAT32_LARGEST)


def _is_batch(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1


def _list(names: tuple[str, ...]) -> str:
    return " or ".join(map(repr, names))
