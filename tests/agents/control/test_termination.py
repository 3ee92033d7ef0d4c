"""When a controller ends the run."""

import asyncio

from trunkline.agents.control.termination import Termination
from trunkline.agents.events.causes import Ending, RoundsDone
from trunkline.agents.wire.agent_settings import ControllerSettings

SITES = ("a", "b")
SETTINGS = ControllerSettings(
    sites=SITES,
    rates_mbps={},
    delays_ms={},
    model_bytes=4,
    chunk_bytes=4,
    seed=1,
    policy_name="ps",
    plan_name="ps",
    task_s=10.0,
)


def test_the_run_ends_only_when_no_task_is_running() -> None:
    """A push may still be under way when the last worker has done its rounds."""

    async def finish() -> None:
        running, said = {1}, []
        ending = Termination(SETTINGS, {*SITES}, lambda: bool(running), said.append)
        ending.begin()
        for site in SITES:
            ending.mark_done(site)
        ending.check()
        assert ending.is_open and not said
        running.clear()
        ending.check()
        assert not ending.is_open
        assert said == [RoundsDone(within_reach=False, excluded=False)]

    asyncio.run(finish())


def test_the_end_names_sites_that_were_excluded() -> None:
    async def finish() -> None:
        said: list[Ending] = []
        ending = Termination(SETTINGS, {*SITES}, lambda: False, said.append)
        ending.begin()
        ending.exclude()
        for site in SITES:
            ending.mark_done(site)
        ending.check()
        assert said == [RoundsDone(within_reach=False, excluded=True)]

    asyncio.run(finish())
