"""The events of a run in the fluid model, as a run logs them (pure).

Tables, figures and pages are made of them as of a run's own. What the model does not have is left
out: digests are empty, and interfaces count nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trunkline.agents.control.driver import NewTask
from trunkline.agents.events import round_events, run_events, task_events
from trunkline.agents.events.causes import Ending
from trunkline.agents.events.event import CONTROLLER, RUNNER, Event
from trunkline.agents.planning.disciplines import Flow
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_tasks import FluidChunk, Offer
from trunkline.agents.planning.plan import Directed
from trunkline.agents.wire.agent_settings import ControllerSettings
from trunkline.harness.fluid.fluid_steps import HandOut
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.settings import Scenario

MODEL = "fluid model"


@dataclass(slots=True)
class Payload:
    """What one flow has sent over one link, in one phase."""

    start_s: float
    end_s: float = 0.0
    bytes: int = 0
    chunks: int = 0


@dataclass(slots=True)
class FluidLog:
    """Takes the events of a run in the fluid model.

    Attributes:
        numbers: the number of each task, in the order in which the overlay starts them.
        versions: how often the model of each site that merges results has changed.
        payload: what was sent, by flow, link and phase.
    """

    agenda: Agenda
    events: list[Event] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    payload: dict[tuple[Flow, Directed, task_events.Phase], Payload] = field(default_factory=dict)

    def add(self, kind: type[Event], site: str, at_s: float | None = None, **values: Any) -> None:
        """Log an event of this site now, or at another time."""
        time_s = self.agenda.now_s if at_s is None else at_s
        self.events.append(kind(round(time_s * 1e9), site, **values))

    def begin(self, scenario: Scenario) -> None:
        """Log the start of the run."""
        self.events.append(make_header(scenario))
        self.add(run_events.Predicted, RUNNER, model=MODEL)
        for server in scenario.scheme.servers:
            self.add(task_events.ServerBegan, server, digest="", fingerprint=())

    def start_task(self, new: NewTask, settings: ControllerSettings, version: int) -> None:
        """Log that the controller starts a task."""
        self.add(task_events.TaskStarted, CONTROLLER, **new.describe(settings, version))

    def join_task(self, new: NewTask, site: str, iteration: int) -> None:
        """Log that a member hears of a task and contributes this iteration's model to it."""
        self.add(task_events.TaskJoined, site, task=new.number)
        self.add(
            task_events.Contributed,
            site,
            task=new.number,
            iteration=iteration,
            digest="",
            fingerprint=(),
            weight=new.start.weights.get(site, 0.0),
        )

    def finish(self, new: NewTask, site: str, merges: bool) -> None:
        """Log that a receiver has the result, which a server or a task that `merges` adds up."""
        if merges:
            self.versions[site] = self.versions.get(site, 0) + 1
            self.add(
                task_events.ModelMerged,
                site,
                task=new.number,
                version=self.versions[site],
                base="",
                base_fingerprint=(),
                step=(),
                digest="",
                fingerprint=(),
            )
        self.add(task_events.TaskFinished, site, task=new.number, digest="", fingerprint=())

    def hand_out(
        self,
        handed: HandOut,
        site: str,
        iteration: int,
        computed: Sequence[tuple[int, float, float, float]],
    ) -> None:
        """Log the branches that a site has computed as they arrived."""
        for branch, arrived_s, start_s, end_s in computed:
            self.add(round_events.BranchArrived, site, arrived_s, task=handed.task, branch=branch)
            self.add(
                round_events.BranchComputed,
                site,
                end_s,
                iteration=iteration,
                branch=branch,
                start_ns=round(start_s * 1e9),
                end_ns=round(end_s * 1e9),
                task=handed.task,
            )

    def count_sent(self, link: Directed, chunk: FluidChunk, begun_s: float, sent_s: float) -> None:
        """Count a chunk that a link sends."""
        key = chunk.flow, link, _name_phase(chunk)
        found = self.payload.get(key)
        if found is None:
            found = self.payload[key] = Payload(begun_s)
        found.end_s = sent_s
        found.bytes += chunk.size_bytes
        found.chunks += 1

    def end(self, cause: Ending | None, delays_ms: Mapping[Directed, float]) -> list[Event]:
        """Log the end of the run; returns all events in the order of time."""
        for event in self._list_payload(delays_ms):
            self.events.append(event)
        last_ns = max(event.t_ns for event in self.events)
        self.add(run_events.RunFinished, RUNNER, last_ns / 1e9, cause=cause, links=())
        return sorted(self.events, key=lambda event: event.t_ns)

    def _list_payload(self, delays_ms: Mapping[Directed, float]) -> Iterator[Event]:
        """What tasks have sent, and what has arrived; not what was sent early for no task."""
        for (flow, (src, dst), phase), sent in self.payload.items():
            if flow.task is None:
                continue
            later_s = delays_ms.get((src, dst), 0.0) / 1e3
            sums = phase, sent.bytes, sent.chunks
            out_ns = round(sent.start_s * 1e9), round(sent.end_s * 1e9)
            in_ns = round((sent.start_s + later_s) * 1e9), round((sent.end_s + later_s) * 1e9)
            task = self.numbers[flow.task]
            yield task_events.Sent(out_ns[1], src, task, dst, *sums, *out_ns)
            yield task_events.Received(in_ns[1], dst, task, src, *sums, *in_ns)


def _name_phase(chunk: FluidChunk) -> task_events.Phase:
    if isinstance(chunk.of, Offer):
        return "early"
    if chunk.hops:
        return "relay"
    if not chunk.primary:
        return "aux"
    return "in" if chunk.inward else "out"
