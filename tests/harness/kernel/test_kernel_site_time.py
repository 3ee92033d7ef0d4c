"""Computing and empty polls take virtual time at sites that say so, and nowhere else."""

import ctypes
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from trunkline.harness.session import site_accounts
from trunkline.workloads.site_time import SiteTime

STEPS = 1_000_000
"""Of a loop that takes some ten milliseconds."""

POLL_S = 100e-6
NEW_PROCESSES = 0x20000000


def in_process(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child


def seconds(*acts: Callable[[], None]) -> float:
    """The virtual time that these take at once."""
    begin_s = time.monotonic()
    for child in [in_process(act) for act in acts]:
        os.waitpid(child, 0)
    return time.monotonic() - begin_s


def compute() -> None:
    for _ in range(STEPS):
        pass


def at(site: str, given: SiteTime, processes: int = 1) -> Callable[[], None]:
    def act() -> None:
        site_accounts.join(site, given)
        seconds(*[compute] * processes)

    return act


def in_namespace(act: Callable[[], None]) -> Callable[[], None]:
    """The same with process numbers that begin at 1, as the programs of each site have them."""

    def enter_and_act() -> None:
        if ctypes.CDLL(None).unshare(NEW_PROCESSES) == 0:
            os.waitpid(in_process(act), 0)

    return enter_and_act


def poll_until_it_comes(empty: Callable[[socket.socket], bool]) -> tuple[int, float]:
    """How many polls are empty while nothing comes for 50 ms, and how long that takes."""
    near, far = socket.socketpair()
    polls, begin_s = 0, time.monotonic()

    def send() -> None:
        time.sleep(0.05)
        far.send(b"x")

    child = in_process(send)
    while empty(near):
        polls += 1
    took_s = time.monotonic() - begin_s
    os.waitpid(child, 0)
    return polls, took_s


def is_empty_now(near: socket.socket) -> bool:
    try:
        near.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    return False


def yields(near: socket.socket) -> bool:
    os.sched_yield()
    return select.select([near], [], [], 0) == ([], [], [])


POLLS: dict[str, Callable[[socket.socket], bool]] = {
    "select": lambda near: select.select([near], [], [], 0) == ([], [], []),
    "recv": is_empty_now,
    "sched_yield": yields,
}


def poll_by_poll(near: socket.socket) -> bool:
    watched = select.poll()
    watched.register(near, select.POLLIN)
    return not watched.poll(0)


def poll_by_epoll(near: socket.socket) -> bool:
    with select.epoll() as watched:
        watched.register(near, select.EPOLLIN)
        return not watched.poll(0)


POLLS |= {"poll": poll_by_poll, "epoll": poll_by_epoll}


def poll_until_it_is_gone() -> tuple[int, float]:
    """How many polls find a byte that is read after 50 ms, and how long that takes."""
    near, far = socket.socketpair()
    far.send(b"x")
    polls, begin_s = 0, time.monotonic()

    def read() -> None:
        time.sleep(0.05)
        near.recv(1)

    child = in_process(read)
    with select.epoll() as watched:
        watched.register(near, select.EPOLLIN)
        while watched.poll(0):
            polls += 1
    took_s = time.monotonic() - begin_s
    os.waitpid(child, 0)
    return polls, took_s


def poll_and_read() -> tuple[int, float]:
    """As often, with a call in between that reads: each poll finds another byte."""
    near, far = socket.socketpair()
    far.send(bytes(int(0.05 / POLL_S)))
    polls, begin_s = 0, time.monotonic()
    with select.epoll() as watched:
        watched.register(near, select.EPOLLIN)
        while watched.poll(0):
            near.recv(1)
            polls += 1
    return polls, time.monotonic() - begin_s


FINDING = {"unread": poll_until_it_is_gone, "read": poll_and_read}


def inside() -> dict[str, Any]:
    """All of this file's measurements, in one guest."""
    one = SiteTime(factor=1.0)
    found: dict[str, Any] = {"free": seconds(compute)}
    found["alone"] = seconds(at("alone", one))
    found["together"] = seconds(*(at(f"together{n}", one) for n in range(3)))
    found["on one core"] = seconds(at("one", one, processes=3))
    found["on three cores"] = seconds(at("three", SiteTime(factor=1.0, cores=3), processes=3))
    found["at half"] = seconds(at("half", SiteTime(factor=0.5)))
    record, replay = (SiteTime(factor=1.0, mode=mode) for mode in ("record", "replay"))
    found["recorded"] = seconds(in_namespace(at("again", record)))
    site_accounts.replay_charges(site_accounts.CHARGES.read_text().splitlines())
    found["replayed"] = [seconds(in_namespace(at("again", replay))) for _ in range(2)]
    found["totals"] = {
        each.site: (each.measured_ns, each.charged_ns, each.queued_ns, each.charges)
        for each in site_accounts.read_totals()
    }
    for name, empty in POLLS.items():
        found[name] = in_site(
            SiteTime(poll_s=POLL_S, polls=1), lambda e=empty: poll_until_it_comes(e)
        )
    for name, act in FINDING.items():
        found[name] = in_site(SiteTime(poll_s=POLL_S, polls=1), act)
    found["later"] = in_site(
        SiteTime(poll_s=POLL_S, polls=1000), lambda: poll_until_it_comes(POLLS["select"])
    )
    return found


def in_site(given: SiteTime, act: Callable[[], Any]) -> Any:
    reader, writer = os.pipe()

    def join_and_act() -> None:
        site_accounts.join("polling", given)
        os.write(writer, repr(act()).encode())

    os.waitpid(in_process(join_and_act), 0)
    return eval(os.read(reader, 1000))


@pytest.fixture(scope="module")
def found(embedded) -> dict[str, Any]:
    return embedded.call(inside, parameters=["slice_us=5000"])


def test_computing_is_free_without_a_site(found: dict[str, Any]) -> None:
    assert found["free"] < 1e-3


def test_computing_without_system_calls_is_charged(found: dict[str, Any]) -> None:
    measured_ns, charged_ns, queued_ns, charges = found["totals"]["alone"]
    assert charges > 1
    assert charged_ns == measured_ns
    assert queued_ns < charged_ns / 10
    assert found["alone"] == pytest.approx(charged_ns / 1e9, abs=1e-3)


def test_sites_compute_at_once(found: dict[str, Any]) -> None:
    each_s = [found["totals"][f"together{n}"][1] / 1e9 for n in range(3)]
    assert found["together"] == pytest.approx(max(each_s), abs=1e-3)


def test_processes_of_a_site_share_its_cores(found: dict[str, Any]) -> None:
    _, charged_ns, queued_ns, _ = found["totals"]["one"]
    assert found["on one core"] == pytest.approx(charged_ns / 1e9, abs=2e-3)
    assert queued_ns > charged_ns / 2
    _, charged_ns, queued_ns, _ = found["totals"]["three"]
    assert found["on three cores"] < 0.8 * charged_ns / 1e9


def test_a_factor_scales_the_charge(found: dict[str, Any]) -> None:
    measured_ns, charged_ns, _, charges = found["totals"]["half"]
    assert charged_ns == pytest.approx(measured_ns / 2, abs=charges)
    assert found["at half"] == pytest.approx(charged_ns / 1e9, abs=1e-3)


def test_recorded_charges_are_used_again_to_the_nanosecond(found: dict[str, Any]) -> None:
    first_s, second_s = found["replayed"]
    assert first_s == pytest.approx(second_s, abs=1e-9)
    assert first_s == pytest.approx(found["recorded"], abs=1e-3)


@pytest.mark.parametrize("name", [*POLLS])
def test_an_empty_poll_takes_its_time(name: str, found: dict[str, Any]) -> None:
    polls, took_s = found[name]
    per_try = 2 if name == "sched_yield" else 1
    assert took_s == pytest.approx(0.05, rel=0.02)
    assert polls * per_try == pytest.approx(0.05 / POLL_S, rel=0.05)


def test_a_poll_that_finds_again_what_nobody_has_read_takes_its_time(found: dict[str, Any]) -> None:
    polls, took_s = found["unread"]
    assert took_s == pytest.approx(0.05, rel=0.02)
    assert polls == pytest.approx(0.05 / POLL_S, rel=0.05)
    polls, took_s = found["read"]
    assert polls == 0.05 / POLL_S
    assert took_s < 1e-3


def test_the_first_polls_in_a_row_are_free(found: dict[str, Any]) -> None:
    polls, _ = found["later"]
    assert polls == pytest.approx(1000 + 0.05 / POLL_S, rel=0.05)
