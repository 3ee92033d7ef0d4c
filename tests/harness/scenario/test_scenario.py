"""Right scenarios: what is read, what is filled in, and what `resolve` writes."""

import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans import ring
from trunkline.harness.config import document, options
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.recorded import traces
from trunkline.harness.faults.recorded.recorded_faults import Step, Trace
from trunkline.harness.network.interface import NetworkOptions
from trunkline.harness.scenario.extensions import discover
from trunkline.harness.scenario.json_schema import json_schema
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.harness.scenario.named_schemes import SCHEMES
from trunkline.harness.scenario.scheme_settings import Awareness, Component, Scheme
from trunkline.harness.scenario.sections import timeline_section
from trunkline.harness.scenario.sections.limits import Limits
from trunkline.harness.scenario.settings import Capture, Outputs, Stop
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

ROOT = Path(__file__).parents[3]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))

PREDUCE = {
    "weights": "constant",
    "decay": 0.5,
    "missing": "closest",
    "group_filter": False,
    "history": None,
    "filter": "prevent",
}
"""The options of `preduce` that most files leave out."""

FULL = """\
name: full
description: every key
seed: 7
backend: host
clock: real
topology:
  builder: explicit
  sites: {a: "aws:us-east-1", b: ""}
  links:
  - {src: a, dst: b, rate: 1.5 Gbit/s, delay: 20 ms, jitter: 150 us, loss: 0.02 %, queue: 1 MB}
  - {src: b, dst: a, rate: 800 kbit/s}
  overrides:
  - {link: a <-> b, jitter: 0}
  - {link: b -> a, rate: 20 Mbit/s, queue: 100 kB}
network:
  congestion_control: bbr
  offloads: true
  mtu: 9000
  slow_start_after_idle: true
  initial_window: 40
workload: {kind: synthetic, model: 180 MB, compute: [50 ms, 0.2 s], slowdown: {b: 2}}
scheme:
  {plan: opr, p: 2, split: even, chunk: 1 MiB, discipline: C1, rate_error: 30 %, rates: measured}
controller: {site: b}
stop: {rounds: 10, time: 3 min, tasks: 30}
limits: {task: 50 s, run: 1 h}
outputs: {plots: false}
"""

SMALL = """\
topology: {builder: full_mesh, sites: 3}
workload: synthetic
stop: {rounds: 1}
"""


@cache
def shipped_schema():
    """The validator of the schema, which takes a second to make."""
    return pytest.importorskip("jsonschema").Draft202012Validator(json_schema())


def test_every_key_of_a_file_reaches_the_scenario_in_python_units():
    scenario = parse(FULL, "x.yaml")
    assert (scenario.name, scenario.description, scenario.seed) == ("full", "every key", 7)
    assert (scenario.backend, scenario.clock) == ("host", "real")
    assert scenario.topology == Topology(
        "explicit",
        (Site("a", "aws:us-east-1"), Site("b")),
        (
            Link("a", "b", 1500.0, 20.0, 0.0, 0.02, 1_000_000),
            Link("b", "a", 20.0, 0.0, 0.0, 0.0, 100_000),
        ),
    )
    assert scenario.network == NetworkOptions("bbr", True, 9000, True, 40)
    assert scenario.workload.kind == "synthetic"
    assert scenario.workload.options["model_bytes"] == 180_000_000
    assert scenario.workload.options["compute_s"] == (0.05, 0.2)
    assert scenario.workload.options["slowdown"] == {"b": 2.0}
    assert scenario.scheme == Scheme(
        Component("preduce", {"p": 2, **PREDUCE}),
        Component("opr", {"split": "even", "hubs": "routed"}),
        2**20,
        "C1",
        "blocking",
        30.0,
        "measured",
        Awareness("one_way_min_delay", 2**19, 4),
    )
    assert scenario.controller_site == "b"
    assert scenario.stop == Stop(rounds=10, time_s=180.0, tasks=30)
    assert scenario.limits == Limits(task_s=50.0, run_s=3600.0)
    assert scenario.outputs == Outputs(plots=False)


def test_what_a_file_leaves_out_has_a_default():
    scenario = parse(SMALL, "folder/my first.yaml")
    assert (scenario.name, scenario.description, scenario.seed) == ("my-first", "", 1)
    assert (scenario.backend, scenario.clock) == ("embedded", "virtual")
    assert scenario.network == NetworkOptions("cubic", False, 1500, False, 10)
    assert scenario.scheme == Scheme(
        Component("preduce", {"p": 3, **PREDUCE}),
        Component("crew", {"split": "aware", "hubs": "routed"}),
        256 * 1024,
    )
    assert scenario.controller_site == "n1"
    assert scenario.limits == Limits(600.0, 3600.0)
    assert all(link.queue_bytes is not None for link in scenario.topology.links)


def test_the_clock_of_a_host_is_real_unless_said_otherwise():
    assert parse(SMALL + "backend: host\n", "x.yaml").clock == "real"


@pytest.mark.parametrize(("clock", "timeout_s"), [("virtual", 2.0), ("real", 10.0)])
def test_silence_is_given_more_time_on_a_real_clock(clock, timeout_s):
    failover = parse(SMALL, "x.yaml", [f"clock={clock}"]).failover
    assert (failover.timeout_s, failover.heartbeat_s) == (timeout_s, timeout_s / 4)


def test_the_budget_of_a_task_is_by_default_no_more_than_that_of_the_run():
    assert parse(SMALL + "limits: {run: 3 min}\n", "x.yaml").limits == Limits(180.0, 180.0)


def test_many_links_give_signs_of_life_less_often():
    failover = parse(SMALL.replace("sites: 3", "sites: 60"), "x.yaml").failover
    assert (failover.timeout_s, failover.heartbeat_s) == (14.0, 3.5)  # of 3540 directed links


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_by_name_is_its_policy_plan_and_options(name):
    spelt = parse(SMALL, "x.yaml", [f"scheme={json.dumps(SCHEMES[name])}"])
    for text in (f"scheme: {name}\n", f"scheme: {{name: {name}}}\n"):
        assert parse(SMALL + text, "x.yaml").scheme == spelt.scheme


def test_a_named_scheme_takes_other_options_and_another_name():
    text = SMALL + "scheme: {name: crew, p: 2, chunk: 4 KiB}\n"
    scheme = parse(text, "x.yaml").scheme
    assert (scheme.plan.kind, scheme.chunk_bytes) == ("crew", 4096)
    assert scheme.policy.options["p"] == 2
    scheme = parse(text.replace("p: 2, ", ""), "x.yaml", ["scheme.name=netstorm-lite"]).scheme
    assert (scheme.policy.kind, scheme.plan.kind, scheme.chunk_bytes) == ("bsp", "fapt", 4096)
    assert parse(text, "x.yaml", ["scheme.plan=ring"]).scheme.plan.kind == "ring"


def test_options_of_a_named_schemes_options_stand_beside_those_that_it_has():
    text = SMALL + "scheme: {name: tsengine, awareness: {sync: off}}\n"
    awareness = parse(text, "x.yaml").scheme.awareness
    assert (awareness.estimator, awareness.sync_s) == ("round_trip", "off")
    pro = ["scheme=netstorm-pro", "scheme.auxiliary=null"]
    assert parse(SMALL, "x.yaml", pro).scheme.auxiliary is None


def test_a_component_by_name_alone_has_its_default_options():
    short = parse("topology: star\nworkload: synthetic\nstop: {rounds: 1}\n", "x.yaml")
    long = parse(
        "topology: {builder: star}\nworkload: {kind: synthetic}\nstop: {rounds: 1}\n", "x.yaml"
    )
    assert short == long


def test_overrides_are_applied_in_order_and_the_seed_last():
    overrides = ["scheme=p-reduce", "scheme.p=2", "stop.time=2 min", "seed=3", "stop.rounds=null"]
    scenario = parse(SMALL, "x.yaml", overrides, 9)
    assert scenario.scheme.plan.kind == "ring"
    assert scenario.scheme.policy.options == {"p": 2, **PREDUCE}
    assert scenario.stop == Stop(time_s=120.0)
    assert scenario.seed == 9


def test_an_override_reaches_into_a_list():
    overridden = parse(FULL, "x.yaml", ["topology.overrides[1].rate=30 Mbit/s"])
    assert overridden.topology.link("b", "a").rate_mbps == 30.0


def test_words_that_yaml_takes_for_something_else_are_words():
    text = SMALL.replace("sites: 3", "sites: [no, on, 2026-01-01]")
    assert parse(text, "x.yaml").topology.site_names == ("no", "on", "2026-01-01")


def test_the_seed_decides_the_drawn_rates():
    first, again, other = (parse(SMALL, "x.yaml", (), seed).topology for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_shipped_scenario_is_right_and_survives_resolving(path):
    scenario = load(path)
    assert scenario.name == path.stem
    assert parse(resolve(scenario), "resolved.yaml") == scenario


def test_quickstart_compares_every_plan_by_one_override():
    plans = discover().plans
    quickstart = ROOT / "scenarios" / "quickstart.yaml"
    kinds = [load(quickstart, [f"scheme.plan={plan}"]).scheme.plan.kind for plan in plans]
    assert kinds == list(plans)


def test_parsing_never_imports_torch():
    code = (
        "import sys; from trunkline.harness.scenario.loading import load;"
        "load('scenarios/quickstart.yaml');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


positive = st.floats(1e-3, 1e6, allow_nan=False)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def scenarios(draw):
    """Any scenario that is right, built from parsed text and then changed in its values."""
    count = draw(st.integers(2, 5))
    base = parse(SMALL.replace("sites: 3", f"sites: {count}"), "x.yaml", ["scheme.p=2"])
    link = st.builds(
        lambda rate_mbps, queue_ms, **values: {
            **values,
            "rate_mbps": rate_mbps,
            "queue_bytes": 2000 + int(rate_mbps * 125 * queue_ms),
        },
        rate_mbps=positive,
        queue_ms=st.floats(0, 2.5e5),
        delay_ms=st.floats(0, 6e4),
        loss_percent=st.floats(0, 99),
    )
    links = tuple(dataclasses.replace(each, **draw(link)) for each in base.topology.links)
    sites = tuple(Site(site.name, draw(words)) for site in base.topology.sites)
    backend, clock = draw(
        st.sampled_from([("embedded", "virtual"), ("embedded", "real"), ("host", "real")])
    )
    limits = Limits(draw(st.floats(1e-3, 10)), draw(st.floats(10, 1e6)))
    return dataclasses.replace(
        base,
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)),
        description=draw(words),
        seed=draw(st.integers(0, 2**63 - 1)),
        backend=backend,
        clock=clock,
        topology=Topology(draw(words), sites, links),
        network=NetworkOptions(
            "reno",
            draw(st.booleans()),
            draw(st.integers(576, 1500)),
            hystart=draw(st.sampled_from((True, False, "train", "delay")))
            if backend == "embedded"
            else True,
        ),
        workload=Component(
            "synthetic",
            {
                "model_bytes": 4 * draw(st.integers(65_536, 10**9)),
                "compute_s": draw(
                    st.one_of(
                        positive,
                        positive.map(lambda low: (low, 2 * low)),
                        st.sampled_from(["t1", "t2"]),
                        st.just({"lognormal": {"mean": 0.1, "deviation": 0.05}}),
                    )
                ),
                "compute_factor": draw(st.floats(1e-3, 1e3)),
                "slowdown": draw(st.one_of(st.none(), st.just({"n1": 2.5}))),
                "batch": draw(st.integers(1, 10**6)),
                "delay_s": draw(
                    st.one_of(
                        positive,
                        st.just({"lognormal": {"mean": 0.1, "deviation": 0.05}}),
                        st.just({"n1": 0.5}),
                    )
                ),
            },
        ),
        stop=Stop(
            draw(st.none() | st.integers(1, 10**9)),
            draw(st.none() | st.floats(1e-3, 10)),
            draw(st.integers(1, 10**9)),
        ),
        limits=limits,
        outputs=Outputs(draw(st.booleans())),
    )


@settings(max_examples=25)
@given(scenarios())
def test_a_resolved_scenario_is_read_back_as_an_equal_one(scenario):
    assert parse(resolve(scenario), "resolved.yaml") == scenario


def test_links_to_capture_are_resolved_to_single_directions_each_once():
    def captured(links):
        scenario = parse(SMALL + f"capture: {{links: {links}, snap: 1 kB}}", "x.yaml")
        assert parse(resolve(scenario), "resolved.yaml") == scenario
        return scenario.capture

    assert captured("[n1-n2, n3 -> n1, n1 <-> n2]") == Capture(
        ("n1 -> n2", "n2 -> n1", "n3 -> n1"), 1000
    )
    every = captured("all").ends
    assert len(every) == len(set(every)) > 2
    assert "capture" not in resolve(parse(SMALL, "x.yaml"))


@pytest.mark.parametrize("name", ["n1-n9", "n9-n1"])
def test_a_capture_of_an_unknown_site_names_it_and_the_sites_that_exist(name):
    with pytest.raises(ScenarioErrors, match="site 'n9': expected one of n1, n2, n3"):
        parse(SMALL + f"capture: {{links: [{name}]}}", "x.yaml")


def test_a_resolved_timeline_needs_no_other_file(tmp_path):
    (tmp_path / "up.csv").write_text("time,rate\n0,20\n2,30\n")
    lines = ["{at: 5 s, do: outage n1 n2 for 1 s}", "{do: trace n1 -> n2 up.csv}"]
    (tmp_path / "x.yaml").write_text(f"{SMALL}timeline: [{', '.join(lines)}]\n")
    scenario = load(tmp_path / "x.yaml")
    assert document.read(resolve(scenario), "").data["timeline"] == [
        {"at": "5 s", "do": "outage n1 n2 both blackhole for 1 s"},
        {"at": "0 s", "do": "trace n1 n2 0s:20Mbit/s,2s:30Mbit/s one-way"},
    ]
    assert parse(resolve(scenario), "elsewhere/resolved.yaml") == scenario


def test_a_network_from_a_file_beside_the_scenario_is_resolved_without_the_file(tmp_path):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "mine.csv").write_text("src,dst,rate,delay\na,b,20,5\nb,c,1 Gbit/s,7 ms\n")
    text = SMALL.replace(SMALL.splitlines()[0], "topology: {builder: file, file: nets/mine.csv}")
    (tmp_path / "x.yaml").write_text(text)
    scenario = load(tmp_path / "x.yaml")
    assert scenario.topology.name == "mine"
    assert scenario.topology.link("c", "b") == Link("c", "b", 1000.0, 7.0, queue_bytes=1_750_000)
    assert parse(resolve(scenario), "elsewhere/resolved.yaml") == scenario


TABLE = "base,branch,parameter_bytes,forward_us,backward_us\nstem,all,400,1,2\nmixed,left,8,3,4\n"
LAYERED = SMALL.replace("synthetic", "{kind: layered, table: nets/mine.csv}")


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "mine.csv").write_text(TABLE)
    (tmp_path / "x.yaml").write_text(LAYERED)
    return tmp_path / "nets"


@pytest.mark.parametrize("more", ["", "# \ttext: ' \" \\ é \u2028\r\n", " \n\n", "#\x00\n"])
def test_a_table_of_layers_beside_the_scenario_is_resolved_without_the_file(nets, more):
    text = more + TABLE + more
    (nets / "mine.csv").write_text(text, encoding="utf-8-sig", newline="")
    scenario = load(nets.parent / "x.yaml")
    assert [branch.parameter_bytes for branch in scenario.layers.branches] == [400, 8]
    assert scenario.model_bytes == 408 and scenario.scheme.chunk_bytes == 408
    again = parse(resolve(scenario), "elsewhere/resolved.yaml")
    assert again == scenario and resolve(again) == resolve(scenario)
    schema = shipped_schema()
    for each in (LAYERED, resolve(scenario)):
        assert not list(schema.iter_errors(document.read(each, "x.yaml").data))


def test_set_names_a_table_of_layers_beside_the_scenario(nets):
    (nets / "other.csv").write_text(TABLE.replace("400", "800"))
    scenario = load(nets.parent / "x.yaml", ["workload.table=nets/other.csv"])
    assert scenario.tensor_bytes == (800, 8)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "nets/mine.csv: cannot read: no such file or directory"),
        (
            TABLE.replace("400", "6"),
            "nets/mine.csv: expected a table of branches: line 2: parameter_bytes 6: expected a "
            "whole number from 4 to 17179869184, a multiple of 4 (float32)",
        ),
        (
            TABLE.replace("400", "17179869184"),
            "nets/mine.csv: expected a model of up to 16 GiB; it has 17179869192 bytes",
        ),
    ],
)
def test_a_table_of_layers_that_is_none_is_a_problem_of_its_key(nets, table, said):
    (nets / "mine.csv").unlink()
    if table:
        (nets / "mine.csv").write_text(table)
    with pytest.raises(ScenarioErrors) as refused:
        load(nets.parent / "x.yaml")
    assert str(refused.value) == f"{nets.parent / 'x.yaml'}:2: workload.table: {said}"


def test_a_builder_takes_rates_from_a_matrix_beside_the_scenario(tmp_path):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "rates.csv").write_text(",a,b\na,,20\nb,1 Gbit/s,\n")
    head = "topology: {builder: full_mesh, sites: [a, b], rates: nets/rates.csv, delays: 7 ms}"
    (tmp_path / "x.yaml").write_text(SMALL.replace(SMALL.splitlines()[0], head))
    scenario = load(tmp_path / "x.yaml", ["scheme.p=2"])
    assert scenario.topology.link("a", "b").rate_mbps == 20.0
    assert scenario.topology.link("b", "a") == Link("b", "a", 1000.0, 7.0, queue_bytes=1_750_000)
    assert parse(resolve(scenario), "elsewhere/resolved.yaml") == scenario


def test_a_file_of_a_network_that_cannot_be_read_is_a_problem_of_its_key(tmp_path):
    (tmp_path / "large.gml").touch()
    os.truncate(tmp_path / "large.gml", 100_000_001)
    (tmp_path / "wrong.csv").write_text("src,dst\na,b,c\n")
    (tmp_path / "r.csv").write_text(",a,b\na,,1\nb,x,\n")
    (tmp_path / "ok.csv").write_text(",a,b\na,,1\nb,2,\n")
    os.mkfifo(tmp_path / "pipe.gml")
    allowed_rate = (
        "expected a rate above 0 in Mbit/s, or with a unit (bit/s, kbit/s, Mbit/s, Gbit/s)"
    )
    for named, message in (
        ("file: none.gml", "file: none.gml: cannot read: no such file or directory"),
        ("file: pipe.gml", "file: pipe.gml: expected a regular file"),
        ("file: large.gml", "file: large.gml: expected 100000000 bytes or fewer"),
        ("file: wrong.csv", "file: wrong.csv: line 2: 3 cells: expected 2 as in the header row"),
        ("rates: r.csv", f"rates: r.csv: line 3: b -> a: 'x': {allowed_rate}"),
        ("sites: 2, rates: r.csv", f"rates: r.csv: line 3: b -> a: 'x': {allowed_rate}"),
        ("sites: 2, rates: no.csv", "rates: no.csv: cannot read: no such file or directory"),
        ("sites: 2, delays: ok.csv", "delays: ok.csv: no value for n1 -> n2, n2 -> n1"),
    ):
        builder = "full_mesh" if "sites" in named else "file"
        text = SMALL.replace(SMALL.splitlines()[0], f"topology: {{builder: {builder}, {named}}}")
        (tmp_path / "x.yaml").write_text(text)
        with pytest.raises(ScenarioErrors) as refused:
            load(tmp_path / "x.yaml")
        assert str(refused.value) == f"{tmp_path}/x.yaml:1: topology.{message}"


def test_a_builder_of_your_own_may_read_files_beside_the_scenario(tmp_path):
    (tmp_path / "pair.py").write_text(
        "from trunkline.topology import Link, Site, Topology\n"
        "def build(rng, *, names: str, read) -> Topology:\n"
        "    a, b = read(names).split()\n"
        "    return Topology('pair', (Site(a), Site(b)), (Link(a, b, 5.0), Link(b, a, 5.0)))\n"
    )
    (tmp_path / "names.txt").write_text("east west\n")
    head = "topology: {builder: pair.py, names: names.txt}"
    (tmp_path / "x.yaml").write_text(SMALL.replace(SMALL.splitlines()[0], head))
    assert load(tmp_path / "x.yaml", ["scheme.p=2"]).topology.site_names == ("east", "west")


def test_a_trace_may_start_with_a_byte_order_mark_and_is_never_a_pipe(tmp_path):
    (tmp_path / "up.csv").write_text("\ufeff0,20\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good.yaml").write_text(SMALL + "timeline: [{do: trace n1 n2 up.csv}]\n")
    (tmp_path / "bad.yaml").write_text(SMALL + "timeline: [{do: trace n1 n2 pipe}]\n")
    (entry,) = load(tmp_path / "good.yaml").timeline
    assert entry.fault == Trace("n1", "n2", (Step(0.0, 20.0),))
    with pytest.raises(ScenarioErrors, match="pipe: expected a regular file"):
        load(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("given", "tasks", "time_s"),
    [
        ("stop: {tasks: 3}", 3, None),
        ("stop: {tasks: 3}\nwarm_up: {tasks: 2}", 5, None),
        ("stop: {time: 3 s}\nwarm_up: {time: 0.5 s}", None, 3.5),
    ],
)
def test_a_warm_up_is_added_to_the_stop_condition_and_written_with_it(given, tasks, time_s):
    scenario = parse(SMALL.replace("stop: {rounds: 1}", given), "x.yaml")
    assert (scenario.whole_stop.tasks, scenario.whole_stop.time_s) == (tasks, time_s)
    assert parse(resolve(scenario), "x.yaml") == scenario


def test_a_resolved_scenario_spells_out_every_default():
    data = document.read(resolve(parse(SMALL, "x.yaml")), "x.yaml").data
    assert data["topology"]["builder"] == "explicit"
    assert set(data["topology"]["links"][0]) == {
        "src", "dst", "rate", "delay", "jitter", "loss", "queue",
    }  # fmt: skip
    assert data["scheme"] == {
        "policy": "preduce", "plan": "crew", "chunk": "256 KiB", "discipline": "fcfs",
        "scatter": "blocking", "rate_error": "0 %", "rates": "configured",
        "awareness": None, "auxiliary": None, "update": "5 s", "update_rate": "0 %", "servers": [],
        "pipelined": True, "p": 3,
        **PREDUCE, "split": "aware", "hubs": "routed",
    }  # fmt: skip
    assert data["stop"] == {
        "rounds": 1, "time": None, "tasks": None, "accuracy": None, "loss": None, "in_a_row": 3,
        "without_progress": None, "exit": None,
    }  # fmt: skip
    assert data["limits"] == {"task": "600 s", "run": "1 h", "recovery": "600 s", "memory": "6 GiB"}
    assert data["timeline"] == []


def with_plan(build: Any) -> Any:
    known = discover()
    return dataclasses.replace(known, plans={**known.plans, "mine": SimpleNamespace(build=build)})


def mine(
    request: PlanRequest,
    *,
    window_s: float,
    pieces_bytes: list[int] | Literal["auto"] = "auto",
    copies: int = 1,
    p: int = 3,
    label: str | None = None,
) -> Plan:
    """A plan with options of every sort, one of which its policy has too."""
    return ring.build(request)


def test_the_signature_of_a_new_plan_is_all_that_a_file_needs():
    text = SMALL + "scheme: {plan: mine, window: 2 ms, pieces: [1 KiB, 2 KiB], label: x, p: 2}\n"
    scenario = parse(text, "x.yaml", extensions=with_plan(mine))
    assert scenario.scheme.plan.options == {
        "window_s": 0.002, "pieces_bytes": (1024, 2048), "copies": 1, "p": 2, "label": "x",
    }  # fmt: skip
    assert scenario.scheme.policy.options == {"p": 2, **PREDUCE}
    assert parse(resolve(scenario), "x.yaml", extensions=with_plan(mine)) == scenario


def test_the_schema_names_every_extension_and_writes_quantities_as_patterns():
    schema = json_schema(with_plan(mine))
    scheme = schema["$defs"]["scheme_preduce_mine"]
    assert scheme["required"] == ["plan", "window"]
    assert scheme["properties"]["window"]["anyOf"][0]["pattern"].endswith("(us|ms|s|min|h)$")
    assert scheme["properties"]["copies"] == {"default": 1, "title": "Copies", "type": "integer"}
    assert scheme["additionalProperties"] is False
    assert {"topology_full_mesh", "workload_training", "scheme_bsp_ring"} <= schema["$defs"].keys()
    assert schema["required"] == ["stop", "topology", "workload"]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_schema_accepts_every_shipped_scenario_and_its_resolved_form(path):
    for text in (path.read_text(), resolve(load(path))):
        assert not list(shipped_schema().iter_errors(document.read(text, path.name).data))


@pytest.mark.parametrize(
    "assignment", ["stop.tiem=3 s", "stop.time=50", "scheme.plan=rign", "seed=-1", "topology.x=1"]
)
def test_the_schema_refuses_what_is_wrong_in_form(assignment):
    source = document.read(SCENARIOS[-1].read_text(), "x.yaml")
    source.set(assignment)
    assert not shipped_schema().is_valid(source.data)


@pytest.mark.parametrize(
    ("model", "chunk_bytes"), [("4 kB", 4000), ("400 B", 400), ("1 MB", 2**18)]
)
def test_the_default_chunk_is_no_larger_than_the_model(model, chunk_bytes):
    text = SMALL_MODEL.format(model=model)
    scenario = parse(text, "x.yaml")
    assert scenario.scheme.chunk_bytes == chunk_bytes
    assert parse(resolve(scenario), "x.yaml").scheme == scenario.scheme


SMALL_MODEL = """\
topology: {{builder: full_mesh, sites: 4, rates: 50 Mbit/s}}
workload: {{kind: synthetic, model: {model}}}
stop: {{rounds: 3}}
"""


def test_a_long_timeline_takes_no_type_for_each_line(monkeypatch):
    made = []
    create = options.create_model
    monkeypatch.setattr(options, "create_model", lambda *a, **k: made.append(a) or create(*a, **k))

    def count_types(lines):
        made.clear()
        text = SMALL_MODEL.format(model="1 MB") + "timeline:\n" + "- {at: 1 s, do: heal}\n" * lines
        assert len(parse(text, "x.yaml").timeline) == lines
        return len(made)

    assert count_types(1) == count_types(50)


def test_traces_have_a_limited_number_of_steps_each_and_together(monkeypatch):
    with pytest.raises(FaultError, match=r"^a.csv: 200001 steps: expected 200000 or f"):
        traces.read("time,rate\n" + "1,1\n" * 200_001, "a.csv")
    monkeypatch.setattr(timeline_section, "MAX_STEPS", 3)
    trace = "- {at: 0 s, do: 'trace n1 n2 0s:1Mbit/s,1s:2Mbit/s'}\n"
    text = SMALL_MODEL.format(model="1 MB") + "timeline:\n"
    assert len(parse(text + trace, "x.yaml").timeline) == 1
    with pytest.raises(ScenarioErrors, match="timeline: 4 steps: expected 3 steps or fewer in"):
        parse(text + 2 * trace, "x.yaml")


def test_a_scenario_notes_the_changes_of_the_command_line_which_do_not_distinguish_it():
    changed = parse(SMALL, "x.yaml", ["seed=5"])
    assert changed.overrides == ("seed=5",)
    assert changed == parse(SMALL, "x.yaml", seed=5)
    assert parse(resolve(changed), "resolved.yaml").overrides == ()
