"""The controller's supervision of tasks whose receivers are servers."""

import asyncio
from dataclasses import replace

from trunkline.agents.control.participants import Participants
from trunkline.agents.control.tasks import Tasks
from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.repair import UsableOverlay
from trunkline.agents.policies.policy import Start
from trunkline.agents.site.plan_cache import PlanCaches
from trunkline.agents.wire.messages import TaskState

SITES, SERVERS = ("a", "b", "c"), ("b", "c")
RATES = {(x, y): 1.0 for x in SITES for y in SITES if x != y}
PUSH = Start(
    SITES, {"a": 1.0}, 1.0, receivers=SERVERS, passive=frozenset(SERVERS), keep=1.0, then="wait"
)


def make_tasks(log: list[tuple[str, tuple, dict]]) -> Tasks:
    def build(start: Start, task: int) -> Plan:
        (server,) = start.takers
        block = Block(((1, 2),), server, (("a", server),), ())
        return Plan(("a",), (server,), 2, (block,), {"b": ((0, 1),), "c": ((1, 2),)})

    rates = PlanRates(RATES)
    return Tasks(
        overlay=UsableOverlay(rates, set(SITES)),
        cut=cut_model(8, 4),
        task_s=10.0,
        replans=1,
        build=build,
        detours=lambda block: (),
        participants=Participants(SERVERS, PlanCaches(rates), lambda site, message: None),
        log=lambda kind, *values, **named: log.append((kind.__name__, values, named)),
        ended=lambda task, running, completed: None,
    )


def test_a_server_gives_its_part_of_an_adopted_result_to_no_other_server() -> None:
    """The task is another controller's, so its plan is not known; b has finished, c has not."""

    async def adopt() -> list[tuple[str, tuple, dict]]:
        log: list[tuple[str, tuple, dict]] = []
        tasks = make_tasks(log)
        state = TaskState(7, PUSH.group, PUSH.weights, PUSH.scale, 1, False, 5.0, PUSH.roles)
        for site in SITES:
            tasks.adopt(replace(state, finished=site == "b"), site, 0)
        tasks.begin_to_decide()
        tasks.on_link_lost("a", "c")
        tasks.on_halted("c", 7, False)
        tasks.close()
        return log

    log = asyncio.run(adopt())
    assert [kind for kind, _, _ in log] == ["TaskHalted", "TaskReplanned"]
    _, first, holder, forest, _ = log[1][1]
    assert first > 1
    assert holder is None
    assert forest["contributors"] == ["a"]
    assert forest["receivers"] == ["c"]


def test_blocks_that_are_hit_together_count_for_each_others_choice() -> None:
    """CREW, (3). Each block has 40 bytes, and a and b aggregate 40 bytes each.

    First block: c: max(80/8, 80/8) = 10, d: max(80/5, 80/20, 40/20) = 16. It moves from a to c, so
    that a has 0 bytes left. Second block: c: max(40/8, 80/8) = 10, d: max(40/5, 80/20, 80/20) = 8.
    """
    group = ("a", "b", "c")
    rates_mbps = {(x, y): 8.0 for x in "abcd" for y in "abcd" if x != y}
    for site, rate_mbps in (("a", 5.0), ("b", 20.0), ("c", 20.0)):
        rates_mbps[site, "d"] = rates_mbps["d", site] = rate_mbps

    def aggregate(chunks: tuple[int, int], hub: str) -> Block:
        others = [site for site in group if site != hub]
        inward, outward = ((site, hub) for site in others), ((hub, site) for site in others)
        return Block((chunks,), hub, tuple(inward), tuple(outward))

    async def lose() -> list[str]:
        log: list[tuple[str, tuple, dict]] = []
        rates = PlanRates(rates_mbps)
        tasks = replace(
            make_tasks(log),
            overlay=UsableOverlay(rates, set("abcd")),
            cut=cut_model(80, 4),
            participants=Participants((), PlanCaches(rates), lambda site, message: None),
        )
        plan = Plan(group, group, 20, (aggregate((0, 10), "a"), aggregate((10, 20), "b")))
        tasks.start(0, Start(group, dict.fromkeys(group, 1.0), 1 / 3), plan, {}, ())
        tasks.begin_to_decide()
        tasks.overlay.lost["a"] = frozenset("b")
        tasks.on_link_lost("a", "b")
        tasks.close()
        (forest,) = (values[3] for kind, values, _ in log if kind == "TaskRearranged")
        return [block["aggregator"] for block in forest["blocks"]]

    assert asyncio.run(lose()) == ["c", "d"]


def test_controllers_that_take_over_one_after_the_other_use_other_block_numbers() -> None:
    """The second one hears only from members that do not know the blocks of the first one."""

    async def adopt(now_ns: int) -> int:
        log: list[tuple[str, tuple, dict]] = []
        tasks = make_tasks(log)
        state = TaskState(7, PUSH.group, PUSH.weights, PUSH.scale, 5, False, 5.0, PUSH.roles)
        for site in SITES:
            tasks.adopt(replace(state, finished=site == "b"), site, now_ns)
        tasks.begin_to_decide()
        tasks.on_link_lost("a", "c")
        tasks.on_halted("c", 7, False)
        tasks.close()
        return next(values[1] for kind, values, _ in log if kind == "TaskReplanned")

    first, second = (asyncio.run(adopt(now_ns)) for now_ns in (3 * 10**9, 4 * 10**9))
    assert first > 5 and first + 1000 < second


ALIKE = Start(SITES, dict.fromkeys(SITES, 1.0), 1.0)


def make_tasks_without_servers(
    log: list[tuple[str, tuple, dict]], told: list[tuple[str, str]]
) -> Tasks:
    def build(start: Start, task: int) -> Plan:
        sides = tuple((site, "a") for site in "bc"), tuple(("a", site) for site in "bc")
        return Plan(SITES, SITES, 2, (Block(((0, 2),), "a", *sides),))

    def tell(site: str, message: object) -> None:
        told.append((site, type(message).__name__))

    tasks = make_tasks(log)
    participants = replace(tasks.participants, servers=(), tell=tell)
    return replace(tasks, participants=participants, build=build)


def test_a_halt_is_told_to_all_sites_that_are_present() -> None:
    """Also to one that takes no part: it may forward chunks of the task."""

    async def halt() -> list[tuple[str, str]]:
        told: list[tuple[str, str]] = []
        tasks = make_tasks_without_servers([], told)
        tasks.begin_to_decide()
        pair = Start(("a", "b"), dict.fromkeys("ab", 1.0), 1.0)
        block = Block(((0, 2),), "a", (("b", "a"),), (("a", "b"),))
        tasks.start(0, pair, Plan(("a", "b"), ("a", "b"), 2, (block,)), {}, ())
        tasks.on_refused("b", 0)
        tasks.close()
        return told

    assert {site for site, kind in asyncio.run(halt()) if kind == "Halt"} == {"a", "b", "c"}


def test_a_member_that_comes_back_during_a_halt_is_awaited() -> None:
    async def come_back() -> tuple[list[str], list[str]]:
        log: list[tuple[str, tuple, dict]] = []
        told: list[tuple[str, str]] = []
        tasks = make_tasks_without_servers(log, told)
        tasks.begin_to_decide()
        tasks.start(0, ALIKE, tasks.build(ALIKE, 0), {}, ())
        tasks.overlay.present.discard("c")
        tasks.on_site_lost("c")
        tasks.overlay.present.add("c")
        state = TaskState(0, SITES, dict(ALIKE.weights), 1.0, 1, False, 5.0)
        assert tasks.on_rejoined("c", state)
        for site in "ab":
            tasks.on_halted(site, 0, False)
        before = [kind for kind, _, _ in log]
        tasks.on_halted("c", 0, True)
        tasks.close()
        return before, [kind for kind, _, _ in log]

    before, after = asyncio.run(come_back())
    assert before == ["TaskHalted"]
    assert after == ["TaskHalted", "TaskReplanned"]


def test_a_task_is_not_ended_before_all_members_can_have_reported_it() -> None:
    """Its budget is spent twice before the new controller has heard of c, which has finished it."""

    async def take_over() -> tuple[list[str], list[str]]:
        log: list[tuple[str, tuple, dict]] = []
        tasks = replace(make_tasks_without_servers(log, []), task_s=0.05)
        state = TaskState(7, SITES, dict(ALIKE.weights), 1.0, 1, False, 0.01)
        for site in "ab":
            tasks.adopt(state, site, 0)
        await asyncio.sleep(1.2)
        before = [kind for kind, _, _ in log]
        tasks.adopt(replace(state, finished=True), "c", 0)
        tasks.begin_to_decide()
        for site in "ab":
            tasks.on_halted(site, 7, False)
        tasks.close()
        return before, [kind for kind, _, _ in log]

    before, after = asyncio.run(take_over())
    assert before == []
    assert after == ["TaskHalted", "TaskReplanned"]
