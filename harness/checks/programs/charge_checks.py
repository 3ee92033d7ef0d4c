"""The check of charged computing: every site was charged for its computing (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, doubt, fail, judged, note
from trunkline.harness.record.charges import find_noise, find_totals
from trunkline.harness.record.history import History
from trunkline.workloads import site_time

ROUNDING_NS, FACTOR_ERROR = 1, 2e-6
"""The kernel rounds each charge to a nanosecond, and has the factor in millionths."""


def computing_is_charged(history: History, rules: Rules) -> Iterator[Finding]:
    """If computing takes time, each site's processor time times its factor was charged."""
    options = rules.scenario.workload.options
    charge = options.get("charge", {})
    if not charge:
        return
    totals = {each.site: each for each in find_totals(history)}
    for site in rules.program_sites:
        if site not in totals:
            yield doubt(f"{site} was not charged for what it computed")
            continue
        found = totals[site]
        wanted_ns = found.measured_ns * site_time.place(site, charge, None).factor
        allowed_ns = ROUNDING_NS * (found.charges + 1) + FACTOR_ERROR * found.measured_ns
        if abs(found.charged_ns - wanted_ns) > allowed_ns:
            times = f"{found.charged_ns / 1e9:.6f} s instead of {wanted_ns / 1e9:.6f} s"
            yield fail(f"{site} was charged {times} for what it computed")
        yield judged()
    yield from map(note, find_remarks(history, rules))


def find_remarks(history: History, rules: Rules) -> Iterator[str]:
    """Whether a run whose computing is charged repeats, in one sentence."""
    charge = rules.scenario.workload.options.get("charge") if rules.programs else None
    if not charge:
        return
    if "replay" in charge:
        yield f"Charged as in {charge['replay']}: repeats to the byte with these charges."
        return
    noise = find_noise(history)
    yield f"Charged: does not repeat to the byte{f'; {noise}' if noise else ''}."
