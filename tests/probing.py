"""Datagrams over the links of a network in this kernel, all from one process."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from trunkline.harness.measure.datagrams import Receiver, Sender
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.processes.start_time import wait_for_start

PORT = 6000
QUIET_S = 3.0
"""Of virtual time: longer than anything is under way."""


@contextlib.contextmanager
def sender(network: MininetNetwork, src: str, dst: str, size: int) -> Iterator[Sender]:
    """Sends datagrams with `size` bytes of payload over the link."""
    with _inside(network, src):
        made = Sender((network.address(dst), PORT), network.device(src, dst), 0, size)
    with contextlib.closing(made):
        yield made


@contextlib.contextmanager
def receiver(network: MininetNetwork, site: str) -> Iterator[Receiver]:
    """Takes all datagrams that arrive at the site."""
    with _inside(network, site):
        made = Receiver((network.address(site), PORT))
    with contextlib.closing(made):
        yield made


def datagrams(
    network: MininetNetwork,
    src: str,
    dst: str,
    count: int,
    *,
    size: int = 64,
    period_s: float = 0.0,
    before: Mapping[int, Callable[[], object]] = {},
) -> list[tuple[int, int]]:
    """Sends numbered datagrams, all at once or one every period; (number, one-way ns) of arrivals.

    `before` has what to do just before datagrams of these numbers are sent.
    """
    with sender(network, src, dst, size) as out, receiver(network, dst) as into:
        wait_for_start()  # the guest's beats, which move the clock, come at the same times after it
        if not period_s:
            out.send(0, count)
        else:
            start_ns = time.time_ns()
            for number in range(count):
                wait_until(start_ns + round(number * period_s * 1e9))
                before.get(number, lambda: None)()
                out.send(number, 1)
        time.sleep(QUIET_S)
        return [(number, came - left) for _, number, left, came in into.drain().tolist()]


def wait_until(at_ns: int) -> None:
    """Sleeps until this time of `time.time_ns`."""
    time.sleep(max(0, at_ns - time.time_ns()) / 1e9)


def _inside(network: MininetNetwork, site: str) -> contextlib.AbstractContextManager[None]:
    assert network.mininet is not None
    namespace: contextlib.AbstractContextManager[None] = network.mininet[site].namespace.inside()
    return namespace
