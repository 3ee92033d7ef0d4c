"""Faults for whole runs in one process (`wan`), and runs with faults whose checks must pass."""

import asyncio

from trunkline.agents import registry

FOUR = ("s0", "s1", "s2", "s3")
LARGE = 40_000
"""Elements of a model that takes about a second to synchronize."""


def preduce(sites, p):
    return registry.policies()["preduce"].create(sites, p=p)


def bsp(sites, *, barrier=True):
    return registry.policies()["bsp"].create(sites, barrier=barrier)


def steps(*todo):
    """A scenario: (time in s, what to do with the wan), in order."""

    async def scenario(wan):
        for at_s, do in todo:
            await asyncio.sleep(at_s - asyncio.get_running_loop().time())
            do(wan)

    return scenario


def run(wan, *todo):
    """Run with these faults; the checks must pass."""
    return check(wan, steps(*todo))


def check(wan, scenario):
    """Run with this scenario; the checks must pass, and no agent sends what another refuses."""
    wan.run(scenario)
    verdict = wan.verdict()
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    assert not [event for event in wan.events if "sent garbage" in event.get("reason", "")]
    return wan


async def until(wan, kind, count=1):
    """Wait until so many events of a kind are logged."""
    while len(wan.of(kind)) < count:
        await asyncio.sleep(0.001)


def part(wan, *pairs):
    """Cut the paths between these agents, whose connections break."""
    for a, b in pairs:
        wan.cut(a, b)
        wan.reset(a, b)


def cut(a, b):
    return lambda wan: wan.cut(a, b)


def mend(a, b):
    return lambda wan: wan.mend(a, b)


def kill(name):
    return lambda wan: wan.kill(name)


def restart(name):
    return lambda wan: wan.restart(name)


def times(events):
    return [event["t_ns"] / 1e9 for event in events]
