"""The same topologies in stock Mininet: `mn --custom topologies/star.py --topo star,5`.

Every site and router becomes a Mininet host with direct links to other hosts. Mininet's `TCLink`
shapes each direction at its sender, with or without `--link tc`. Mininet is imported only when `mn`
asks for a topology. A host has one address on all of its interfaces, forwards packets, and sets its
routes itself, also when `link a b up` brings an interface back. So `pingall`, `iperf` and `link a b
down` work for every builder. The routes are those of `Topology.next_hops`; they stay as they are
while a link is down. Stock Mininet has these limits:

- `iperf` of Mininet 2.3 waits forever for the server of iperf 2.1, which does not report the empty
  connection by which Mininet sees that it listens (github.com/mininet/mininet/issues/1060).
  Here, hosts send 100 bytes over that connection.
- From about 16 Mbit/s on, it reports HTB's warning about its quantum as an error; it is harmless.
- After any exception, also after a mistyped parameter, it cleans up as `mn -c` does.
"""

from __future__ import annotations

import functools
import inspect
import ipaddress
import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from trunkline.topologies.links import (
    PACKET_BYTES,
    Link,
    TopologyError,
    describe_impairments,
)
from trunkline.topologies.model import Topology

MAX_RATE_MBPS = 1000.0
"""`TCIntf.bwParamMax`: stock Mininet leaves a faster link unshaped and only prints a line."""

_MAX_INTERFACE_NAME = 15

_LINE_COMMANDS = 40
"""A shell of Mininet reads lines of up to 4096 characters."""

_PROBE = re.compile(r"echo A \| telnet -e A (\S+) (\d+)")
"""The command by which `mininet.util.waitListening` finds out whether a program listens."""


def mininet_topo(build: Callable[..., Topology]) -> Callable[..., Any]:
    """Wrap `build` for the `topos` of its file: command-line parameters in, a Mininet Topo out.

    `--topo NAME,A,B,key=C` gives A and B to the first options of `build` and C to the option
    `key`. Names and units are those of Python (`rates_mbps=50`). `seed=7` is the seed of random
    values (by default 1). `+` separates the elements of a list: `rates_mbps=20+155`,
    `sites=aws:eu-west-1+gcp:us-west1`.
    """
    parameters = inspect.signature(build).parameters.values()
    names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    names = [name for name in names if name != "read"]  # by default relative to the working folder

    def topo(*values: Any, seed: int = 1, **options: Any) -> Any:
        if len(values) > len(names):
            raise TopologyError(f"{len(values)} parameters: at most {len(names)} are allowed")
        given = dict(zip(names, values, strict=False))
        for name in options:
            if name not in names or name in given:
                allowed = ", ".join([*names, "seed"])
                raise TopologyError(f"parameter {name!r}: expected one of {allowed}, each once")
        given |= options
        rng = random.Random(seed)
        return to_topo(build(rng, **{name: _split_list(value) for name, value in given.items()}))

    return topo


def read_here(name: str) -> str:
    """Read a text file relative to the working folder, for stock Mininet."""
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as reason:
        raise TopologyError(f"{name}: cannot read: {reason}") from None


def to_topo(topology: Topology) -> Any:
    """Convert to a stock `mininet.topo.Topo`. Needs Mininet, but no root.

    Raises:
        TopologyError: a link is faster than stock Mininet can shape.
    """
    topo = import_module("mininet.topo").Topo()
    tc_link = import_module("mininet.link").TCLink
    host, interface = _make_classes()
    ports = dict.fromkeys(topology.node_names, 0)
    ends: dict[str, dict[str, str]] = {name: {} for name in topology.node_names}
    for name in topology.node_names:
        address = _address(topology, name)
        topo.addHost(name, cls=host, ip=f"{address}/32", routes=_Routes(topology, name, ends[name]))
    for link in topology.links:
        if topology.rank(link.src) > topology.rank(link.dst):
            continue  # the reverse direction has added this edge
        interfaces = {}
        pair = link.src, link.dst
        for end, (here, there) in (("intfName1", pair), ("intfName2", pair[::-1])):
            interfaces[end] = ends[here][there] = _interface_name(here, ports[here])
            ports[here] += 1
        topo.addLink(
            link.src,
            link.dst,
            cls=tc_link,
            cls1=interface,
            cls2=interface,
            params1=_tc_params(topology, link),
            params2=_tc_params(topology, topology.link(link.dst, link.src)),
            **interfaces,
        )
    return topo


@dataclass(frozen=True)
class _Routes:
    """The commands for a host's addresses and routes; `ends` has its interfaces by neighbour."""

    topology: Topology
    name: str
    ends: Mapping[str, str]

    def list_commands(self, only: str | None = None) -> list[str]:
        """All commands, or those for one interface."""
        own = _address(self.topology, self.name)
        found = [
            f"ip address replace {own}/32 dev {device}"
            for device in self.ends.values()
            if only in (None, device)
        ]
        for dst, hop in self.topology.next_hops(self.name).items():
            device = self.ends[hop]
            if only in (None, device):
                via = "" if dst == hop else f" via {_address(self.topology, hop)} onlink"
                to = _address(self.topology, dst)
                found.append(f"ip route replace {to}/32{via} dev {device} src {own}")
        return found


@functools.cache
def _make_classes() -> tuple[type, type]:
    """The classes of hosts and interfaces; a function, because Mininet is not always there."""
    node, link = import_module("mininet.node"), import_module("mininet.link")

    class RoutingHost(node.Host):  # type: ignore[misc,name-defined]
        """A host that forwards, with one address and a route to every other host."""

        def config(self, routes: _Routes, **params: Any) -> Any:
            """Configure the host after its links have been made."""
            found = super().config(**params)
            for scope in ("all", "default", *routes.ends.values()):
                self.cmd(f"sysctl -q -w net.ipv4.conf.{scope}.rp_filter=0")
            self.cmd("sysctl -q -w net.ipv4.ip_forward=1")
            self.run_each(routes.list_commands())
            return found

        def cmd(self, *words: Any, **options: Any) -> Any:
            """Run a command; a probe of iperf's port sends something, so that iperf reports it."""
            if probe := _PROBE.fullmatch(" ".join(map(str, words))):
                place = "/".join(probe.groups())
                words = (
                    f"exec 3<>/dev/tcp/{place} && printf %100s >&3 && echo Connected; exec 3>&-",
                )
            return super().cmd(*words, **options)

        def run_each(self, commands: list[str]) -> None:
            """Run commands in batches that a shell's line can hold."""
            for start in range(0, len(commands), _LINE_COMMANDS):
                self.cmd("; ".join(commands[start : start + _LINE_COMMANDS]))

    class RoutingInterface(link.TCIntf):  # type: ignore[misc,name-defined]
        """A shaped interface whose routes come back with it."""

        def ifconfig(self, *arguments: str) -> Any:
            """Configure the interface as `ifconfig` does."""
            found = super().ifconfig(*arguments)
            if arguments == ("up",) and "routes" in self.node.params:
                self.node.run_each(self.node.params["routes"].list_commands(self.name))
            return found

    return RoutingHost, RoutingInterface


def _address(topology: Topology, name: str) -> str:
    return str(ipaddress.IPv4Address("10.0.0.1") + topology.rank(name))


def _tc_params(topology: Topology, link: Link) -> dict[str, Any]:
    """The link's values under the names that `TCIntf.config` has for them."""
    if link.rate_mbps > MAX_RATE_MBPS:
        raise TopologyError(
            f"link {link.src} -> {link.dst}: rate {link.rate_mbps:g} Mbit/s: stock Mininet shapes "
            f"{MAX_RATE_MBPS:g} Mbit/s or less",
            key="rates_mbps",
        )
    if impairments := describe_impairments(link):
        text = f"link {link.src} -> {link.dst}: {impairments}: stock Mininet has no such options"
        raise TopologyError(text, key="links")
    # netem's limit counts the packets in flight as well as the queued ones.
    in_flight_bytes = link.rate_mbps * 125.0 * (link.delay_ms + link.jitter_ms)
    held_bytes = in_flight_bytes + topology.queue_bytes(link)
    return {
        "bw": link.rate_mbps,
        "delay": f"{link.delay_ms:.3f}ms",
        "jitter": f"{link.jitter_ms:.3f}ms" if link.jitter_ms else None,
        "loss": link.loss_percent,
        "max_queue_size": math.ceil(held_bytes / PACKET_BYTES),
    }


def _interface_name(site: str, port: int) -> str:
    """Mininet's usual name, or a shorter one if the kernel would refuse that name as too long."""
    name = f"{site}-eth{port}"
    return name if len(name) <= _MAX_INTERFACE_NAME else f"eth{port}"


def _split_list(value: Any) -> Any:
    """`20+155` -> [20.0, 155.0]; `a+b` -> ["a", "b"]; other values stay as they are."""
    if not isinstance(value, str) or "+" not in value:
        return value
    parts = value.split("+")
    try:
        return [float(part) for part in parts]
    except ValueError:
        return parts
