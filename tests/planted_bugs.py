"""Planted bugs: each is one small change of the agents' protocol that some fast test must notice.

`make mutants` plants one after the other in a copy of the tree (`plant_bugs.py`) and counts those that the
tests of `tests/agents` notice. `test_planted_bugs.py` checks that every change can still be made.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A planted bug: in `file` (below `agents/`), `old` occurs once and becomes `new`."""

    breaks: str
    file: str
    old: str
    new: str


BUGS = {
    "control/tasks.py": {
        "an update that a server has and forgot is given again by its worker": (
            "completed if known else None, cause",
            "completed, cause",
        ),
        "a halt is concluded while one answer is missing": (
            "        if running.awaited:\n            return\n",
            "        if running.awaited and len(running.awaited) > 1:\n            return\n",
        ),
        "a member that comes back during a halt is not awaited": (
            "            running.awaited.add(site)\n",
            "",
        ),
        "only members hear of a halt": (
            "        for site in sorted(self.overlay.present):\n            self.participants.tell(site, Halt(task))",
            "        for site in members:\n            self.participants.tell(site, Halt(task))",
        ),
        "a new controller ends tasks before all members have reported": (
            "        if self.decides and running.extended and",
            "        if running.extended and",
        ),
        "a budget is extended forever": (
            "running.extended and running.awaited is None:\n",
            "running.extended and running.halted_by is None:\n",
        ),
        "a member that has finished is not asked for its result": (
            "        running.finished.add(site)\n        running.holders.add(site)\n        running.gone",
            "        running.finished.add(site)\n        running.gone",
        ),
        "the answer of a lost member is awaited forever": (
            "                running.awaited.discard(site)\n"
            "                self._conclude_if_answered(task)\n",
            "                self._conclude_if_answered(task)\n",
        ),
        "a member may finish without the newest blocks, which wait for its contribution": (
            "        if running.plan is not None and blocks < running.used and running.unfinished:\n",
            "        if running.plan is not None and blocks < running.used - 1:\n",
        ),
        "a task is planned anew without end": (
            "        running.replans -= 1\n",
            "        running.replans -= 0\n",
        ),
        "a task is planned anew although a member of it is lost": (
            "        if running.gone or running.extended or not may_replan:\n",
            "        if running.extended or not may_replan:\n",
        ),
        "a task whose budget is spent is planned anew": (
            "        if running.gone or running.extended or not may_replan:\n",
            "        if running.gone or not may_replan:\n",
        ),
        "a member that holds no result is to give it": (
            "        for holder in sorted(running.holders):\n",
            "        for holder in sorted(running.start.group):\n",
        ),
        "helpers are not told that a task is over": (
            "        told = running.informed | running.former | set(running.start.group)\n",
            "        told = set(running.start.group)\n",
        ),
        "a new controller uses block numbers again": (
            "        running.used = max(running.used, state.blocks, LATE_BLOCKS + now_ns // BLOCK_NS)\n",
            "        running.used = max(running.used, state.blocks - 1)\n",
        ),
        "a new controller takes members that report for lost": (
            "        running.gone.discard(site)\n        if state.finished:\n",
            "        if state.finished:\n            running.gone.discard(site)\n",
        ),
        "a new controller lets a task go on without members that gave it up": (
            "            if running.hit or running.gone or self.links_were_lost:\n",
            "            if running.hit or self.links_were_lost:\n",
        ),
        "a new controller lets a task go on over links that are lost": (
            "            if running.hit or running.gone or self.links_were_lost:\n",
            "            if running.hit or running.gone:\n",
        ),
        "a lost member is to give its result": (
            "        running.holders.discard(site)\n        if site in running.informed",
            "        running.holders.discard('')\n        if site in running.informed",
        ),
        "a block moves although a member has finished and contributes no more": (
            "        if running.plan is None or running.finished or running.unasked or not movable:\n",
            "        if running.plan is None or running.unasked or not movable:\n",
        ),
        "a block moves although a member has not been asked yet": (
            "        if running.plan is None or running.finished or running.unasked or not movable:\n",
            "        if running.plan is None or running.finished or not movable:\n",
        ),
        "a result that could not be given is not given when a link is back": (
            "            if running.stuck:\n                assert running.halted_by is not None\n",
            "            if running.stuck and running.hit:\n"
            "                assert running.halted_by is not None\n",
        ),
        "a member that was unreachable when its task was halted is not halted when it is back": (
            "            self.participants.tell(site, Halt(state.task))\n            return True\n",
            "            return True\n",
        ),
        "a task does not hear that a site refuses it": (
            "        if running is not None and site not in running.finished:\n",
            "        if running is not None and site in running.gone:\n",
        ),
        "a halted task is not repaired, but chunks lost on a link are not missed": (
            "            if hit or running.plan is None:\n                self._mend(task, hit, LinkBroke",
            "            if len(hit) > 1 or running.plan is None:\n"
            "                self._mend(task, hit, LinkBroke",
        ),
    },
    "control/controller.py": {
        "a controller does not hear what a worker lost while it was away": (
            "        self._note_losses(site, frozenset(report.lost))\n",
            "        self._note_losses(site, frozenset())\n",
        ),
        "a link that is found again stays lost": (
            "self._overlay.lost_by(site) - {frame.peer})\n",
            "self._overlay.lost_by(site) | {frame.peer})\n",
        ),
        "the default split stays as it was after a loss": (
            "        if self._planner.refresh_default():\n",
            "        if not self._tasks.decides and self._planner.refresh_default():\n",
        ),
        "a returning member waits for a task that was decided without it": (
            "                self._tell(site, self._describe_end(site, state))\n",
            "                pass\n",
        ),
        "a controller that acts takes reports of tasks for those of a new term": (
            "            if not self._decider.decides:\n                self._tasks.adopt(state, site, self._now_ns())\n",
            "            if True:\n                self._tasks.adopt(state, site, self._now_ns())\n",
        ),
        "a worker that calls while its old connection seems alive is not taken over": (
            '            self._links[site].lose(ConnectionLostError(f"{site} calls again"))\n',
            "            pass\n",
        ),
        "a caller is not told that the run is over": (
            "            self._links[site].tell(Bye())\n\n",
            "            pass\n\n",
        ),
        "a new controller decides without waiting for reports": (
            "        if self._overlay.present | self._reports.absent >= set(self.settings.sites):\n",
            "        if self._overlay.present:\n",
        ),
        "a policy does not hear of sites that do not report to a new controller": (
            "        for site in missing:\n            self._decider.decide(decisions.Lost(site))\n",
            "",
        ),
        "an update whose end a new controller does not know is given again": (
            "if known else None",
            "if known else False",
        ),
        "a member that is lost after its report is waited for without the task": (
            "            self._tasks.forget_report(site)\n",
            "",
        ),
        "a site that is lost before a new controller decides still counts as ready": (
            "            self._decider.forget(site)\n",
            "",
        ),
        "the tasks of earlier controllers do not count towards the end": (
            "        self._decider.driver.started = max(self._decider.driver.started, report.begun)\n",
            "",
        ),
        "a task takes in offers although chunks of them were lost with a link": (
            "            case LinkLostNotice():\n                self._decider.offers.forget()\n",
            "            case LinkLostNotice():\n",
        ),
        "tasks take in offers although chunks of them were lost with a link that is back": (
            "            case LinkFoundNotice():\n                self._decider.offers.forget()\n",
            "            case LinkFoundNotice():\n",
        ),
        "offers of a worker that was lost are taken in": (
            "        self._decider.unready(site)\n        self._decider.offers.forget()\n",
            "        self._decider.unready(site)\n",
        ),
        "a worker that was started again is taken to know its parts": (
            "        self._plan_caches.forget(site)\n",
            "",
        ),
        "a worker that reports while the run stops is not told so": (
            "            self._tell(site, StopOrder(self._termination.cause))\n        elif",
            "            pass\n        elif",
        ),
        "a controller does not hear that another one has stopped the run": (
            "            self._termination.stop(report.stop)\n",
            "            pass\n",
        ),
        "the policy does not hear that a lost site is back": (
            "            self._decider.decide(decisions.Joined(site))\n",
            "",
        ),
    },
    "control/driver.py": {
        "the task numbers of earlier terms are used again": (
            "cls(policy, planner, settings.term)",
            "cls(policy, planner, 1_000_000 * settings.rank)",
        ),
        "a member that is not ready counts as asked": (
            "        unready = active - self.ready\n",
            "        unready = frozenset[str]()\n",
        ),
    },
    "control/termination.py": {
        "the run ends while a lost site may still come back": (
            "        elif not self._working and not self._missing():\n",
            "        elif not self._working:\n",
        ),
        "the run waits forever for sites that do not come back": (
            "        self._working -= self._given_up\n",
            "",
        ),
        "the run ends while tasks are running": (
            "        if self._busy() or self._working & self._present:\n",
            "        if self._working & self._present:\n",
        ),
        "the run ends while sites are working": (
            "        if self._busy() or self._working & self._present:\n",
            "        if self._busy():\n",
        ),
    },
    "control/backup.py": {
        "a backup forgets the task numbers of its terms": (
            "            self._next_task = controller.next_task\n",
            "",
        ),
        "a backup acts on although the first controller is back": (
            "            await asyncio.wait((acting, finding), return_when=asyncio.FIRST_COMPLETED)\n",
            "            await asyncio.wait((acting,), return_when=asyncio.FIRST_COMPLETED)\n",
        ),
        "a backup waits forever for a first controller that it never reached": (
            "                await asyncio.wait_for(self._connect_to_first(), self._failover.patience_s)\n",
            "                await self._connect_to_first()\n",
        ),
        "a backup does not remember that the run is to stop": (
            "        self._told_to_stop = cause\n",
            "",
        ),
    },
    "site/task_execution.py": {
        "a result that is begun again keeps chunks of the old plan": (
            "                self.missing = self.local.wanted\n",
            "                pass\n",
        ),
        "the last, shorter chunk does not go down the out-trees": (
            "        if part.outs:\n            self._send_on(",
            "        if len(data) == self.local.cut.size(0):\n            self._send_on(",
        ),
        "a block that is not pipelined is sent on chunk by chunk": (
            "            if len(waiting) < part.size:\n                return\n",
            "",
        ),
        "the last chunk of a block leaves it waiting at a relay": (
            "            more = each is not ready[-1]\n",
            "            more = True\n",
        ),
        "the scale is lost where a block has one source": (
            "self._weighted(own), self.message.scale)",
            "self._weighted(own), 1.0)",
        ),
        "the scale is lost where a block has many sources": (
            "sum_.total, self.message.scale)",
            "sum_.total, 1.0)",
        ),
        "a contribution is added without its weight": (
            "        if header.original:\n            _scale(data, self.message.weights[source])\n",
            "",
        ),
        "a site's own contribution is added without its weight": (
            "                lent = self.message.weights[source] == 1.0\n",
            "                lent = True\n",
        ),
        "a contribution counts twice": (
            "source not in part.sources or source in sum_.held or source",
            "source not in part.sources or source",
        ),
        "a site finishes and leaves others without its contribution": (
            "        unsent = self.unsent or self.owed or (self.offer and self.offer.unsent)\n",
            "        unsent = self.unsent or (self.offer and self.offer.unsent)\n",
        ),
        "a site changes its model while the links still send it": (
            "        unsent = self.unsent or self.owed or (self.offer and self.offer.unsent)\n",
            "        unsent = self.owed or (self.offer and self.offer.unsent)\n",
        ),
        "a site changes its model while the links still send its offer": (
            "        unsent = self.unsent or self.owed or (self.offer and self.offer.unsent)\n",
            "        unsent = self.unsent or self.owed\n",
        ),
        "a task that is over may finish": (
            "        if self.missing or unsent or self.over:\n",
            "        if self.missing or unsent:\n",
        ),
        "late chunks of a block that has moved are added": (
            "            self.withdrawn.add(block)\n",
            "",
        ),
        "a site that has finished does not give its result": (
            "            if part.receives or self.local.site in part.sources:\n",
            "            if not part.receives or self.local.site in part.sources:\n",
        ),
        "a site that has finished takes chunks of new blocks for a breach of the protocol": (
            "        if part is None and self.reported:\n",
            "        if part is None and self.over:\n",
        ),
        "memory is reused while another link still sends it": (
            "        if not self.users:\n",
            "        if self.users >= 0:\n",
        ),
        "queued chunks of withdrawn blocks are sent": (
            "        self.local.drop(lambda frame: _is_of(frame, number, chosen))\n",
            "",
        ),
        "a contribution that comes early and by the plan counts twice": (
            "                self.taken.add((header.block, header.chunk, source))\n",
            "                pass\n",
        ),
        "a part of a message can be used": ("        if part.whole:\n", "        if False:\n"),
    },
    "site/sums.py": {
        "a sum is written into the contribution": (
            "        np.add(self.total, data, out=data if self.lent else self.total)\n",
            "        np.add(self.total, data, out=self.total)\n",
        )
    },
    "site/executor.py": {
        "an offer still goes through a site that refuses it": (
            "if by in edge[1:]}",
            "if by == edge[-1]}",
        ),
        "a relay does not wait for the whole block": (
            "        if not header.more:\n",
            "        if True:\n",
        ),
        "a halted site goes on": ("        known.raise_floor(known.blocks)\n", ""),
        "chunks of a task that is over are kept forever": (
            "            return None if header.task in self._ended else header.task\n",
            "            return header.task\n",
        ),
        "chunks of a repair queue before what was scheduled earlier": (
            "        repairs = bisect_right(self._repairs.get(header.task, ()), header.block)\n",
            "        repairs = 0\n",
        ),
        "chunks of withdrawn blocks are added": (
            "        if task is not None and task.is_withdrawn(header.block):\n",
            "        if task is not None and task.over:\n",
        ),
        "chunks that came before their task are lost": (
            "        early = self._early.pop(share.message.task, [])\n",
            "        early = self._early.pop(share.message.task, [])[1:]\n",
        ),
        "an offer that a task has taken in is taken back": (
            "            if key not in self._offers.tasks:\n",
            "            if key not in self._offers.held:\n",
        ),
        "a task may finish between its old and its new blocks": (
            "        share.unsent += 1  # keeps the task",
            "        share.unsent -= 0  # keeps the task",
        ),
        "offers are kept although the controller is lost": (
            "        self._spend(self._offers.of(None))\n",
            "",
        ),
    },
    "site/site_model.py": {
        "a server contributes an old version of its model": (
            "self._snapshot[0] != self.version:",
            "self._snapshot[0] > self.version:",
        ),
        "an update that a task gave up is lost": (
            "            self._update = update\n",
            "            pass\n",
        ),
        "an update that a task has taken is given again": (
            "        if taken or update is None:\n",
            "        if update is None:\n",
        ),
        "the step before plays no part although there is momentum": (
            "        self._last_step = step.copy()\n",
            "",
        ),
        "a server forgets its model when an update comes": (
            "np.float32(keep) * base + step if keep else step",
            "step",
        ),
    },
    "site/worker.py": {
        "a worker that has given its update is asked for it again by a new controller": (
            "SiteReady(rounds.iteration, scatter.number, version, rounds.given)",
            "SiteReady(rounds.iteration, scatter.number, version, False)",
        ),
        "a halted member finishes its task although the controller is lost": (
            "            if task in known.halted:\n",
            "            if task in known.halted and self._rounds.stopping:\n",
        ),
        "a refusal does not reach the controller": (
            "            self._controller.tell(Refused(task, peer))\n",
            "            pass\n",
        ),
        "a member without a controller waits for another one forever": (
            "            self._give_up(task, RefusedAlone(peer))\n",
            "            pass\n",
        ),
        "a worker that is started again uses its offers' numbers again": (
            "settings.lives * OFFERS_PER_LIFE",
            "0 * OFFERS_PER_LIFE",
        ),
        "a worker reports no lost links": (
            "                lost=lost,\n",
            "                lost=(),\n",
        ),
        "a worker does not report tasks that it only helps": (
            "                helps=tuple(set(self._executor.running()) - {task.task for task in tasks}),\n",
            "                helps=(),\n",
        ),
        "a finished task is given up when its budget ends without a controller": (
            'tell all neighbours, unless it is finished."""\n        if task in self._member.tasks.installed or not',
            'tell all neighbours, unless it is finished."""\n        if not',
        ),
        "a worker keeps the first default split": (
            "                self._scatter.default = frame.parts\n",
            "                pass\n",
        ),
        "a worker that stands alone keeps the offers of others": (
            "        self._alone.standalone = True\n        self._executor.refuse_offers()\n",
            "        self._alone.standalone = True\n",
        ),
        "a worker waits for a controller forever": (
            "            timers.append(self._loop.call_later(patience_s, self._stand_alone))\n",
            "            pass\n",
        ),
        "a scatter by the default split ends with the controller's connection": (
            "        if self._scatter.default:\n            timers",
            "        if False:\n            timers",
        ),
        "a worker does not report the offers that it has used or discarded": (
            "spent=self._executor.find_spent_offers()",
            "spent={}",
        ),
        "a worker that refuses an offer tells no other": (
            "            self._neighbours.tell(peer, RefuseOffer(source, header.task, me))\n",
            "            pass\n",
        ),
        "a member that gives up tells no other": (
            "            link.tell(Refuse(task))\n",
            "            pass\n",
        ),
        "a task that goes on counts as halted": (
            "                self._member.tasks.halted.discard(frame.task)\n",
            "                pass\n",
        ),
        "a worker does not tell that it took part in a task that a lost link cut": (
            "            self._controller.tell(LinkLostNotice(peer))\n            return\n",
            "            return\n",
        ),
        "a worker that loses its controller and then a neighbour goes on": (
            "            self._give_up(task, LostAlone(peer))\n",
            "            pass\n",
        ),
        "a member with a lost link waits for the whole budget of a task without a controller": (
            "                left_s = min(left_s, patience_s)\n",
            "                pass\n",
        ),
    },
    "site/membership.py": {
        "a step is taken over while a task replaces the model": (
            "        while any(message.receives for message in self.tasks.joined.values()):\n",
            "        while False:\n",
        ),
        "an update that the receivers may have is given again": (
            "            self._rounds.given |= taken\n",
            "",
        ),
        "a worker does not report what it has finished": (
            "                message.task in self.installed,\n",
            "                False,\n",
        ),
        "a worker answers a halt without carrying it out": (
            "        finished = self._executor.halt(task)\n",
            "        finished = False\n",
        ),
        "a task that was dropped is contributed to no more, but not left": (
            "            self._rounds.end_wait(Outcome.DROPPED)\n",
            "            self._rounds.end_wait(Outcome.FINISHED)\n",
        ),
        "a worker computes an iteration after its last one": (
            "following != self._settings.rounds",
            "True",
        ),
    },
    "control/decider.py": {
        "a task takes in an offer of an earlier round": (
            "        ready = [site for site in start.weights if site not in new.unready]\n",
            "        ready = list(start.weights)\n",
        ),
        "all tasks of a decision begin, also after the last one": (
            "                case NewTask() | Postponed() if self._termination.stopping:\n                    pass\n",
            "",
        ),
        "each member of a group that links do not connect tries it again for all of them": (
            "        if group not in retries.groups:\n",
            "        if group:\n",
        ),
        "a lost site counts as ready": (
            "        self.retries.stranded.discard(site)\n        self.driver.ready.discard(site)\n",
            "        self.retries.stranded.discard(site)\n",
        ),
    },
    "control/known_offers.py": {
        "a new controller's tasks take in offers that a site has used or discarded": (
            "                if self.numbers.get(site, number + 1) <= number:\n",
            "                if False:\n",
        )
    },
    "control/participants.py": {
        "a member that gives its result is to contribute once more": (
            "            if site == holder:  # its result",
            "            if site == holder and not parts:  # its result",
        )
    },
    "control/farewell.py": {
        "a controller exits before lost workers are told of the end": (
            "        self._awaited = {*present, *self._links}\n",
            "        self._awaited = set()\n",
        )
    },
    "site/early_contributions.py": {
        "an older offer makes newer ones obsolete": (
            "            self.spent[key[0]] = max(key[1], self.spent.get(key[0], -1))\n",
            "            self.spent[key[0]] = key[1] + 1\n",
        ),
        "an offer that was taken back is taken in": (
            "            if not self.is_spent(key):\n",
            "            if key:\n",
        ),
        "an offer of a task is dropped when a newer one comes": (
            "        known = {*self.held, *self.flows} - self.tasks.keys()\n        return [other",
            "        known = {*self.held, *self.flows, *self.tasks}\n        return [other",
        ),
    },
    "site/plan_cache.py": {
        "a worker is taken to know parts that it was sent before it was started again": (
            " and self.versions.get(site) == self.rates.version\n",
            "\n",
        ),
        "a worker keeps old parts": (
            "            self.version, self.parts = version, parts\n",
            "            self.version, self.parts = version, self.parts or parts\n",
        ),
    },
    "site/dispatch.py": {
        "a relay does not take itself off a chunk's route": (
            "            header = replace(header, route=header.route[1:])\n",
            "            header = replace(header, route=header.route)\n",
        ),
        "a chunk for a lost link is waited for, forever": (
            "        if hop not in self.links:\n            release()\n            return\n",
            "        if hop not in self.links:\n            return\n",
        ),
        "a chunk on an auxiliary path is not confirmed": (
            "            self.links[peer].tell(Delivered(header.route, header.task, *key))\n",
            "            pass\n",
        ),
    },
    "planning/repair.py": {
        "blocks that are hit together do not count for each other's choice": (
            "            loads[block.aggregator] -= size\n",
            "            loads[hub] -= size\n",
        ),
        "blocks that are hit together pile up at one site": (
            "            moved[hub] += size\n",
            "",
        ),
        "a loss in the other direction of a link is not noticed": (
            "    return any(hop in ((a, b), (b, a)) for hop in itertools.pairwise(path))\n",
            "    return any(hop == (a, b) for hop in itertools.pairwise(path))\n",
        ),
        "a link that one of its sites has lost counts as usable": (
            "        if b in self.lost_by(a) or a in self.lost_by(b):\n",
            "        if b in self.lost_by(a) and a in self.lost_by(b):\n",
        ),
        "the old aggregator of a block that moved gets no result": (
            "    receivers = {block.aggregator, *(edge[1]",
            "    receivers = {*(edge[1]",
        ),
        "a block with relays moves as if it were a star": (
            "    return all(len(edge) == 2 and edge[1] == hub for edge in block.in_edges) and all(\n",
            "    return all(edge[-1] == hub for edge in block.in_edges) and all(\n",
        ),
        "a block moves to a site that does not reach the whole group": (
            "not all(overlay.usable(site, hub) for site in others)",
            "not any(overlay.usable(site, hub) for site in others)",
        ),
        "a block does not count as using its relays": (
            "    return site == block.aggregator or any(site in path for path in paths)\n",
            "    return site == block.aggregator or any(site in path[::2] for path in paths)\n",
        ),
    },
    "wire/liveness.py": {
        "a silent peer is never lost": (
            "            link: 0 if link.poll_alive() else self._missed.get(link, 0) + 1 for link in now\n",
            "            link: 0 if link.poll_alive() else 1 for link in now\n",
        ),
        "idle connections carry no heartbeats": (
            "        for link in now:\n            link.beat()\n",
            "",
        ),
        "an agent calls once": (
            "        except (OSError, TimeoutError):\n            await asyncio.sleep(pause_s)\n",
            "        except (OSError, TimeoutError):\n            await asyncio.sleep(1e9)\n",
        ),
    },
    "wire/neighbours.py": {
        "a neighbour that calls again has two connections": (
            '            self.links[peer].lose(ConnectionLostError(f"{peer} calls again"))\n',
            "            pass\n",
        ),
        "a lost neighbour is not called again": (
            "        if peer in self._callees and not self._closed and peer not in self._calls:\n",
            "        if peer in self._callees and self._closed and peer not in self._calls:\n",
        ),
        "a neighbour is called again once only": ("        del self._calls[peer]\n", ""),
        "a neighbour that exits counts as lost": (
            "        if peer in self._departed:\n            return\n",
            "",
        ),
        "the controller does not hear that a link is back at the site that calls": (
            "        del self._calls[peer]\n        self._connect(peer, sock)\n        self._on_found(peer)\n",
            "        del self._calls[peer]\n        self._connect(peer, sock)\n",
        ),
        "neighbours never dial for more than one socket": (
            "        for lane in range(1, self._lanes):\n",
            "        for lane in range(1, 1):\n",
        ),
    },
    "wire/controller_link.py": {
        "workers do not look for the backup": (
            "            for name in self.controllers:\n",
            "            for name in self.controllers[:1]:\n",
        ),
        "a worker does not answer the end of the run": (
            "            self.link.tell(frame)\n            self.on_frame(frame)\n",
            "            self.on_frame(frame)\n",
        ),
        "a worker waits forever for a controller that does not answer": (
            '            self.link.lose(ConnectionLostError(f"{name} does not answer"))\n',
            "            await asyncio.sleep(1e9)\n",
        ),
        "messages to a controller that does not act yet are sent": (
            "        if self.connected and self.link is not None:\n            self.link.tell(message)\n",
            "        if self.link is not None:\n            self.link.tell(message)\n",
        ),
    },
    "distribution/stage_tracker.py": {
        "a base does not wait for the base before": (
            "                if not here:\n                    return None\n",
            "                if not here:\n                    continue\n",
        )
    },
    "site/forward.py": {
        "what was computed with a model that was given up stays": (
            "        if self._step is not None and self._step.task == task:\n            self.cancel()\n",
            "        return\n",
        ),
        "a branch begins before it has arrived": (
            "            start_s = max(step.end_s, stage.arrived_s)\n",
            "            start_s = step.end_s\n",
        ),
        "backward takes no time": (
            "        await self._compute(step, step.end_s, step.tracker.model.backward_s, backward)\n",
            "        backward()\n",
        ),
    },
    "wire/link.py": {
        "frames of several sockets are delivered as they come": (
            "        while not self.closed and self._delivered + 1 in self._early:\n"
            "            self._delivered += 1\n"
            "            self._on_frame(self.peer, self._early.pop(self._delivered))\n",
            "        self._delivered += 1\n"
            "        self._on_frame(self.peer, self._early.pop(number))\n",
        ),
        "only the first of several sockets is used": (
            "        free = next((lane for lane in self._lanes if not lane.is_sending), None)\n",
            "        free = None if self._lanes[0].is_sending else self._lanes[0]\n",
        ),
        "a connection with one broken socket goes on with the others": (
            "        for lane in self._lanes:\n            lane.reset()\n",
            "        if len(self._lanes) > 1:\n            return\n",
        ),
    },
    "events/lifecycle.py": {
        "a worker that found a controller during its task waits on without being ready": (
            "Doing.COMPUTED if self.found_anew else Doing.WAITING",
            "Doing.WAITING",
        ),
        "an agent takes steps that its table does not allow": (
            "        if not taken.is_right:\n",
            "        if taken is None:\n",
        ),
        "a backup takes over while it is in charge": (
            "    BackupTookOver: ((Doing.STANDING_BY,), Doing.IN_CHARGE),\n",
            "    BackupTookOver: ((), Doing.IN_CHARGE),\n",
        ),
    },
}
"""By file: what breaks, what the file says, and what it would say."""

MUTANTS = tuple(
    Mutant(breaks, file, old, new)
    for file, bugs in BUGS.items()
    for breaks, (old, new) in bugs.items()
)
