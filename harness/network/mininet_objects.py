"""Mininet's objects for a network whose links we make and shape ourselves.

`Topo`, `Mininet`, `Host`, `Link` and `Intf` are Mininet's. Ours make a namespace without a shell,
and leave interfaces, addresses and shaping to `mininet_net`.
"""

# ruff: noqa: N802, N815 (Mininet's names)

from __future__ import annotations

import os
import shutil
from typing import Any

from mininet.link import Intf  # type: ignore[import-untyped]
from mininet.link import Link as MininetLink
from mininet.net import Mininet  # type: ignore[import-untyped]
from mininet.node import Host  # type: ignore[import-untyped]
from mininet.topo import Topo  # type: ignore[import-untyped]

from trunkline.harness.network.interface import (
    NetworkError,
    device_name,
    hardware_address,
    site_address,
)
from trunkline.harness.network.namespace import Namespace
from trunkline.harness.processes import ownership
from trunkline.topologies.model import Topology


def start_mininet(topology: Topology) -> Mininet:
    """One Mininet host per site and router, each with a network namespace of its own."""
    Mininet.inited = True  # skips its set-up, which changes settings of the whole machine
    mininet = _Mininet(
        topo=_Sites(topology), build=False, controller=None, host=_SiteHost, link=_Veth
    )
    mininet.start()
    return mininet


class _Sites(Topo):  # type: ignore[misc]
    """The topology in Mininet's form: a host per node, a link per pair of directed links."""

    def build(self, topology: Topology) -> None:
        for rank, node in enumerate(topology.node_names):
            self.addHost(node, ip=f"{site_address(rank)}/32")
        for link in topology.links:
            src, dst = topology.rank(link.src), topology.rank(link.dst)
            if src < dst:
                self.addLink(link.src, link.dst, ranks=(src, dst))


class _Mininet(Mininet):  # type: ignore[misc]
    """Mininet without the configuration of each host and link through a shell."""

    def configHosts(self) -> None:
        """Does nothing: `MininetNetwork.start` configures all hosts."""

    @staticmethod
    def randMac() -> str:
        """Returns no address: interfaces have their own, and a draw would change later draws."""
        return ""


class _SiteHost(Host):  # type: ignore[misc]
    """A Mininet host that starts its shell when it is first used.

    A shell takes about 10 ms to start, 100 ms in the embedded kernel. Most runs need none.
    """

    isSetup = True  # skips Mininet's search for ifconfig, which is not used here

    def startShell(self, mnopts: str | None = None) -> None:
        """Makes the namespace only; `open_shell` starts the shell."""
        self.namespace = Namespace(self.name)

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """See `mininet.node.Node.cmd`."""
        self.open_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        """See `mininet.node.Node.sendCmd`."""
        self.open_shell()
        return super().sendCmd(*args, **kwargs)

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """See `mininet.node.Node.popen`."""
        self.open_shell()
        return super().popen(*args, **kwargs)

    def terminate(self) -> None:
        """Ends the shell, if there is one, and closes the namespace."""
        self.close_shell()
        self.namespace.close()

    def close_shell(self) -> None:
        """Ends the site's shell, if there is one, and the programs that run in it."""
        super().terminate()

    def IP(self, intf: object = None) -> str:
        """The site's address, which is the same for all interfaces."""
        return str(self.params["ip"]).partition("/")[0]

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        """Starts a process of the site with the run's tag in its environment."""
        tagged = {ownership.VARIABLE: ownership.Owner.me().tag, **os.environ}
        return super()._popen(cmd, **{"env": tagged, **params})

    def open_shell(self) -> None:
        """Starts the site's shell, unless there is one."""
        if self.shell is not None:
            return
        if shutil.which("mnexec") is None:
            raise NetworkError("a shell needs mnexec", self.name, "apt-get install mininet")
        with self.namespace.inside():
            self.inNamespace = False  # otherwise Mininet would make another namespace
            try:
                super().startShell()
            except BaseException:
                super().terminate()
                raise
            finally:
                self.inNamespace = True


class _Interface(Intf):  # type: ignore[misc]
    """Mininet's object for one end of a link."""

    def config(self, **_: object) -> dict[str, Any]:
        """Does nothing: the interface is configured when it is made."""
        return {}

    def updateIP(self) -> str:
        """The address, which never changes."""
        return str(self.ip)


class _Veth(MininetLink):  # type: ignore[misc]
    """Mininet's object for a link. `MininetNetwork` makes and removes all links together."""

    def __init__(self, node1: Host, node2: Host, *, ranks: tuple[int, int], **_: object) -> None:
        self.intf1, self.intf2 = (
            self._end(node, here, there)
            for node, here, there in ((node1, *ranks), (node2, *reversed(ranks)))
        )

    def _end(self, node: Host, here: int, there: int) -> _Interface:
        end = _Interface(
            device_name(here, there),
            node=node,
            link=self,
            mac=hardware_address(here, there).hex(":"),
            moveIntfFn=lambda *_: None,
        )
        end.ip, end.prefixLen = node.IP(), 32
        return end

    def stop(self) -> None:
        """Does nothing: `MininetNetwork.stop` removes all links."""
