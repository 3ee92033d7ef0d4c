"""Judge measurements: compare them with the settings of the links (pure).

A *bar* is the largest error that passes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from scipy.stats import binom, norm

from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.verdict import Result
from trunkline.harness.measure.foreign import PING_HEADER_BYTES, PING_PAYLOAD_BYTES
from trunkline.harness.measure.impaired import (
    PERCENTILES,
    Shares,
    Spread,
    find_percentile,
    find_sigmas,
    in_order,
    inflate,
    sum_delays,
    swing_ms,
)
from trunkline.harness.measure.measurement_plan import PairPlan, Train
from trunkline.harness.measure.observation import Arrivals, Observation
from trunkline.harness.measure.readings import QUANTITIES, UNITS_OF, Reading
from trunkline.harness.network.interface import NetworkOptions, payload_share
from trunkline.topologies.distributions import interpolate
from trunkline.topologies.links import UNIFORM, Link
from trunkline.topologies.model import Topology

SIGMAS = 3.0
LATE_TOLERANCE = 0.1
"""If timers are late for more than this share of the time, even a good result is `unknown`."""

LATE_BLAME = 0.02
"""If timers are late for more than this share, a bad result is `unknown`, not `fail`."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The largest errors that pass.

    `goodput`, `iperf3` and `queue` are relative, `delay_ms` is in ms. A queue may also be wrong by
    one packet, or by the bytes that the link carries in `slack_s` seconds: a shaper on a real clock
    may let that much through at once. Random quantities may also be off by `SIGMAS` deviations.
    """

    goodput: float
    iperf3: float
    delay_ms: float
    queue: float
    slack_s: float = 0.0


MOST_RATE_BAR = 0.25
"""A rate is not judged if it may be off by more than this share."""

BARS: Mapping[str, Bars] = {
    "virtual": Bars(goodput=0.01, iperf3=0.02, delay_ms=0.1, queue=0.02),
    "real": Bars(goodput=0.03, iperf3=0.05, delay_ms=1.0, queue=0.05, slack_s=0.0025),
}
"""The bars by clock: a real clock is no better than the host's timers."""


def judge(
    topology: Topology,
    options: NetworkOptions,
    plans: Iterable[PairPlan],
    observations: Iterable[Observation],
    clock: str,
) -> tuple[Reading, ...]:
    """Judge every quantity of every link, in the order of the observations.

    With many lossy links, some exceed three sigma by chance. So their bar grows until the chance of
    any false alarm is that of a single link at three sigma.
    """
    by_ends = {ends: plan for plan in plans for ends in ((plan.a, plan.b), (plan.b, plan.a))}
    lossy = max(1, sum(1 for link in topology.links if link.slows_tcp))
    sigmas = float(norm.isf((1 - (1 - 2 * norm.sf(SIGMAS)) ** (1 / lossy)) / 2))
    readings: list[Reading] = []
    for seen in observations:
        plan = by_ends[seen.src, seen.dst]
        readings += _Judge(topology, options, plan, seen, BARS[clock], sigmas).judge_link()
    return tuple(readings)


@dataclass(frozen=True, slots=True)
class _Judge:
    topology: Topology
    options: NetworkOptions
    plan: PairPlan
    seen: Observation
    bars: Bars
    sigmas: float

    def judge_link(self) -> list[Reading]:
        trains = {stage.name: stage.trains.get(self.ends) for stage in self.plan.stages}
        reasons = {
            name: why for (ends, name), why in self.plan.skipped.items() if ends == self.ends
        }
        reasons |= self.seen.failed
        if not self.seen.pings and "ping" not in reasons:  # foreign programs were not run
            reasons.pop("iperf3", None)
        found = [self._make_reading(name, note=reason) for name, reason in reasons.items()]
        if "goodput" not in reasons:
            found.append(self._judge_goodput())
        for stage, name, judge_it in (
            ("load", "rate", self._judge_rate),
            ("delay", "delay", self._judge_delay),
            ("delay", "jitter", self._judge_jitter),
            ("loss", "loss", self._judge_loss),
            ("queue", "queue", self._judge_queue),
        ):
            if name not in reasons and (train := trains.get(stage)):
                found.append(judge_it(train, self.seen.trains[stage]))
        is_single = not (self.link.corrupt_percent or self.link.duplicate_percent)
        if self.link.has_bursts and is_single and "loss" not in reasons and trains.get("loss"):
            found.append(self._judge_bursts(self.seen.trains["loss"]))
        if "loss" in trains and self.seen.trains.get("loss"):
            found += self._judge_packets(self.seen.trains["loss"], reasons)
        if self.link.distribution != UNIFORM and "delay" not in reasons and trains.get("delay"):
            found += self._judge_percentiles(trains["delay"], self.seen.trains["delay"])
        if not self.link.reorder_percent:
            found.append(self._judge_order())
        found += [self._judge_ping()] if self.seen.pings else []
        found += [self._judge_iperf3()] if self.seen.iperf3_mbps is not None else []
        return sorted(found, key=lambda row: QUANTITIES.index(row.quantity))

    @property
    def ends(self) -> Directed:
        return self.seen.src, self.seen.dst

    @property
    def link(self) -> Link:
        return self.topology.link(*self.ends)

    def _make_reading(
        self,
        quantity: str,
        expected: float | None = None,
        measured: float | None = None,
        error: float | None = None,
        bar: float | None = None,
        error_unit: str = "",
        note: str = "",
    ) -> Reading:
        outcome: Result | None = None
        if error is not None and bar is not None:
            outcome = self._decide(holds=abs(error) <= bar)
            if outcome == "unknown":
                note = f"timers were late for {self.seen.late:.0%} of the time"
        unit = UNITS_OF[quantity]
        src, dst = self.ends
        unit_of = error_unit or unit
        return Reading(
            src, dst, quantity, unit, expected, measured, error, bar, unit_of, outcome, note
        )

    def _report_no_packets(self, quantity: str) -> Reading:
        """Make a reading without packets: the worst result, if timers were on time."""
        note = "no packet arrived"
        unit = UNITS_OF[quantity]
        src, dst = self.ends
        outcome = self._decide(holds=False)
        return Reading(src, dst, quantity, unit, None, None, None, None, unit, outcome, note)

    def _decide(self, holds: bool) -> Result:
        """The outcome: whether the bar `holds`, or `unknown` if timers were too late."""
        if self.seen.late > (LATE_TOLERANCE if holds else LATE_BLAME):
            return "unknown"
        return "pass" if holds else "fail"

    def _judge_relative(
        self, quantity: str, expected: float, measured: float, bar: float
    ) -> Reading:
        error = 100 * (measured / expected - 1)
        return self._make_reading(quantity, expected, measured, error, 100 * bar, "%")

    def _judge_goodput(self) -> Reading:
        expected = self.link.rate_mbps * payload_share(self.options.mtu)
        moved = self.seen.flow
        if moved is None or not moved.seconds:
            return self._make_reading("goodput", expected)
        measured = moved.bytes * 8e-6 / moved.seconds
        # Jitter moves the first and the last counted packet, each by up to jitter_ms either way.
        bar = self.bars.goodput + 2e-3 * swing_ms(self.link) / moved.seconds
        return self._judge_relative("goodput", expected, measured, bar)

    def _judge_rate(self, train: Train, came: Arrivals) -> Reading:
        """Judge the rate at which the second half of a train arrived.

        A packet that is corrupted takes its time on the link, but its receiver drops it. So there
        only packets count that arrived right after the one before.
        """
        jitter_ns = 2e6 * swing_ms(self.link)
        if self.link.corrupt_percent:
            if jitter_ns:
                note = "jitter may move packets beside those that are corrupted"
                return self._make_reading("rate", note=note)
            came = replace(came, counted=came.pairs, counted_ns=came.pairs_ns)
        if not came.counted_ns:
            return self._report_no_packets("rate")
        measured = came.counted * train.wire_bytes * 8e3 / came.counted_ns
        bar = self.bars.goodput + jitter_ns / came.counted_ns
        if bar > MOST_RATE_BAR:
            return self._make_reading("rate", note=f"jitter may move it by {bar:.0%}")
        return self._judge_relative("rate", self.link.rate_mbps, measured, bar)

    def _propagation_ms(self, train: Train, came: Arrivals) -> list[float]:
        """The packets' delays in ms without their transmission time, of those with a delay."""
        sending_ms = train.wire_bytes * 8e-3 / self.link.rate_mbps
        found = [delay_ns / 1e6 - sending_ms for delay_ns in came.delays_ns]
        least_ms = (
            in_order(self.link).least_delay_ms / 2 if self.link.reorder_percent else -math.inf
        )
        return [each for each in found if each > least_ms]

    def _judge_delay(self, train: Train, came: Arrivals) -> Reading:
        delays_ms = self._propagation_ms(train, came)
        if not delays_ms:
            return self._report_no_packets("delay")
        spread = Spread.of(self.link)
        expected = spread.mean_ms
        if self.link.jitter_ms:
            measured = statistics.fmean(delays_ms)
            packets = len(delays_ms) / inflate(self.link)
            chance_ms = SIGMAS * spread.deviation_ms / math.sqrt(packets)
        else:
            measured = max(delays_ms, key=lambda ms: abs(ms - expected))
            chance_ms = 0.0
        bar = self.bars.delay_ms + chance_ms
        return self._make_reading("delay", expected, measured, measured - expected, bar)

    def _judge_jitter(self, train: Train, came: Arrivals) -> Reading:
        """Judge the delays' standard deviation; that of a uniform delay is jitter / sqrt(3)."""
        delays_ms = self._propagation_ms(train, came)
        if len(delays_ms) < 2:
            return self._report_no_packets("jitter")
        spread, link = Spread.of(self.link), in_order(self.link)
        expected = spread.deviation_ms
        measured = statistics.pstdev(delays_ms)
        # The fourth moment of a uniform distribution is 1.8 times its squared variance.
        packets = len(delays_ms) / inflate(self.link)
        chance_ms = SIGMAS * expected * math.sqrt((spread.kurtosis - 1) / (4 * packets))
        bar = self.bars.delay_ms + chance_ms
        outside_ms = max(max(delays_ms) - link.most_delay_ms, link.least_delay_ms - min(delays_ms))
        error = measured - expected
        if outside_ms > max(self.bars.delay_ms, abs(error)):
            return self._make_reading(
                "jitter", expected, measured, outside_ms, bar, note="out of range"
            )
        return self._make_reading("jitter", expected, measured, error, bar)

    def _judge_percentiles(self, train: Train | None, came: Arrivals) -> Iterator[Reading]:
        """Judge percentiles of the delays against those of the asked distribution."""
        assert train is not None
        delays_ms = sorted(self._propagation_ms(train, came))
        for percent in PERCENTILES:
            name, expected = f"p{percent}", find_percentile(self.link, percent)
            if len(delays_ms) < 2:
                yield self._report_no_packets(name)
                continue
            packets = len(delays_ms) / inflate(self.link)
            chance = SIGMAS * math.sqrt(percent * (100 - percent) / packets)
            limits = (find_percentile(self.link, percent + sign * chance) for sign in (-1, 1))
            bar = self.bars.delay_ms + max(abs(limit - expected) for limit in limits)
            measured = interpolate(delays_ms, percent / 100)
            yield self._make_reading(name, expected, measured, measured - expected, bar)

    def _judge_packets(self, came: Arrivals, reasons: Mapping[str, str]) -> Iterator[Reading]:
        """Judge the shares of packets that overtake, arrive twice or are corrupted."""
        link, asked = self.link, Shares.of(self.link)
        if link.reorder_percent and "reorder" not in reasons:
            yield self._judge_share("reorder", asked.overtaking, came.overtook, came.sent)
        if link.duplicate_percent:
            yield self._judge_share("duplicate", asked.twice, came.copies, came.sent)
        if link.corrupt_percent and link.loss_percent:
            yield self._make_reading("corrupt", note="its packets are lost, as others are")

    def _judge_share(self, name: str, share: float, count: int, sent: int) -> Reading:
        """Judge a count of packets that a share concerns; with correlation, by its variance."""
        error = find_sigmas(count, sent, share)
        if self.link.correlation_percent:
            spread = math.sqrt(sent * share * (1 - share) * inflate(self.link))
            error = (count - sent * share) / spread
        note = f"{count} of {sent}"
        measured = 100 * count / sent
        return self._make_reading(name, 100 * share, measured, error, self.sigmas, "sigma", note)

    def _judge_order(self) -> Reading:
        count = float(sum(train.disordered for train in self.seen.trains.values()))
        if not self.link.duplicate_percent:
            count += sum(train.copies for train in self.seen.trains.values())
        return self._make_reading("order", 0.0, count, count, 0.0)

    def _judge_loss(self, train: Train, came: Arrivals) -> Reading:
        lost, share = came.sent - came.arrived, Shares.of(self.link).missing
        expected, measured = 100 * share, 100 * lost / came.sent
        if not self.link.loss_percent and share:
            return self._judge_share("corrupt", share, lost, came.sent)
        if not share:
            return self._make_reading("loss", 0.0, measured, float(lost), 0.0, "packets")
        if self.link.has_bursts:
            error = (lost - came.sent * share) / self._compute_burst_spread(came.sent)
            note = f"{lost} of {came.sent}"
            return self._make_reading("loss", expected, measured, error, self.sigmas, "sigma", note)
        return self._judge_share("loss", share, lost, came.sent)

    def _compute_burst_spread(self, packets: int) -> float:
        """The standard deviation of the number of losses, if they come in bursts.

        Losses that are n packets apart have the correlation (1 - p - r)^n (`shaping`).
        """
        share, r = self.link.loss_percent / 100, 1 / self.link.burst
        likeness = 1 - r / (1 - share)  # p + r = r / (1 - share)
        return math.sqrt(packets * share * (1 - share) * (1 + likeness) / (1 - likeness))

    def _judge_bursts(self, came: Arrivals) -> Reading:
        """Judge the mean length of bursts, whose lengths are geometrically distributed."""
        if came.bursts < 2:
            return self._report_no_packets("burst")
        expected, measured = self.link.burst, (came.sent - came.arrived) / came.bursts
        spread = math.sqrt(expected * (expected - 1) / came.bursts)
        note = f"{came.bursts} bursts"
        error = (measured - expected) / spread
        return self._make_reading("burst", expected, measured, error, self.sigmas, "sigma", note)

    def _judge_queue(self, train: Train, came: Arrivals) -> Reading:
        """Judge the queue by the arrived bytes of a burst, less those sent during the burst."""
        wire_bytes, expected = train.wire_bytes, self.topology.queue_bytes(self.link)
        share = Shares.of(self.link).missing
        passed_bytes = self.link.rate_mbps * 125_000 * came.sent_ns / 1e9
        measured = came.arrived / (1 - share) * wire_bytes - passed_bytes
        sent = round((expected + passed_bytes) / wire_bytes)
        chance = self._compute_loss_spread(sent, share) / (1 - share) * wire_bytes
        slack_bytes = self.link.rate_mbps * 125_000 * self.bars.slack_s
        bar = max(wire_bytes, self.bars.queue * expected, slack_bytes) + chance
        return self._make_reading("queue", expected, measured, measured - expected, bar)

    def _compute_loss_spread(self, packets: int, share: float) -> float:
        """How far the number of losses among `packets` may be from its mean, at `sigmas`."""
        if self.link.has_bursts:
            return self.sigmas * self._compute_burst_spread(packets)
        unlikely = norm.sf(self.sigmas)
        few, many = (float(binom.ppf(at, packets, share)) for at in (unlikely, 1 - unlikely))
        return max(many - packets * share, packets * share - few)

    def _judge_ping(self) -> Reading:
        """Judge the round trip: the delays of both directions together."""
        both = (self.link, self.topology.link(self.link.dst, self.link.src))
        size = PING_PAYLOAD_BYTES + PING_HEADER_BYTES
        mean_ms, variance = sum_delays(both)
        expected = mean_ms + sum(size * 8e-3 / at.rate_mbps for at in both)
        if self.seen.ping_ms is None:
            return self._report_no_packets("ping")
        spread_ms = math.sqrt(variance / self.seen.pings)
        bar = 2 * self.bars.delay_ms + SIGMAS * spread_ms
        return self._make_reading(
            "ping", expected, self.seen.ping_ms, self.seen.ping_ms - expected, bar
        )

    def _judge_iperf3(self) -> Reading:
        assert self.seen.iperf3_mbps is not None
        expected = self.link.rate_mbps * payload_share(self.options.mtu)
        return self._judge_relative("iperf3", expected, self.seen.iperf3_mbps, self.bars.iperf3)
