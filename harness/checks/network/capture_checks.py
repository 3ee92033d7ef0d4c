"""Captures have what the links delivered, and their files are those that the run wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import (
    AgentExited,
    CaptureEnded,
    LinkCapture,
    LinkTotals,
    RunFinished,
)
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    Check,
    Finding,
    doubt,
    fail,
    format_time,
    judged,
    note,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

FILES = "captures are as written"
"""The name of the check of the files, which are not in the log."""

PACKET_BYTES = 28
"""The size of the smallest packet."""


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
    ended = history.all(CaptureEnded)
    if len(ended) > 1:
        yield fail(f"the captures ended {len(ended)} times")
    rows = Counter((each.src, each.dst) for end in ended for each in end.links)
    for ends, times in sorted(rows.items()):
        if times > 1:
            yield fail(f"{' -> '.join(ends)}: captured {times} times")
    last_ns = max((each.t_ns for each in history.all(AgentExited)), default=0)
    if ended and ended[0].t_ns < last_ns:
        yield fail(f"the captures ended at {format_time(ended[0].t_ns)}, before all agents had")
    for ends in sorted(found.keys() - {*rules.scenario.capture.ends}):
        yield fail(f"{' -> '.join(ends)} was captured, but not asked for")
    yield note(f"{sum(each.packets for each in found.values())} packets")


def check_files(history: History, digests: Mapping[Directed, str]) -> Check:
    """Compare the files that are there with the digests in the log (pure)."""
    return Check.of(FILES, "files", _judge_files(_captured(history), digests))


def fits_packets(size: int, packets: int, rules: Rules) -> bool:
    """Whether so many packets can have so many bytes in all."""
    return PACKET_BYTES * packets <= size <= rules.frame_bytes * packets


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
    elif not fits_packets(total.bytes - link.bytes, total.packets - link.packets, rules):
        text = f"{total.bytes - link.bytes} bytes in {total.packets - link.packets} packets"
        yield fail(f"{arrow}: the capture lacks {text}")
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
