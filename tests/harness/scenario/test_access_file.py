"""Tables with an access link for each site."""

import pytest

from trunkline.harness.scenario.sections.access_file import read_access
from trunkline.topologies.links import TopologyError
from trunkline.topologies.rates.access import AccessLink

SITES = ("server", "phone", "node-7", "sao-paulo")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("phone,5,20", [AccessLink(5, 20, ("phone",))]),
        ("site,rate\nphone,5", [AccessLink(5, 5, ("phone",))]),
        ("site,up\nphone,5", [AccessLink(5, 5, ("phone",))]),
        (
            "site,up,duplicate,corrupt (%)\nphone,5,1,0.5",
            [AccessLink(5, 5, ("phone",), duplicate_percent=1, corrupt_percent=0.5)],
        ),
        ("7\t5 Mbit/s\t1G\t10\t0.5", [AccessLink(5, 1000, ("node-7",), 10, 0.5)]),
        (
            "\ufeffName;Uplink (kbit/s);downlink_mbps;RTT;packet loss;queue;burst\r\n"
            "# later\r\nSão Paulo;5000;20,5;24;0,01;60 packets;2\r\n",
            [AccessLink(5, 20.5, ("sao-paulo",), 12, 1, 60 * 1514, 2)],
        ),
    ],
)
def test_a_row_is_an_access_link(text, wanted):
    assert read_access(text, "up.csv", SITES) == (tuple(wanted), ())


def test_columns_that_are_not_read_are_named():
    links, notes = read_access("site,price,up,ISP name\nphone,9,5,x\n", "up.csv", SITES)
    assert links == (AccessLink(5, 5, ("phone",)),)
    assert notes == ("up.csv: columns that are not read: 'price', 'ISP name'",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "up.csv: empty: expected a row or more"),
        ("site,up", "up.csv:1: no rows: expected one or more"),
        ("who,up\nphone,5", "up.csv:1: columns who,up: expected site, up and down or rate"),
        ("up,down\n5,phone", "up.csv:1: columns up,down: expected site"),
        ("site,up,jitter\nphone,5,1", "up.csv:1: column 'jitter': access links have none: "),
        ("site,up,upload\nphone,5,1", "up.csv:1: column 'upload': a second up: expected site"),
        ("site,up,loss,plr\nphone,5,1,0", "up.csv:1: column 'plr': a second loss: expected site"),
        ("site,up,burts\nphone,5,1", "up.csv:1: column 'burts': did you mean burst? expected"),
        ("site,delay\nphone,5", "up.csv:2: phone: no rate: expected site, up and down or rate"),
        ("phone,5,20,1,2,3", "up.csv:1: 6 cells: expected 5 as in the header row"),
        ("phone,5,20\n\nphone,5,20", "up.csv:3: phone: expected one row for each site"),
        ("site,up\ntablet,5", "up.csv:2: 'tablet': expected one of server, phone, node-7"),
        ("site,up\nphone,0", "up.csv:2: phone: up '0': expected a rate above 0 in Mbit/s"),
        ("site,up,burst\nphone,5,x", "up.csv:2: phone: burst 'x': expected a number"),
        (
            "site,up,loss\nphone,x,1\n7,5,101",
            "up.csv:2: phone: up 'x': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)\nup.csv:3: node-7: loss '101': expected a share of 0 to 100",
        ),
    ],
)
def test_a_table_of_something_else_is_refused_with_all_its_lines(text, message):
    with pytest.raises(TopologyError) as refused:
        read_access(text, "up.csv", SITES)
    assert str(refused.value).startswith(message)
