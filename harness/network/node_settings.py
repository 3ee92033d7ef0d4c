"""The kernel's parameters in the namespace of a node, and its congestion control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trunkline.harness.network.interface import NetworkError, NetworkOptions
from trunkline.harness.network.namespace import Namespace

_SOCKET_BUFFER_BYTES = 256 << 20
"""The largest buffer of a TCP socket. Its payload in flight is then at least 112 MB, which is
3 Gbit/s x 300 ms."""


def make_settings(options: NetworkOptions) -> Mapping[str, str]:
    """The kernel parameters of a site's namespace; those of the machine stay as they are."""
    buffer = str(_SOCKET_BUFFER_BYTES)
    settings = {
        "ipv4/ip_forward": "1",
        "ipv4/tcp_slow_start_after_idle": str(int(options.slow_start_after_idle)),
        "ipv4/tcp_no_metrics_save": "1",  # connections do not learn from earlier ones
        "ipv4/tcp_rmem": f"4096 131072 {buffer}",
        "ipv4/tcp_wmem": f"4096 16384 {buffer}",
    }
    for scope in ("all", "default"):
        settings[f"ipv4/conf/{scope}/rp_filter"] = "0"
        settings[f"ipv4/conf/{scope}/send_redirects"] = "0"
        settings[f"ipv4/conf/{scope}/accept_redirects"] = "0"
        if Path("/proc/sys/net/ipv6").exists():
            settings[f"ipv6/conf/{scope}/disable_ipv6"] = str(int(not options.ipv6))
    if options.ipv6:
        # A site has the addresses that it is given, at once, and its links look for no others.
        settings["ipv6/conf/default/addr_gen_mode"] = "1"
        settings["ipv6/conf/default/accept_dad"] = "0"
        settings["ipv6/conf/all/forwarding"] = "1"  # routers take no announcements
    return settings


def choose_congestion_control(namespace: Namespace, algorithm: str) -> str | None:
    """Makes the algorithm the site's default; returns it if routes must name it instead.

    A namespace may use only the algorithms that the kernel's administrator allows; a route may name
    any. But the algorithm of a route overrides the one that a socket has asked for, so a route is
    the second choice.
    """
    try:
        namespace.write_settings({"ipv4/tcp_congestion_control": algorithm})
    except NetworkError as error:
        known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        if algorithm in known:
            return algorithm
        what = f"congestion_control {algorithm}: this kernel has {', '.join(known)}"
        raise NetworkError(what, error.where, f"modprobe tcp_{algorithm}") from error
    return None
