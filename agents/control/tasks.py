"""The controller's supervision of running tasks: start, repair, end.

One rule keeps the models of members equal. A member that holds the whole result installs it at
once, and the task then counts as decided for all members. So before the controller plans a task
anew or abandons it, the controller halts every member within reach, and each answers whether it has
finished. If one has, it sends its result to the others. docs/failover.md describes the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trunkline.agents.control.participants import Participants
from trunkline.agents.control.task_state import Running
from trunkline.agents.events import task_events
from trunkline.agents.events.causes import (
    Abandoning,
    BudgetSpent,
    FinishedTooEarly,
    Halting,
    LinkBroke,
    Loss,
    NoCandidate,
    NoPlan,
    SiteLost,
    SiteWithdrew,
    TakenOver,
)
from trunkline.agents.events.event import Log
from trunkline.agents.planning import repair
from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.plan import Block, Edge, Plan, PlanError, check
from trunkline.agents.planning.repair import UsableOverlay
from trunkline.agents.planning.site_plan import parts_of
from trunkline.agents.policies.policy import Start
from trunkline.agents.wire.messages import Halt, TaskOver, TaskState

LATE_BLOCKS, BLOCK_NS = 10_000, 100_000
"""A controller that takes over a task numbers new blocks from LATE_BLOCKS on, plus one number for
each BLOCK_NS of the run. Its predecessors may have announced blocks that appear in no report. A
later controller begins above their numbers: no task has a new block every BLOCK_NS."""


@dataclass(slots=True)
class Tasks:
    """All running tasks of a controller.

    `build` makes a task's plan over the usable links, and raises PlanError if there is none.
    `detours` returns the auxiliary paths that chunks of a block may have taken. `ended` is called
    after each end of a task, with its number, its state, and whether it was completed. Until
    it `decides`, the controller waits for reports and halts no task; `links_were_lost` says that it
    heard of a lost link by then.
    """

    overlay: UsableOverlay
    cut: Chunking
    task_s: float
    replans: int
    build: Callable[[Start, int], Plan]
    detours: Callable[[Block], Iterable[Edge]]
    participants: Participants
    log: Log
    ended: Callable[[int, Running, bool], None]
    running: dict[int, Running] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    decides: bool = False
    links_were_lost: bool = False

    def start(
        self,
        task: int,
        start: Start,
        plan: Plan,
        offers: Mapping[str, int],
        witnesses: Iterable[str],
        unasked: Iterable[str] = (),
        count: int = 0,
    ) -> None:
        """Tell all participants of a new task, the `count`th of the run, their parts.

        `offers` are the contributors' offers that the task takes in; `witnesses` are sites that may
        have received chunks of them. Members in `unasked` are told by `invite_ready`.
        """
        begun_s = asyncio.get_running_loop().time()
        deadline_s = begun_s + self.task_s
        blocks = dict(enumerate(plan.blocks))
        running = Running(start, plan, blocks, len(blocks), begun_s, deadline_s, self.replans)
        running.offers, running.unasked, running.count = offers, set(unasked), count
        self.running[task] = running
        self._watch_budget(task)
        for site in sorted({*plan.participants(), *witnesses} - running.unasked):
            self.participants.invite(site, task, running, plan, parts_of(plan, site), offers=offers)

    def invite_ready(self, site: str) -> bool:
        """Invite a site that is ready to the task that waits for it; False if none does."""
        for task, running in self.running.items():
            if site in running.unasked and running.plan is not None:
                running.unasked.discard(site)
                plan, parts = running.plan, parts_of(running.plan, site)
                self.participants.invite(site, task, running, plan, parts, offers=running.offers)
                return True
        return False

    def on_left(self, site: str) -> None:
        """Halt tasks that wait for this site: it has done its rounds."""
        for task, running in list(self.running.items()):
            if site in running.unasked:
                self._halt(task, SiteWithdrew(site))

    @property
    def groups_are_complete(self) -> bool:
        """Whether no running task waits for a member to be ready."""
        return not any(running.unasked for running in self.running.values())

    def adopt(self, state: TaskState, site: str, now_ns: int) -> None:
        """Take over the supervision of another controller's task, from one member's report.

        `now_ns` is the run's time.

        This controller does not know the task's plan, so it cannot repair the task: the task either
        continues undisturbed or is halted. Members that do not report the task have given it up;
        `begin_to_decide` halts such tasks when all members have reported.
        """
        running = self.running.get(state.task)
        if running is None:
            deadline_s = asyncio.get_running_loop().time() + state.left_s
            start = Start.of(state.group, state.weights, state.scale, state.roles)
            begun_s = deadline_s - self.task_s
            running = Running(start, None, {}, 0, begun_s, deadline_s, self.replans)
            running.gone = set(state.group)
            self.running[state.task] = running
            self._watch_budget(state.task)
        running.used = max(running.used, state.blocks, LATE_BLOCKS + now_ns // BLOCK_NS)
        running.gone.discard(site)
        if state.finished:
            running.finished.add(site)
            running.holders.add(site)

    def forget_report(self, site: str) -> None:
        """Note that a member was lost after its report: it may come back without the task."""
        for running in self.running.values():
            running.holders.discard(site)
            if site in running.start.group and site not in running.finished:
                running.gone.add(site)

    def begin_to_decide(self) -> None:
        """Begin to decide about tasks: all members of adopted tasks have reported."""
        self.decides = True
        for task, running in list(self.running.items()):
            if running.hit or running.gone or self.links_were_lost:
                self._halt(task, running.halted_by or TakenOver())
            else:
                self._complete_if_done(task)

    def add_helper(self, site: str, tasks: Iterable[int]) -> None:
        """Note that a site takes part in these tasks without being a member of their groups."""
        for task in tasks:
            if task in self.running:
                self.running[task].informed.add(site)
            else:
                self.participants.tell(site, TaskOver(task, False))

    def close(self) -> None:
        """Forget all tasks and cancel their timers."""
        for running in self.running.values():
            if running.budget is not None:
                running.budget.cancel()
        self.running.clear()

    # -- messages from members ----------------------------------------------------------------

    def on_finished(self, site: str, task: int, blocks: int) -> None:
        """Note that a member has installed the result.

        It contributed nothing to blocks from number `blocks` on, as it had not heard of them.
        """
        running = self.running.get(task)
        if running is None:
            return
        running.finished.add(site)
        running.holders.add(site)
        running.gone.discard(site)
        if running.awaited is not None:
            return
        if running.plan is not None and blocks < running.used and running.unfinished:
            self._halt(task, FinishedTooEarly(site))
        else:
            self._complete_if_done(task)

    def on_halted(self, site: str, task: int, finished: bool) -> None:
        """Handle a member's answer to a halt: it has stopped, with the result or without."""
        running = self.running.get(task)
        if running is None or running.awaited is None:
            return
        running.awaited.discard(site)
        if finished:
            running.finished.add(site)
            running.holders.add(site)
        self._conclude_if_answered(task)

    def on_rejoined(self, site: str, state: TaskState) -> bool:
        """Handle the return of a lost member; False if it may not continue with the task."""
        running = self.running.get(state.task)
        if running is None:
            return False
        if state.finished:
            self.on_finished(site, state.task, state.blocks)
            return state.task in self.running
        if running.awaited is not None and site in running.gone:
            running.gone.discard(site)
            running.awaited.add(site)
            self.participants.tell(site, Halt(state.task))
            return True
        return site not in running.gone

    def on_refused(self, site: str, task: int) -> None:
        """Handle the news that a site takes no part in the task any more."""
        running = self.running.get(task)
        if running is not None and site not in running.finished:
            self._drop_site(task, running, site, SiteWithdrew(site))

    # -- repair -------------------------------------------------------------------------------

    def on_site_lost(self, site: str) -> None:
        """Repair the tasks in which the lost site took part."""
        for task, running in list(self.running.items()):
            self._drop_site(task, running, site, SiteLost(site))
            if task in self.running and running.awaited is not None:
                running.awaited.discard(site)
                self._conclude_if_answered(task)

    def on_link_lost(self, a: str, b: str) -> None:
        """Repair the tasks that use the link between two neighbours: its chunks are lost.

        Before it decides, the link may be back already, and its tasks not yet reported.
        """
        self.links_were_lost |= not self.decides
        for task, running in list(self.running.items()):
            hit = [
                number
                for number, block in running.blocks.items()
                if repair.uses_link(block, a, b, self.detours(block))
            ]
            if hit or running.plan is None:
                self._mend(task, hit, LinkBroke((a, b)))

    def on_link_found(self) -> None:
        """Retry stuck tasks: a link is back, so a result may reach the other members now."""
        for task, running in list(self.running.items()):
            if running.stuck:
                assert running.halted_by is not None
                self._halt(task, running.halted_by)

    def _drop_site(self, task: int, running: Running, site: str, loss: Loss) -> None:
        """Repair a task without this site, which has dropped its state of the task."""
        running.holders.discard(site)
        if site in running.informed:
            running.informed.discard(site)
            running.former.add(site)
        if site in running.unfinished or (site in running.start.weights and running.unfinished):
            running.gone.add(site)
            self._halt(task, loss)
            return
        hit = [
            number
            for number, block in running.blocks.items()
            if repair.uses_site(block, site, self.detours(block))
        ]
        if hit or running.plan is None or running.stuck:
            self._mend(task, hit, loss)

    def _mend(self, task: int, hit: Sequence[int], loss: Loss) -> None:
        running = self.running[task]
        if running.awaited is not None:
            return
        hit_blocks = [running.blocks[number] for number in hit]
        movable = running.start.is_symmetric and all(map(repair.is_star, hit_blocks))
        if running.plan is None or running.finished or running.unasked or not movable:
            self._halt(task, loss)
            return
        loads = repair.sum_loads((each.blocks for each in self.running.values()), self.cut)
        added = repair.move_hits(running.plan, hit_blocks, loads, self.overlay, self.cut)
        if None in added:
            running.replans = 0  # the paper's rule: without a candidate the task is discarded
            self._halt(task, NoCandidate(loss))
            return
        self._rearrange(task, hit, [block for block in added if block is not None], loss)

    def _rearrange(
        self, task: int, withdrawn: Sequence[int], blocks: Sequence[Block], loss: Loss
    ) -> None:
        running = self.running[task]
        assert running.plan is not None
        first, added = running.used, replace(running.plan, blocks=tuple(blocks))
        live = repair.replace_blocks(running.blocks, withdrawn, blocks, first)
        whole = replace(running.plan, blocks=tuple(live.values()))
        check(whole, self.overlay.rates_mbps.keys())
        running.blocks = live
        running.used += len(blocks)
        given_up, forest = tuple(withdrawn), added.to_json()
        self.log(task_events.TaskRearranged, task, given_up, first, forest, loss)
        self.participants.announce(task, running, added, first, 0, withdrawn)

    # -- halting ------------------------------------------------------------------------------

    def _halt(self, task: int, cause: Halting) -> None:
        """Halt the task at every site and ask the members within reach whether they finished.

        A task with `unasked` members cannot have finished anywhere, so it is abandoned at once.
        Its other members then become ready again.
        """
        running = self.running[task]
        if running.awaited is not None:
            return
        running.halted_by = cause
        if running.unasked:
            self._end(task, completed=False)
            return
        if not self.decides:
            running.hit = True
            return
        running.blocks = {}
        running.awaited = {site for site in running.unfinished if site in self.overlay.present}
        running.gone.update(set(running.unfinished) - running.awaited)
        members = tuple(sorted(running.awaited))
        self.log(task_events.TaskHalted, task=task, cause=cause, members=members)
        for site in sorted(self.overlay.present):
            self.participants.tell(site, Halt(task))
        self._conclude_if_answered(task)

    def _conclude_if_answered(self, task: int) -> None:
        running = self.running[task]
        if running.awaited:
            return
        running.awaited, running.stuck = None, False
        if not running.unfinished:
            self._end(task, completed=bool(running.finished))
        elif running.finished and not self._has_shards(running):
            self._give_result(task)
        else:
            self._plan_anew(task)

    def _has_shards(self, running: Running) -> bool:
        """Whether receivers get different parts of the result, so none can give it to another."""
        return not set(running.start.takers).isdisjoint(self.participants.servers)

    def _give_result(self, task: int) -> None:
        """Let a member that has finished send its result to those that have not."""
        running = self.running[task]
        for holder in sorted(running.holders):
            try:
                plan = repair.plan_gift(holder, running.unfinished, self.cut.count, self.overlay)
            except PlanError:
                continue
            self._replan(task, plan, holder)
            return
        running.stuck = bool(running.holders)
        if not running.stuck:
            self._end(task, completed=True)

    def _plan_anew(self, task: int) -> None:
        """Plan a task again for the receivers that lack the result.

        A result of which others have their parts is planned as often as its budget allows.
        """
        running = self.running[task]
        may_replan = running.replans > 0 or bool(running.finished)
        if running.gone or running.extended or not may_replan:
            self._end(task, completed=bool(running.finished))
            return
        running.replans -= 1
        try:
            start = running.start
            if running.finished:
                start = replace(start, receivers=tuple(running.unfinished))
            plan = self.build(start, task)
        except PlanError as error:
            no_plan = NoPlan(str(error), error.sites, running.halted_by)
            self._end(task, completed=bool(running.finished), cause=no_plan)
            return
        self._replan(task, plan, None)

    def _replan(self, task: int, plan: Plan, holder: str | None) -> None:
        """Start the task again with this plan and withdraw all earlier blocks."""
        running = self.running[task]
        running.plan, first = plan, running.used
        running.blocks = dict(enumerate(plan.blocks, first))
        running.used += len(plan.blocks)
        running.former |= running.informed
        running.informed = {site for site in running.start.group if site not in running.gone}
        forest, cause = plan.to_json(), running.halted_by
        assert cause is not None
        self.log(task_events.TaskReplanned, task, first, holder, forest, cause)
        self.participants.announce(task, running, plan, first, first, holder=holder)

    # -- end ----------------------------------------------------------------------------------

    def _complete_if_done(self, task: int) -> None:
        running = self.running[task]
        if self.decides and not running.unfinished:
            self._end(task, completed=True)

    def _end(self, task: int, *, completed: bool, cause: Abandoning | None = None) -> None:
        """End a task; without a `cause`, the cause is that of its last halt."""
        running = self.running.pop(task)
        cause = cause or running.halted_by
        if running.budget is not None:
            running.budget.cancel()
        without = tuple(sorted(set(running.start.takers) - running.finished))
        if completed:
            self.completed.add(task)
            self.log(task_events.TaskCompleted, task=task, without=without)
        else:
            assert cause is not None
            self.log(task_events.TaskAbandoned, task=task, cause=cause)
        # A receiver that does not report an adopted task may have finished and forgotten it.
        forgotten = running.plan is None and not running.gone.isdisjoint(running.start.takers)
        known = completed or not forgotten
        message = TaskOver(task, completed if known else None, cause)
        told = running.informed | running.former | set(running.start.group)
        for site in sorted(told & self.overlay.present):
            self.participants.tell(site, message)
        self.ended(task, running, completed)

    def _watch_budget(self, task: int) -> None:
        running = self.running[task]
        loop = asyncio.get_running_loop()
        running.budget = loop.call_at(running.deadline_s, self._on_expired, task)

    def _on_expired(self, task: int) -> None:
        """Halt a task whose budget is spent.

        If a member has finished, the others get as much time again to receive its result. Before
        the controller decides, an unknown member may have finished, so no task ends.
        """
        running = self.running[task]
        spent = BudgetSpent(self.task_s)
        if self.decides and running.extended and running.awaited is None:
            self._end(task, completed=bool(running.finished), cause=spent)
            return
        running.extended = True
        self._halt(task, spent)
        if task in self.running:
            loop = asyncio.get_running_loop()
            running.budget = loop.call_later(max(1.0, self.task_s), self._on_expired, task)
