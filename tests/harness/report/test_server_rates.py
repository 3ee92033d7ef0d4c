"""The rates of servers' links over time: literal transfers, with and without access links."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from two_servers import SERVERS, TOPOLOGY, history, make_log

from trunkline.harness.record.history import History
from trunkline.harness.record.warm_up import Counted
from trunkline.harness.report.updates import servers_section, update_plots
from trunkline.harness.report.updates.server_rates import (
    ServerRow,
    summarize_rates,
    tabulate_servers,
)
from trunkline.topologies.model import Topology
from trunkline.topologies.rates.access import AccessLink, add_access_links

ACCESS = AccessLink(up_mbps=4.0, down_mbps=2.0, delay_ms=0.0)


def move(src: str, dst: str, task: int, size: int, start_ms: int, end_ms: int) -> list[dict]:
    """The lines of a payload; its last byte arrives 10 ms after it left."""
    shown = {"task": task, "phase": "in", "bytes": size, "chunks": 1}
    times = {"start_ns": start_ms * 10**6, "end_ns": end_ms * 10**6}
    later = {"start_ns": (start_ms + 10) * 10**6, "end_ns": (end_ms + 10) * 10**6}
    return [
        {"t_ns": end_ms * 10**6, "site": src, "event": "sent", "dst": dst, **shown, **times},
        {"t_ns": (end_ms + 10) * 10**6, "site": dst, "event": "received", "src": src,
         **shown, **later},
    ]  # fmt: skip


def make_history() -> History:
    """kyiv pushes to both servers at once; oslo gives kyiv and bern its model meanwhile."""
    moved = [
        *move("kyiv", "oslo", 0, 20_000, 210, 300),
        *move("kyiv", "rome", 0, 5_000, 210, 300),
        *move("oslo", "kyiv", 2, 10_000, 310, 390),
        *move("oslo", "bern", 3, 10_000, 370, 400),
    ]
    return history(of=sorted([*make_log(), *moved], key=lambda line: line["t_ns"]))


def tabulate(topology: Topology, server: str) -> pd.DataFrame:
    table = ServerRow.frame(tabulate_servers(make_history(), topology, SERVERS))
    return table[table["server"] == server].drop(columns="server").reset_index(drop=True)


def test_a_server_without_an_access_link_uses_all_its_links() -> None:
    found = tabulate(TOPOLOGY, "oslo")
    assert found["t_s"].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    bytes_in = found["in_mbps"] * 0.1 / 8e-6
    assert bytes_in.sum() == pytest.approx(20_000)
    assert bytes_in[2] > 19_000
    # Three links of 8 Mbit/s end at oslo.
    assert found["in_percent"].tolist() == pytest.approx((found["in_mbps"] / 24 * 100).tolist())
    bytes_out = found["out_mbps"] * 0.1 / 8e-6
    assert bytes_out.sum() == pytest.approx(20_000)
    assert bytes_out[:3].sum() == 0
    rome = tabulate(TOPOLOGY, "rome")
    assert (rome["in_mbps"] * 0.1 / 8e-6).sum() == pytest.approx(5_000)
    assert rome["out_mbps"].sum() == 0


def test_a_server_behind_an_access_link_uses_that_link_only() -> None:
    topology = add_access_links(TOPOLOGY, (replace(ACCESS, sites=("oslo",)),))
    found, direct = tabulate(topology, "oslo"), tabulate(TOPOLOGY, "oslo")
    assert found["in_mbps"].sum() == pytest.approx(direct["in_mbps"].sum(), rel=1e-6)
    assert found["in_percent"].tolist() == pytest.approx((found["in_mbps"] / 2 * 100).tolist())
    assert found["out_percent"].tolist() == pytest.approx((found["out_mbps"] / 4 * 100).tolist())


def test_a_share_is_of_the_rate_at_the_time() -> None:
    slower = {"t_ns": 200_000_000, "site": "harness", "event": "link_changed", "src": "kyiv",
              "dst": "oslo", "rate_mbps": 4.0, "delay_ms": 10.0, "jitter_ms": 0.0,
              "loss_percent": 0.0, "queue_bytes": None, "burst": 1.0, "cuts": []}  # fmt: skip
    moved = move("kyiv", "oslo", 0, 20_000, 210, 300)
    lines = sorted([*make_log(), *moved, slower], key=lambda line: line["t_ns"])
    found = ServerRow.frame(tabulate_servers(history(of=lines), TOPOLOGY, ("oslo",)))
    assert found["in_percent"][2] == pytest.approx(100 * found["in_mbps"][2] / 20)


def test_no_step_has_more_than_the_rate_lets_pass() -> None:
    """Two transfers begin at once on a link of 8 Mbit/s, and the first one ends early."""
    moved = [*move("kyiv", "oslo", 0, 80_000, 90, 190), *move("kyiv", "oslo", 1, 120_000, 90, 290)]
    lines = sorted([*make_log(), *moved], key=lambda line: line["t_ns"])
    found = ServerRow.frame(tabulate_servers(history(of=lines), TOPOLOGY, ("oslo",)))["in_mbps"]
    assert found.max() == pytest.approx(8.0)
    assert (found * 0.1 / 8e-6).sum() == pytest.approx(200_000)
    less = ServerRow.frame(tabulate_servers(history(of=lines), TOPOLOGY, ("oslo",), share=0.9))[
        "in_mbps"
    ]
    assert less.max() == pytest.approx(7.2)


def test_means_are_over_servers_and_steps_and_peaks_of_any() -> None:
    table = ServerRow.frame(tabulate_servers(make_history(), TOPOLOGY, SERVERS))
    found = summarize_rates(table, 0.5)
    assert found.server_in_mbps == pytest.approx(25_000 * 8e-6 / 0.5 / 2)
    assert found.server_in_peak_mbps == table["in_mbps"].max()
    assert summarize_rates(table, 0.2).server_in_mbps == 0.0
    assert summarize_rates(None) is summarize_rates(table, 0.0) is None
    assert math.isclose(found.server_out_mbps, 20_000 * 8e-6 / 0.5 / 2)


def test_the_page_and_the_figure_show_both_directions() -> None:
    table = ServerRow.frame(tabulate_servers(make_history(), TOPOLOGY, SERVERS))
    figure, numbers = servers_section.write_section(table, "virtual")
    assert str(figure).count('class="line stroke-blue"') == 2
    assert str(figure).count('class="line stroke-orange"') == 2
    assert [str(numbers).count(server) for server in SERVERS] == [1, 1]
    warm = Counted(1, 200 * 10**6)
    marked, later = servers_section.write_section(table, "virtual", warm)
    assert str(marked).count('class="fill-warm-up"') == 3  # and in the legend
    assert str(later) != str(numbers)
    assert servers_section.write_section(table, "virtual", Counted(1, 10**12))[1] is None
    assert len(update_plots.draw_servers(table, "virtual", (), 0.2).axes[0].patches) == 3
    (axes,) = update_plots.draw_servers(table, "virtual", ()).axes
    assert axes.get_ylabel() == "Mbit/s per server"
    assert len(axes.patches) == 2
