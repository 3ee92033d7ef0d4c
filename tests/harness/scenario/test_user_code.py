"""Plans, policies, workloads and topologies in a file beside the scenario."""

import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.policies.policy import Ready, average, is_timed
from trunkline.harness.commands import overview
from trunkline.harness.config import document
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.fluid import fluid_run
from trunkline.harness.runs import provenance
from trunkline.harness.runs.remote import client
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.json_schema import json_schema
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.harness.scenario.user_results import UserCodeError
from trunkline.workloads.base import gives_changes, takes_batch
from trunkline.workloads.layered.model import WorkloadInLayers, WorkloadWithHooks

SCENARIO = """\
topology: {builder: wan.py, count: 3}
workload: {kind: sums.py, model: 1 MB}
scheme: {policy: mine.py, plan: plans/hub.py, chunk: 64 KiB, rate: 5 Mbit/s}
stop: {rounds: 2}
"""

WAN = """\
from trunkline.topology import Link, Site, Topology

def build(rng, *, count: int) -> Topology:
    names = [f"s{n}" for n in range(count)]
    links = tuple(Link(a, b, 10.0, 5.0) for a in names for b in names if a != b)
    return Topology("mine", tuple(map(Site, names)), links)
"""

POLICY = """\
from dataclasses import dataclass
from trunkline.policy import PartialReduce

@dataclass(frozen=True)
class Pairs(PartialReduce):
    pass

def create(sites):
    return Pairs(sites, 2)
"""

WORKLOAD = """\
from trunkline.workload import synthetic

def build(rank, sites, seed, *, model_bytes: int):
    return synthetic.build(rank, sites, seed, model_bytes=model_bytes)

def model_bytes(*, model_bytes):
    return model_bytes
"""

PLAN = """\
from trunkline.plan import Block, Plan, routes, star

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
    (tmp_path / "sums.py").write_text(WORKLOAD)
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
    policy = scenario.scheme.policy.module.create(scenario.topology.site_names)
    (_, decisions) = policy.step(policy.step(policy.initial, Ready("s2", 0))[0], Ready("s1", 0))
    assert decisions == (average(("s1", "s2")),)
    assert scenario.scheme.plan.module.__doc__ is None and scenario.scheme.plan.module.build
    assert scenario.workload.module.model_bytes(**scenario.workload.options) == 1_000_000
    assert overview.describe_scenario(scenario).row_count and fluid_run.predict(scenario) is None


DRAWING = """
from dataclasses import dataclass
from trunkline.policy import Ended, Ready, Proceed, Wake

@dataclass(frozen=True)
class Waiting:
    rng: object
    until_s: float
    timed = True
    initial: tuple = ()

    def step(self, state, event):
        match event:
            case Ended(task, group):
                return (), tuple(Proceed(site) for site in group)
            case Ready():
                return state, (Wake(self.rng.uniform(event.at_s, self.until_s)),)
        return state, ()

def create(sites, *, rng, until_s: float):
    return Waiting(rng, until_s)
"""


def test_a_timed_policy_that_wakes_at_no_time_is_refused_before_the_run(file):
    text = DRAWING.replace("self.rng.uniform(event.at_s, self.until_s)", "float('nan')")
    (file.parent / "mine.py").write_text(text)
    file.write_text(SCENARIO.replace("mine.py,", "mine.py, until: 2 s,"))
    (found,) = problems(file)
    assert found == "scheme.policy: Wake.at_s = nan: expected a finite time in seconds"


def test_a_policy_may_know_time_and_draw_random_numbers(file):
    (file.parent / "mine.py").write_text(DRAWING)
    file.write_text(SCENARIO.replace("mine.py,", "mine.py, until: 2 s,"))
    scenario = load(file)
    assert scenario.scheme.policy.options == {"until_s": 2.0}

    def wakes(term):
        policy = planning.create_policy(scenario, term)
        state, (first,) = policy.step(policy.initial, Ready("s0", 0, 1.0))
        _, (second,) = policy.step(state, Ready("s0", 0, 1.0))
        return [first.at_s, second.at_s]

    assert is_timed(planning.create_policy(scenario))
    assert wakes(0) == wakes(0) != wakes(1_000_000)
    assert len({*wakes(0), *wakes(1_000_000)}) == 4
    assert all(1.0 <= at_s <= 2.0 for at_s in wakes(0))


def test_what_was_resolved_needs_none_of_the_files(file):
    scenario = load(file)
    text = resolve(scenario)
    for path in file.parent.rglob("*.py"):
        path.unlink()
    assert parse(text, str(file)) == scenario
    assert "    return Pairs(sites, 2)\n" in text


@pytest.mark.parametrize(("given", "found"), [("folder: data,", True), ("", False)])
def test_the_folder_of_a_workload_is_beside_the_scenario_and_goes_along(file, given, found):
    text = WORKLOAD.replace("*, model_bytes:", "*, folder: str | None = None, model_bytes:")
    (file.parent / "sums.py").write_text(text.replace("*, model_bytes)", "*, model_bytes, **_)"))
    file.write_text(SCENARIO.replace("sums.py,", f"sums.py, {given}"))
    scenario = load(file)
    folder = file.parent / "data" if found else None
    assert scenario.workload.options["folder"] == (str(folder) if folder else None)
    assert client._find_folders(scenario) == ({"folder": folder} if folder else {})


def test_the_schema_for_editors_accepts_files(file):
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (SCENARIO, resolve(load(file))):
        data = document.read(text, "x").data
        assert not list(validator.iter_errors(data))
        for section, key, policy in (("scheme", "plan", "bsp"), ("workload", "kind", "mine.py")):
            refused = {**data, section: {**data[section], key: "mine.txt"}}
            refused["scheme"]["policy"] = policy
            assert list(validator.iter_errors(refused))


def test_a_run_is_another_one_when_a_file_has_changed(file):
    before = provenance.identify_run(load(file))
    (file.parent / "plans" / "hub.py").write_text(PLAN + "# faster\n")
    assert provenance.identify_run(load(file)) != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read: no such file or directory"),
        ("def build(request):\n  return (\n", "line 2: '(' was never closed"),
        ("import nothing_like_it\n", "line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("BUILD = 1\n", "expected a file with a function build(request, *, ...)"),
        ("def build(request, rate): ...\n", "expected build in the form build(request, *, ...)"),
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
        ("return {}[request.group]", "scheme.plan: line 2: KeyError: ('s0', 's1')"),
        ("return 'a plan'", "scheme.plan: build gave 'a plan': expected a Plan"),
    ],
)
def test_a_plan_that_fails_when_it_is_tried_is_refused_before_the_run(file, body, said):
    (file.parent / "plans" / "hub.py").write_text(f"def build(request, *, rate=1):\n    {body}\n")
    file.write_text(SCENARIO.replace("rate: 5 Mbit/s", "rate: 1"))
    (found,) = problems(file)
    assert said in found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def model_bytes", "def size", "workload.kind: expected a file with a function model_b"),
        ("*, model_bytes)", "*, size)", "expected model_bytes in the form model_bytes(*, ...) "),
        ("rank, sites, seed,", "rank, sites,", "expected build in the form build(rank, sites, "),
        ("from", "PROGRAMS = True\nfrom", "workload.kind: expected a file without PROGRAMS"),
        ("return model_bytes", "return {}[1]", "workload: sums.py: line 7: KeyError: 1"),
        ("return model_bytes", "return 3", "workload: sums.py: model_bytes gave 3: expected an "),
        ("from", "def problems(s, **_): return [s]\nfrom", "expected a list of OptionError"),
        ("from", "def tensor_bytes(**_): return 8, 8\nfrom", "tensors: 16 in all: expected "),
    ],
)
def test_a_workload_that_cannot_be_one_is_refused_before_the_run(file, old, new, said):
    (file.parent / "sums.py").write_text(WORKLOAD.replace(old, new))
    (found,) = problems(file)
    assert said in found


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "def compute(self, iteration): return None",
            "compute gave None: expected a time in secon",
        ),
        (
            "def compute(self, iteration): return 1 / 0",
            "line 4: ZeroDivisionError: division by zero",
        ),
        (
            "def contribution(self): return np.zeros(250_000)",
            "float64 of shape (250000,): expected",
        ),
        (
            "def contribution(self): return np.zeros(9, 'f')",
            "float32 of shape (9,): expected conti",
        ),
        ("def evaluate(self): return 90.0", "evaluate gave 90.0: expected an Evaluation"),
    ],
)
def test_what_a_workload_gives_that_it_must_not_is_an_error_of_its_file(file, method, said):
    text = "import numpy as np\nfrom trunkline.workload import compute_time, synthetic\n"
    text += "class Mine(synthetic.Synthetic):\n"
    times = "compute_time.for_site(rank, sites, seed, 0.1, 1.0, None)"
    made = f"Mine(rank, seed, model_bytes // 4, {times})"
    body = WORKLOAD.replace("synthetic.build(rank, sites, seed, model_bytes=model_bytes)", made)
    (file.parent / "sums.py").write_text(f"{text}    {method}\n{body}")
    scenario = load(file)
    mine = scenario.workload.module.build(0, ("s0",), 1, **scenario.workload.options)
    with pytest.raises(UserCodeError, match=f"^sums.py: .*{re.escape(said)}"):
        mine.compute(0), mine.contribution(), mine.evaluate()


STEPS = """\
import numpy as np
{kind}
class Mine:
    def __init__(self, elements):
        self.model = np.zeros(elements, np.float32)
    def compute(self, iteration, batch=None):
        self.step = batch or 4
        return 0.1
    def contribution(self): return self.model
    def install(self, result): self.model[:] = result
    def evaluate(self): return None
{methods}
def build(rank, sites, seed, *, model_bytes: int): return Mine(model_bytes // 4)
def model_bytes(*, model_bytes): return model_bytes
"""
COMMIT = "    def commit(self): self.model += self.step\n"
CHANGE = "    def change(self): return np.full(self.model.size, self.step, 'f')\n"


def build_steps(file, kind, methods):
    (file.parent / "sums.py").write_text(STEPS.format(kind=kind, methods=methods))
    scenario = load(file)
    kind = scenario.workload.module
    return kind, lambda: kind.build(0, ("s0",), 1, **scenario.workload.options)


def test_a_workload_may_give_changes_and_take_a_batch(file):
    kind, build = build_steps(file, "GIVES_CHANGES = True", COMMIT + CHANGE)
    mine = build()
    assert gives_changes(kind) and gives_changes(mine) and takes_batch(mine)
    mine.compute(0, 7)
    mine.commit()
    assert (mine.contribution()[0], mine.change()[0]) == (7.0, 7.0)


def test_a_workload_need_not_give_changes(file):
    kind, build = build_steps(file, "", "")
    assert not gives_changes(kind) and not gives_changes(build())
    assert not hasattr(build(), "commit")


def test_a_target_of_a_workload_that_does_not_evaluate_says_what_its_file_lacks(file):
    file.write_text(SCENARIO.replace("{rounds: 2}", "{accuracy: 80 %}"))
    (said,) = problems(file)
    assert said.startswith("stop.accuracy: only with workload ")
    assert said.endswith("; sums.py has no accuracy: it does not say EVALUATES = True")


def load_with(file, kind):
    (file.parent / "sums.py").write_text(STEPS.format(kind=kind, methods=""))
    return load(file)


LAYERS = """\
from trunkline.workload import Base, Branch, LayeredModel, compute_time
def tensor_bytes(*, model_bytes): return (400, model_bytes - 400)
def layers(*, model_bytes):
    sizes = tensor_bytes(model_bytes=model_bytes)
    return LayeredModel(tuple(Base(str(n), (Branch("b", n, 0.1, 0.2),)) for n in sizes))
class Times:
    def __init__(self, model): self.model = model
    def layers(self, iteration, batch=None): return self.model
    def time_s(self, iteration, batch=None): return self.model.forward_s + self.model.backward_s
def compute_times(rank, sites, seed, *, model_bytes): return Times(layers(model_bytes=model_bytes))
"""


def test_a_workload_may_be_computed_in_layers(file):
    method = "    def layers(self, iteration, batch=None): return layers(model_bytes=1_000_000)\n"
    _, build = build_steps(file, LAYERS, method)
    assert isinstance(build(), WorkloadInLayers) and not isinstance(build(), WorkloadWithHooks)
    hooks = "".join(f"    def {n}(self, *_): ...\n" for n in ("begin", "receive", "compute_branch"))
    _, build = build_steps(file, LAYERS, method + hooks)
    assert isinstance(build(), WorkloadWithHooks)
    _, build = build_steps(file, LAYERS, "")
    with pytest.raises(UserCodeError, match=r"^sums.py: its workload has no layers"):
        build()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Base(str(n)", "Base(1/0", "workload: sums.py: line 6: ZeroDivisionError"),
        ('"b", n,', '"b", 8,', "workload: sums.py: layers gave branches of (8, 8) bytes: expected"),
        ('(Branch("b", n, 0.1, 0.2),)', "()", "layers gave base 400: branches (): expected a tup"),
        ('(Branch("b", n, 0.1, 0.2),)', "(n,)", "layers gave base 400: branches (400,): expected"),
        ("tuple(Base", "list(Base", "layers gave bases [Base(name='400', branches=(Branch(name="),
        ("tuple(Base(str(n),", "tuple(Base('m',", "gave base m: expected each name once"),
        ("Base(str(n)", "Base(''", "gave the name '': expected text that can be printed, not"),
        ('"b", n', "' ', n", "gave the name ' ': expected text that can be printed, not empty"),
        ('"b", n', "3, n", "gave the name 3: expected text that can be printed, not empty"),
        (
            "n, 0.1",
            "n + 0.5, 0.1",
            "base 400, branch b: parameter_bytes 400.5: expected an int above 0, a multiple of 4",
        ),
        ("0.1, 0.2", "-0.1, 0.2", "base 400, branch b: forward_s -0.1: expected a time in seconds"),
        ("0.1", "float('nan')", "base 400, branch b: forward_s nan: expected a time in seconds, 0"),
        ("0.2", "float('inf')", "base 400, branch b: backward_s inf: expected a time in seconds"),
        ("0.2", "'long'", "base 400, branch b: backward_s 'long': expected a time in seconds, 0"),
        (
            "return self.model\n",
            "return self.model.scaled(-1)\n",
            "sums.py: compute_times(...).layers gave base 400, branch b: forward_s -0.1: expected",
        ),
        (
            "return self.model\n",
            "return self.model.resized(2)\n",
            "compute_times(...).layers gave branches of (800, 1999200) bytes: expected those of te",
        ),
        ("def layers(self", "def l(self", "compute_times gave <sums_"),
        ("def time_s", "def t", "expected an object with a method time_s"),
        ("def layers(*", "def l(*", "Times has a method layers: expected a file with a function"),
        ("times(rank, sites,", "times(sites,", "compute_times in the form compute_times(rank, s"),
        ("return LayeredModel(", "return (", "expected a LayeredModel"),
        ("def tensor_bytes(", "def sizes(", "expected a file with layers and a function ten"),
        ("def compute_times(", "def times(", "expected a file with layers and a function com"),
    ],
)
def test_layers_that_do_not_fit_are_refused_before_the_run(file, old, new, said):
    assert old in LAYERS
    (file.parent / "sums.py").write_text(STEPS.format(kind=LAYERS.replace(old, new), methods=""))
    (found,) = problems(file)
    assert said in found


def test_the_times_of_each_iteration_in_layers_are_checked(file):
    text = LAYERS.replace("return self.model\n", "return self.model.scaled(2 - iteration)\n")
    text = text.replace("+ self.model.backward_s", "- iteration")
    method = (
        "    def layers(self, iteration, batch=None): return Times(layers(model_bytes=1_000_000)"
    )
    kind, build = build_steps(file, text, method + ").layers(iteration)\n")
    known = kind.compute_times(0, ("s0",), 1, model_bytes=1_000_000)
    assert known.layers(1).forward_s == pytest.approx(0.2) == known.time_s(0)
    said = r"base 400, branch b: forward_s -0\.1: expected a time in seconds, 0 or more$"
    with pytest.raises(UserCodeError, match=rf"^sums.py: compute_times\(...\).layers gave {said}"):
        known.layers(3)
    with pytest.raises(UserCodeError, match=rf"^sums.py: layers gave {said}"):
        build().layers(3)
    with pytest.raises(UserCodeError, match=r"^sums.py: compute_times\(...\).time_s gave -0.8: "):
        known.time_s(1)


def test_an_attribute_that_is_called_layers_is_no_workload_in_layers(file):
    text = "class Net:\n    layers = (1, 2)\n    def install(self): ...\n"
    assert load_with(file, text + "class Model:\n    def layers(self): ...\n").layers is None


@pytest.mark.parametrize(
    ("kind", "methods", "missing"),
    [
        ("GIVES_CHANGES = True", "", "commit"),
        ("GIVES_CHANGES = True", COMMIT, "change"),
        ("", COMMIT, "change"),
        ("", CHANGE, "commit"),
    ],
)
def test_a_workload_that_gives_changes_needs_both_methods(file, kind, methods, missing):
    _, build = build_steps(file, kind, methods)
    with pytest.raises(UserCodeError, match=f"^sums.py: its workload has no {missing}: expected"):
        build()


def test_a_change_that_is_no_model_is_refused(file):
    change = "    def change(self): return np.zeros(3, 'f')\n"
    _, build = build_steps(file, "GIVES_CHANGES = True", COMMIT + change)
    with pytest.raises(UserCodeError, match="change gave float32 of shape"):
        build().change()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("return {}[event.site]", "scheme.policy: line 8: KeyError: 's0'"),
        ("return 'x' * 70", f"step gave '{'x' * 56}...: expected a pair: the state, and a tuple"),
        ("return state", "scheme.policy: step gave frozenset(): expected a pair: the state, "),
        ("return state, [Proceed('s0')]", "a pair: the state, and a tuple of Start, Proceed and W"),
        ("return state, ('s0',)", "a pair: the state, and a tuple of Start, Proceed and Wake"),
        ("return state, (average(('s9',)),)", "scheme.policy: Start.group = ('s9',): expected a "),
        (
            "return state, (Proceed('s2'),)",
            "Proceed.site = 's2': expected a site that is ready: s0",
        ),
        ("return state, (Wake(1.0),)", "scheme.policy: Wake.at_s = 1.0: expected no Wake, "),
        ("self.timed = True; return state, (Wake(1.0),)", "Wake.at_s = 1.0: expected no Wake"),
    ],
)
def test_a_policy_that_fails_when_it_is_tried_is_refused_before_the_run(file, step, said):
    (file.parent / "mine.py").write_text(
        "from trunkline.policy import Proceed, Wake, average\n"
        "class Mine:\n"
        "    initial = frozenset()\n"
        "    def __init__(self, sites):\n"
        "        self.sites = sites\n"
        "\n"
        f"    def step(self, state, event):\n        {step}\n"
        "def create(sites): return Mine(sites)\n"
    )
    (found,) = problems(file)
    assert said in found


def test_a_misspelt_file_is_guessed(file):
    with pytest.raises(ScenarioErrors, match=r"minne.yaml: cannot read: .* did you mean /.*/mine"):
        load(file.with_name("minne.yaml"))
    file.write_text(SCENARIO.replace("plans/hub.py", "plans/hubb.py"))
    (found,) = problems(file)
    assert found.endswith("cannot read: no such file or directory: did you mean plans/hub.py?")


def test_what_a_policy_decides_wrongly_is_reported_where_the_command_names_it(file):
    step = "def step(self, state, event): return state, (average(('s9',)),)"
    text = POLICY.replace("pass", step).replace("PartialReduce", "PartialReduce, average", 1)
    (file.parent / "unknown.py").write_text(text)
    with pytest.raises(ScenarioErrors) as refused:
        load(file, ["scheme.policy=unknown.py"])
    start = "--set scheme.policy=unknown.py: scheme.policy: unknown.py: Start.group = ('s9',): "
    assert str(refused.value).startswith(start)


def test_a_topology_that_fails_is_refused_with_its_line(file):
    (file.parent / "wan.py").write_text(
        "def build(rng, *, count: int):\n    return 1 / (count - 3)\n"
    )
    assert problems(file) == ["topology.builder: line 2: ZeroDivisionError: division by zero"]


def test_code_that_nothing_names_is_refused(file):
    file.write_text(f"{SCENARIO}code: {{other.py: ''}}\n")
    named = "workload.kind or model, scheme.plan or policy"
    assert problems(file) == [f"code.other.py: expected what {named} names"]


@given(st.text(max_size=60))
def test_text_of_any_lines_survives_being_written(text):
    given_back = document.read(document.write({"code": {"a.py": text}}), "x")
    if not given_back.problems:
        assert given_back.data == {"code": {"a.py": text}}
    else:  # a character that YAML has no form for
        assert not text.isprintable()
