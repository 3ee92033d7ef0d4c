"""What a new controller learns from reports: running tasks, numbers, losses; in virtual time."""

import asyncio

import pytest
from faults import FOUR, LARGE, bsp, check, kill, part, preduce, restart, run, steps, times, until
from overlays import ladder
from wan import FAILOVER, Wan, mesh

from trunkline.agents.events.causes import Asked, TakenOver
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER


def test_a_backup_takes_over_by_asking_and_hands_over_again():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, backup=True, time_s=14.0, task_s=30.0)
    run(wan, (0.4, kill("controller")), (7.0, restart("controller")))
    assert not [e for e in wan.of("task_dropped") if e["task"] == 0]  # its group was known
    ended = {e["task"]: e["site"] for e in wan.of("task_completed")}
    assert ended[0] == "backup"
    mine = [e for e in wan.of("task_started") if e["site"] == "backup"]
    assert mine
    assert all(e["task"] >= TASKS_PER_CONTROLLER for e in mine)
    assert [e for e in wan.of("task_started") if e["site"] == "controller"][-1]["t_ns"] > 7e9


def test_without_a_backup_the_controller_that_returns_asks_the_workers():
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, time_s=12.0, task_s=30.0)
    run(wan, (0.4, kill("controller")), (4.0, restart("controller")))
    ended = wan.of("task_completed")[0]
    assert ended["task"] == 0
    assert times([ended])[0] < 4.0 + FAILOVER.timeout_s
    numbers = [e["task"] for e in wan.of("task_started")]
    assert len(numbers) == len(set(numbers)) > 1


def test_a_backup_ends_a_task_also_at_the_sites_that_only_help():
    """Sites that pass chunks on are in no group: the backup knows them from their own reports."""
    wan = Wan(ladder(FOUR), "crew", preduce(FOUR, 2), elements=LARGE, backup=True, time_s=12.0)
    helped, kept = set(), []

    def find_tasks(wan):
        return {
            name: worker._executor.running() for name, worker in wan.agents.items() if name in FOUR
        }

    async def scenario(wan):
        await asyncio.sleep(0.5)
        groups = {event["task"]: event["group"] for event in wan.of("task_started")}
        for name, tasks in find_tasks(wan).items():
            helped.update((name, task) for task in tasks if name not in groups[task])
        wan.kill("controller")
        await until(wan, "task_completed", count=4)
        kept.extend((name, task) for name, tasks in find_tasks(wan).items() for task in tasks)

    check(wan, scenario)
    assert helped
    assert not helped.intersection(kept)


@pytest.mark.parametrize("lost", [("s0", "s1", "s3"), ("s0", "s1", "s2", "s3", "backup")])
def test_no_number_is_given_twice_when_all_who_took_part_were_started_again(lost):
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, time_s=32.0)
    terms = [(2.0, kill("controller")), (11.0, restart("controller")), (18.0, kill("controller"))]
    others = [(14.0 + 0.4 * n, do(who)) for n, who in enumerate(lost) for do in (kill, restart)]
    run(wan, (1.8, kill("s2")), *terms[:2], (13.5, restart("s2")), *others, *terms[2:])
    by_backup = times(e for e in wan.of("task_started") if e["site"] == "backup")
    assert by_backup[0] < 11.0
    assert by_backup[-1] > 18.0
    numbers = [e["task"] for e in wan.of("task_started")]
    assert len(numbers) == len(set(numbers))


def test_a_backup_gives_no_number_again_that_only_lost_workers_have_heard_of():
    """s0 and s1 have done its last tasks, and cannot be reached when it acts again."""
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, time_s=25.0)

    def paths(*sites):
        return [(site, name) for site in sites for name in wan.names]

    def mend(*sites):
        for path in paths(*sites):
            wan.mend(*path)

    async def scenario(wan):
        await asyncio.sleep(1.0)
        wan.kill("controller")
        await asyncio.sleep(1.0)
        part(wan, *paths("s2", "s3"))
        await asyncio.sleep(2.0)
        part(wan, *paths("s0", "s1"))
        wan.restart("controller")
        await until(wan, "backup_stood_down")
        mend("s2", "s3")
        await asyncio.sleep(3.0)
        wan.kill("controller")
        await asyncio.sleep(9.0)
        mend("s0", "s1")
        await asyncio.sleep(2.0)
        wan.restart("controller")

    check(wan, scenario)
    first, second = times(wan.of("backup_took_over"))
    by_backup = [e for e in wan.of("task_started") if e["site"] == "backup"]
    assert len([e for e in by_backup if first < e["t_ns"] / 1e9 < second]) > len(FOUR)
    assert [e for e in by_backup if e["t_ns"] / 1e9 > second]


def test_a_backup_counts_the_tasks_of_the_controller_before():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), tasks=10, backup=True)
    wan.run(steps((0.9, kill("controller"))))
    by = [event["site"] for event in wan.of("task_started")]
    assert (by.count("controller"), by.count("backup")) == (8, 2)


def scatter(wan, task):
    """The phases in which a task's contributions were sent."""
    return {e["phase"] for e in wan.of("sent") if e["task"] == task} - {"out"}


@pytest.mark.parametrize("loses_a_link", [False, True])
def test_a_scatter_by_the_default_split_goes_on_while_the_controller_is_down(loses_a_link):
    """Three sites wait for s3. The backup takes their chunks in, unless some may be lost."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, backup=True, early=True, time_s=9.0)
    wan.compute_s = {"s3": 4.0}

    async def scenario(wan):
        await asyncio.sleep(0.3)
        wan.kill("controller")
        if loses_a_link:
            wan.reset("s0", "s1")

    check(wan, scenario)
    started = wan.of("task_started")[0]
    assert started["site"] == "backup"
    assert wan.of("round_alone") == []
    assert scatter(wan, started["task"]) == ({"in", "early"} if loses_a_link else {"early"})


def test_a_site_that_is_alone_refuses_contributions_and_gets_no_more_chunks_of_them():
    """Chunks of s0 take longer over a slow link to s3 than s3 waits for a controller."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, early=True, time_s=30.0)
    wan.compute_s = {"s2": 14.0}
    wan.path("s0", "s3").rate_mbps = 0.04
    chunks = []

    async def scenario(wan):
        def count():
            own = wan.agents["s0"]._executor._own
            chunks.append(sum("s3" in edge for edge in own.edges.values()))

        await asyncio.sleep(0.3)
        wan.cut("s3", "controller")
        await asyncio.sleep(4.0)
        count()
        await asyncio.sleep(6.0)
        count()
        wan.path("s0", "s3").rate_mbps = 1.0
        wan.mend("s3", "controller")

    check(wan, scenario)
    assert chunks[0] > 0
    assert chunks[1] == 0


def test_a_contribution_that_others_have_used_is_not_expected_from_them_again():
    """s2 does not hear of a task that takes its contribution in; the backup gives the task up."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, backup=True, early=True, time_s=9.0)
    wan.compute_s = {"s3": 0.4}

    async def scenario(wan):
        await asyncio.sleep(0.35)
        wan.path("s2", "controller").block(1)
        await until(wan, "task_joined", 3)
        wan.reset("s2", "controller")
        wan.kill("controller")

    check(wan, scenario)
    assert [event["task"] for event in wan.of("task_abandoned")] == [0]
    assert {event["site"] for event in wan.of("task_joined") if event["task"] == 0} == {
        "s0",
        "s1",
        "s3",
    }
    assert times(wan.of("task_completed"))[0] < 3.0


def test_a_site_that_gets_ready_without_a_controller_sends_early_by_the_default_split():
    """s3 computes until after the controller is lost; the one that comes back takes it in."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, early=True, time_s=20.0)
    wan.compute_s = {"s3": 2.0}
    held = []

    async def scenario(wan):
        await asyncio.sleep(0.3)
        wan.kill("controller")
        await until(wan, "ready", 4)
        assert not wan.agents["s3"]._controller.connected
        await asyncio.sleep(1.0)
        held.append({FOUR[source] for source, _ in wan.agents["s0"]._executor._offers.held})
        wan.restart("controller")

    check(wan, scenario)
    assert "s3" in held[0]
    assert not [event for event in wan.of("round_alone") if event["iteration"] == 0]
    first = {event["task"] for event in wan.of("task_completed")}
    early = [e for e in wan.of("sent") if e["phase"] == "early" and e["site"] == "s3"]
    assert min(event["task"] for event in early) == min(first)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_new_controller_takes_in_no_offers_if_it_lost_a_worker_before_it_decides(is_lost):
    """The worker may have been started again, without the chunks that others have sent it."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, early=True, time_s=20.0)
    wan.compute_s = {"s3": 2.0}

    async def scenario(wan):
        await asyncio.sleep(0.3)
        wan.kill("controller")
        await until(wan, "ready", 4)
        await asyncio.sleep(1.0)
        wan.cut("s3", "controller")
        wan.restart("controller")
        await until(wan, "controller_found", 3)
        await asyncio.sleep(0.05)  # their reports arrive
        if is_lost:
            part(wan, ("s1", "controller"))
            await until(wan, "worker_lost")
            wan.mend("s1", "controller")
            await until(wan, "worker_found")
        wan.mend("s3", "controller")

    check(wan, scenario)
    assert wan.of("task_started")[0]["group"] == [*FOUR]
    first = min(event["task"] for event in wan.of("task_completed"))
    early = [e for e in wan.of("sent") if e["phase"] == "early" and e["task"] == first]
    assert bool(early) != is_lost


def test_sites_that_wait_with_a_default_split_go_on_alone_if_no_controller_answers():
    """s3 gets ready when the controller is lost already, and waits no longer than the others."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, early=True, time_s=30.0)
    wan.compute_s = {"s3": 2.0}
    held = []

    def count_held(wan):
        return sum(len(wan.agents[site]._executor._offers.held) for site in FOUR)

    async def scenario(wan):
        await asyncio.sleep(0.3)
        wan.kill("controller")
        await asyncio.sleep(1.0)
        held.append(count_held(wan))
        await asyncio.sleep(14.0)
        held.append(count_held(wan))
        wan.restart("controller")

    check(wan, scenario)
    assert held[0] > 0 and held[1] == 0
    lost_s = max(times(wan.of("controller_lost")))
    waited = [e for e in wan.of("round_alone") if e["iteration"] == 0]
    assert sorted(event["site"] for event in waited) == list(FOUR)
    for alone_s in times(waited):
        assert alone_s == pytest.approx(lost_s + FAILOVER.patience_s, abs=0.1)


@pytest.mark.parametrize("mended", [False, True])
def test_after_a_loss_contributions_are_sent_early_by_the_new_default_split(mended):
    """By an old one, the chunks for the far end of the lost link would set out with the task."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, early=True, time_s=16.0)

    async def scenario(wan):
        await asyncio.sleep(0.5)
        wan.cut("s0", "s1")
        await asyncio.sleep(7.0)
        if mended:
            wan.mend("s0", "s1")

    check(wan, scenario)
    last = wan.of("task_completed")[-1]["task"]
    early = [e for e in wan.of("sent") if e["task"] == last and e["phase"] == "early"]
    assert "in" not in scatter(wan, last)
    assert (("s0", "s1") in {(e["site"], e["dst"]) for e in early}) == mended


def test_a_task_that_is_finished_is_not_given_up_when_its_budget_ends_without_a_controller():
    """The sites of a task hear of no end; the controller that comes back completes it."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), elements=LARGE, time_s=20.0, task_s=3.0)

    async def scenario(wan):
        await until(wan, "contributed", 4)
        wan.kill("controller")
        await until(wan, "task_finished", 4)
        await asyncio.sleep(6.0)
        wan.restart("controller")

    check(wan, scenario)
    assert wan.of("task_dropped") == []
    assert 0 in {e["task"] for e in wan.of("task_completed")}


def test_members_that_are_halted_when_they_lose_the_controller_give_up_at_once():
    """They have promised not to finish, and no agent is left to plan their task anew."""
    wan = Wan(ladder(FOUR), "ring", bsp(FOUR), elements=LARGE, time_s=12.0)

    async def scenario(wan):
        await asyncio.sleep(0.5)
        part(wan, ("s0", "s1"))
        await until(wan, "task_halted")
        await asyncio.sleep(0.015)
        wan.kill("controller")
        await asyncio.sleep(5.0)
        wan.heal()

    check(wan, scenario)
    lost = times(wan.of("controller_lost"))[-1]
    dropped = [event for event in wan.of("task_dropped") if event["task"] == 0]
    assert sorted(event["site"] for event in dropped) == list(FOUR)
    assert max(times(dropped)) < lost + 0.1


def test_members_whose_task_was_planned_anew_finish_it_without_the_controller():
    wan = Wan(ladder(FOUR), "ring", bsp(FOUR), elements=LARGE, time_s=12.0)

    async def scenario(wan):
        await asyncio.sleep(0.5)
        wan.reset("s0", "s1")
        await until(wan, "task_replanned")
        await asyncio.sleep(0.1)
        wan.kill("controller")
        await asyncio.sleep(6.0)
        wan.restart("controller")

    wan.run(scenario)
    finished = [event for event in wan.of("task_finished") if event["task"] == 0]
    assert sorted(event["site"] for event in finished) == list(FOUR)


def test_a_member_that_gives_up_without_a_controller_takes_the_others_along():
    """s0 and s1 lose each other; s2 and s3 have lost nothing but the controller."""
    wan = Wan(ladder(FOUR), "ring", bsp(FOUR), elements=LARGE, time_s=12.0)

    async def scenario(wan):
        await asyncio.sleep(0.4)
        wan.kill("controller")
        await asyncio.sleep(0.1)
        part(wan, ("s0", "s1"))
        await asyncio.sleep(6.0)
        wan.heal()

    check(wan, scenario)
    dropped = [event for event in wan.of("task_dropped") if event["task"] == 0]
    assert sorted(event["site"] for event in dropped) == list(FOUR)
    assert max(times(dropped)) < 0.6


def test_a_member_that_lost_a_link_just_before_the_controller_waits_for_a_repair_only_so_long():
    """s0 and s1 lose each other, and the controller that would repair the task is gone."""
    wan = Wan(ladder(FOUR), "ring", bsp(FOUR), elements=LARGE, time_s=20.0, task_s=60.0)

    async def scenario(wan):
        await asyncio.sleep(0.4)
        part(wan, ("s0", "s1"))
        wan.kill("controller")
        await asyncio.sleep(12.0)
        wan.heal()

    check(wan, scenario)
    dropped = [event for event in wan.of("task_dropped") if event["task"] == 0]
    assert sorted(event["site"] for event in dropped) == list(FOUR)
    assert "no repair came in time" in {event["reason"] for event in dropped}
    assert 0.4 + FAILOVER.patience_s < max(times(dropped)) < 0.9 + FAILOVER.patience_s


def test_a_backup_acts_although_it_never_reached_the_first_controller():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, time_s=12.0)
    run(wan, (0.001, kill("controller")), (9.0, restart("controller")))
    (took_over,) = times(wan.of("backup_took_over"))
    assert took_over <= FAILOVER.patience_s + 0.1
    assert [event for event in wan.of("task_completed") if event["site"] == "backup"]


def test_a_backup_that_was_asked_to_stop_while_it_stood_by_begins_nothing_when_it_acts():
    wan = Wan(mesh(FOUR), "crew", preduce(FOUR, 2), backup=True, time_s=8.0)
    run(wan, (1.0, lambda wan: wan.agents["backup"].stop(Asked())), (1.1, kill("controller")))
    stopping = wan.of("stopping")[0]
    assert (stopping["site"], stopping["reason"]) == ("backup", str(Asked()))
    assert {event["site"] for event in wan.of("task_started")} == {"controller"}


@pytest.mark.parametrize("is_back", [False, True])
def test_a_new_controller_repairs_a_task_whose_helpers_lost_a_link(is_back):
    """They report before any member does; then the link may be back, but its chunks are lost."""
    six = (*FOUR, "s4", "s5")
    wan = Wan(ladder(six), "fapt", preduce(six, 2), elements=20_000, rounds=1, task_s=30.0)
    wan.compute_s = dict.fromkeys(("s0", "s2", "s3", "s5"), 20.0)
    members = ("s1", "s4")

    async def scenario(wan):
        await until(wan, "contributed", 2)
        await asyncio.sleep(0.3)
        wan.reset("s0", "s3") if is_back else part(wan, ("s0", "s3"))
        wan.kill("controller")
        await asyncio.sleep(2.0)
        for site in members:
            wan.cut(site, "controller")
        wan.restart("controller")
        await until(wan, "controller_found", len(six) - len(members))
        for site in members:
            wan.mend(site, "controller")
        await asyncio.sleep(8.0)
        wan.mend("s0", "s3")

    check(wan, scenario)
    assert tuple(wan.of("task_started")[0]["group"]) == members
    assert times(wan.of("task_completed"))[0] < 6.0


def test_a_new_controller_ends_a_task_that_all_members_gave_up_after_their_reports():
    """While it waits for s4, they lose it, and then each other; they come back without the task."""
    five = (*FOUR, "s4")
    wan = Wan(mesh(five), "crew", preduce(five, 4), elements=LARGE, time_s=12.0, task_s=30.0)
    wan.compute_s = {"s4": 20.0}

    async def scenario(wan):
        await until(wan, "contributed", len(FOUR))
        await asyncio.sleep(0.2)
        wan.kill("controller")
        wan.cut("s4", "controller")
        wan.restart("controller")
        await until(wan, "controller_found", len(FOUR))
        await asyncio.sleep(0.05)  # their reports arrive
        part(wan, *((site, "controller") for site in FOUR))
        await until(wan, "worker_lost", len(FOUR))
        wan.reset("s0", "s1")
        wan.reset("s2", "s3")
        await until(wan, "task_dropped", len(FOUR))
        await asyncio.sleep(0.1)  # the two links are back
        for site in five:
            wan.mend(site, "controller")

    check(wan, scenario)
    assert tuple(wan.of("task_started")[0]["group"]) == FOUR
    (halted,) = (event for event in wan.of("task_halted") if event["task"] == 0)
    assert (halted["reason"], halted["members"]) == (str(TakenOver()), [])
    assert [event for event in wan.of("task_abandoned") if event["task"] == 0]
