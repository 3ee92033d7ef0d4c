"""Captures have what the links delivered, and their files are those that the run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import CaptureEnded, LinkCapture, LinkTotals, RunFinished
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check, Finding, doubt, fail, judged, note
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

FILES = "captures are as written"
"""The name of the check of the files, which are not in the log."""


def captures_agree(history: History, rules: Rules) -> Iterator[Finding]:
    """Each capture of the scenario ended, and has all that its link's interface counted (pure).

    What arrives between the ends of the capture and of the run is counted only. A link that a fault
    cuts may lose a packet between the counter and the capture, each time.
    """
    found = _captured(history)
    counted = {(c.src, c.dst): c for run in history.all(RunFinished) for c in run.links}
    for ends in rules.scenario.capture.ends:
        yield judged()
        if ends not in found:
            yield doubt(f"{' -> '.join(ends)}: no end of its capture")
        elif ends in counted:
            yield from _judge(history, rules, found[ends], counted[ends])
    for ends in sorted(found.keys() - {*rules.scenario.capture.ends}):
        yield fail(f"{' -> '.join(ends)} was captured, but not asked for")
    yield note(f"{sum(each.packets for each in found.values())} packets")


def check_files(history: History, digests: Mapping[Directed, str]) -> Check:
    """Compare the files that are there with the digests in the log (pure)."""
    return Check.of(FILES, "files", _judge_files(_captured(history), digests))


def _captured(history: History) -> Mapping[Directed, LinkCapture]:
    return {(c.src, c.dst): c for end in history.all(CaptureEnded) for c in end.links}


def _judge(
    history: History, rules: Rules, link: LinkCapture, total: LinkTotals
) -> Iterator[Finding]:
    ends, arrow = (link.src, link.dst), f"{link.src} -> {link.dst}"
    if link.missed:
        yield doubt(f"{arrow}: the capture lacks {link.missed} packets")
    if link.packets > total.packets or link.bytes > total.bytes:
        text = f"{link.bytes} bytes captured in {link.packets} packets"
        yield fail(f"{arrow}: {text}, {total.bytes} in {total.packets} counted")
    cuts = sum((each.src, each.dst) == ends for each in history.all(LinkChanged))
    rest_ns = history.end_ns - history.all(CaptureEnded)[-1].t_ns
    spells = Conditions.to_judge(history, rules.topology).spells[ends]
    rate_mbps = max(spell.link.rate_mbps for spell in spells)
    slack_bytes = (1 + cuts) * rules.frame_bytes + rate_mbps * rest_ns / 8e3
    lacking = total.bytes - link.bytes
    if not link.missed and lacking > slack_bytes:
        yield fail(f"{arrow}: the capture lacks {lacking} bytes of {total.bytes}")


def _judge_files(
    found: Mapping[Directed, LinkCapture], digests: Mapping[Directed, str]
) -> Iterator[Finding]:
    for ends, digest in digests.items():
        yield judged()
        if ends not in found or digest != found[ends].digest:
            yield fail(f"{' -> '.join(ends)}: the file is not the one that the run wrote")
    if gone := len(found.keys() - digests.keys()):
        yield note(f"{gone} files are no longer there")
