"""Long lists are written and read as tables."""

import pytest

from trunkline.harness.config import document, tables
from trunkline.harness.scenario.loading import ScenarioErrors, load, parse, resolve

MESH = """
topology: {builder: full_mesh, sites: 24, rates: [10 Mbit/s, 20 Mbit/s], delays: [5 ms, 20 ms]}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 1}
"""

TABLE = """
topology:
  builder: explicit
  sites: [a, b]
  links: |
    src,dst,rate,delay,loss
    a, b, 5 Mbit/s, 20 ms, 1 %
    b, a, 8 Mbit/s, 10 ms,
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 1}
"""


def test_a_large_network_is_written_as_a_table_and_read_as_it_was(tmp_path):
    scenario = parse(MESH, "mesh.yaml")
    text = resolve(scenario)
    assert "\n  links: |\n    src,dst,rate,delay,jitter,loss,queue\n    n1,n2," in text
    (tmp_path / "resolved.yaml").write_text(text)
    assert load(tmp_path / "resolved.yaml").topology == scenario.topology


def test_a_user_may_write_links_as_a_table():
    links = parse(TABLE, "x.yaml").topology.links
    assert [(link.src, link.rate_mbps, link.loss_percent) for link in links] == [
        ("a", 5.0, 1.0),
        ("b", 8.0, 0.0),
    ]


def test_a_value_of_a_table_can_be_set():
    (link, _) = parse(TABLE, "x.yaml", ["topology.links[0].rate=7 Mbit/s"]).topology.links
    assert link.rate_mbps == 7.0


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "20 ms, 1 %",
            "20 ms",
            "x.yaml:5: topology.links: a, b, 5 Mbit/s, 20 ms: expected 5 cells",
        ),
        (
            "delay,loss",
            "delay,delay",
            "x.yaml:5: topology.links: src,dst,rate,delay,delay: expected",
        ),
        ("8 Mbit/s", "8 Mbit", "x.yaml:8: topology.links[1].rate: 8 Mbit: unknown unit"),
        ("delay,loss", "delay,los", "x.yaml:7: topology.links[0].los: 1 %: unknown key"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(right, wrong, said):
    with pytest.raises(ScenarioErrors) as refused:
        parse(TABLE.replace(right, wrong), "x.yaml")
    assert said in "\n".join(map(str, refused.value.problems))


@pytest.mark.parametrize(
    "rows",
    [
        [{"name": "no"}, {"name": "12"}],
        [{"name": 1.5, "other": "x"}, {"name": ""}],
        [{"name": {"csv": "x"}}],
    ],
)
def test_a_list_stays_one_if_its_cells_would_be_read_as_something_else(monkeypatch, rows):
    monkeypatch.setattr(tables, "LEAST_ROWS", 1)
    written = tables.write_list(rows)
    if isinstance(written, str):
        source = document.read(document.write({"rows": written}), "x.yaml")
        tables.expand(source, ("rows",))
        assert source.data["rows"] == rows
    else:
        assert written == rows


@pytest.mark.parametrize("entry", ["{link: a <-> b, rate: 5 Mbit/s}", "a -> b", "a<->b"])
def test_links_that_are_named_as_in_a_timeline_are_refused_once_with_the_right_form(entry):
    rest = TABLE.partition("  links: |")[0] + f"  links: [{entry}, {entry}, {entry}]\n"
    with pytest.raises(ScenarioErrors) as refused:
        parse(rest + "workload: {kind: synthetic}\nstop: {rounds: 1}\n", "x.yaml")
    (said,) = str(refused.value).splitlines()
    rate = "5 Mbit/s" if "rate" in entry else "50 Mbit/s"
    assert said.endswith(
        "expected an entry for each direction, "
        f"{{src: a, dst: b, rate: {rate}, delay: 10 ms}} and "
        f"{{src: b, dst: a, rate: {rate}, delay: 10 ms}}; 2 other links likewise"
    )
    assert said.startswith("x.yaml:5: topology.links[0]: a")
