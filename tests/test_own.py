"""Plans, policies and topologies in a file beside the scenario."""

from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import document, own, provenance
from harness.scenario import ScenarioErrors, json_schema, load, parse, resolve

SCENARIO = """\
topology: {builder: wan.py, count: 3}
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: mine.py, plan: plans/hub.py, chunk: 64 KiB, rate: 5 Mbit/s}
stop: {rounds: 2}
"""

WAN = """\
from topologies import Link, Site, Topology

def build(rng, *, count: int) -> Topology:
    names = [f"s{n}" for n in range(count)]
    links = tuple(Link(a, b, 10.0, 5.0) for a in names for b in names if a != b)
    return Topology("mine", tuple(map(Site, names)), links)
"""

POLICY = """\
from __future__ import annotations
from dataclasses import dataclass
from agents.policies.preduce import PartialReduce

@dataclass(frozen=True)
class Pairs(PartialReduce):
    pass

def create(sites):
    return Pairs(sites, 2)
"""

PLAN = """\
from agents.plan import Block, Plan, star
from agents.routes import routes

def build(request, *, rate_mbps: float = 1.0) -> Plan:
    hub = request.group[0]
    pairs = [p for s in request.group if s != hub for p in ((s, hub), (hub, s))]
    spokes = star(hub, request.group, routes(pairs, request.rates_mbps))
    block = Block(((0, request.chunk_count),), hub, *spokes)
    return Plan(request.group, request.group, request.chunk_count, (block,))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "plans").mkdir()
    (tmp_path / "wan.py").write_text(WAN)
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "plans" / "hub.py").write_text(PLAN)
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    return tmp_path / "mine.yaml"


def problems(file: Path) -> list[str]:
    with pytest.raises(ScenarioErrors) as refused:
        load(file)
    return [f"{found.key_path}: {found.allowed}" for found in refused.value.problems]


def test_a_file_beside_the_scenario_is_used_and_its_options_are_keys(file):
    scenario = load(file)
    assert scenario.topology.site_names == ("s0", "s1", "s2")
    assert scenario.scheme.plan.options == {"rate_mbps": 5.0}
    policy = own.policy(scenario).create(scenario.topology.site_names)
    assert type(policy).__name__ == "Pairs" and policy.p == 2
    assert own.plan(scenario).__doc__ is None and own.plan(scenario).build


def test_what_was_resolved_needs_none_of_the_files(file):
    scenario = load(file)
    text = resolve(scenario)
    for path in file.parent.rglob("*.py"):
        path.unlink()
    assert parse(text, str(file)) == scenario
    assert "    return Pairs(sites, 2)\n" in text


def test_the_schema_for_editors_accepts_files(file):
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (SCENARIO, resolve(load(file))):
        data = document.read(text, "x").data
        assert not list(validator.iter_errors(data))
        data["scheme"]["plan"] = "mine.txt"
        data["scheme"]["policy"] = "bsp"
        assert list(validator.iter_errors(data))


def test_a_run_is_another_one_when_a_file_has_changed(file):
    before = provenance.of_run(load(file))
    (file.parent / "plans" / "hub.py").write_text(PLAN + "# faster\n")
    assert provenance.of_run(load(file)) != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read: no such file or directory"),
        ("def build(request):\n  return (\n", "line 2: '(' was never closed"),
        ("import nothing_like_it\n", "line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("BUILD = 1\n", "allowed is a file with a function build(request, *, ...)"),
        ("def build(request, rate): ...\n", "allowed for build is the form build(request, *, ...)"),
        ("def build(request, *, rate: open): ...\n", "an option of build has no type"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_its_line(file, text, said):
    path = file.parent / "plans" / "hub.py"
    path.unlink()
    if text is not None:
        path.write_text(text)
    (found,) = problems(file)
    assert found.startswith("scheme.plan: ") and said in found


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return {}[request.group]", "plans/hub.py: line 2: KeyError: ('s0', 's1')"),
        ("return 'a plan'", "plans/hub.py: build gave 'a plan', which is no Plan"),
    ],
)
def test_a_plan_that_fails_when_it_is_tried_is_refused_before_the_run(file, body, said):
    (file.parent / "plans" / "hub.py").write_text(f"def build(request, *, rate=1):\n    {body}\n")
    file.write_text(SCENARIO.replace("rate: 5 Mbit/s", "rate: 1"))
    (found,) = problems(file)
    assert said in found


def test_a_topology_that_fails_is_refused_with_its_line(file):
    (file.parent / "wan.py").write_text(
        "def build(rng, *, count: int):\n    return 1 / (count - 3)\n"
    )
    assert problems(file) == ["topology: wan.py: line 2: ZeroDivisionError: division by zero"]


def test_code_that_nothing_names_is_refused(file):
    file.write_text(f"{SCENARIO}code: {{other.py: ''}}\n")
    assert problems(file) == ["code.other.py: allowed is what scheme.plan or scheme.policy names"]


@given(st.text(max_size=60))
def test_text_of_any_lines_survives_being_written(text):
    given_back = document.read(document.write({"code": {"a.py": text}}), "x")
    if not given_back.problems:
        assert given_back.data == {"code": {"a.py": text}}
    else:  # a character that YAML has no form for
        assert not text.isprintable()
