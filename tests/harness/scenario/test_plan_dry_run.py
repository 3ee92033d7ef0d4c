"""What a plan will refuse at run time is refused before anything runs."""

import pytest

from trunkline.agents import registry
from trunkline.harness.commands import main
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.kernel import KernelError
from trunkline.harness.runs.runner import check_machine
from trunkline.harness.scenario.loading import load, parse
from trunkline.harness.scenario.plan_dry_run import first_task, list_notes

SCENARIO = """\
topology: {{builder: full_mesh, sites: 5, rates: 50 Mbit/s}}
workload: {{kind: synthetic, model: 10 MB}}
scheme: {scheme}
stop: {{tasks: 3}}
"""


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (
            "{plan: fapt, roots: 9}",
            "x.yaml:3: scheme.roots: 9: expected 1 to the number of sites, 5",
        ),
        ("{plan: bkt, k: 0}", "x.yaml:3: scheme.k: 0: expected 1 or more"),
    ],
)
def test_an_option_that_the_plan_refuses_is_a_problem_of_the_scenario(scheme, said):
    with pytest.raises(ScenarioErrors) as refused:
        parse(SCENARIO.format(scheme=scheme), "x.yaml")
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        (["workload.model=1.2 GB"], True),
        (["workload.model=1.4 GB"], False),
        (["workload.model=1.4 GB", "limits.memory=8 GB"], True),
        (["workload.model=1.4 GB", "backend=host"], True),
    ],
)
def test_models_that_cannot_fit_are_known_before_anything_runs(changes, fits):
    scenario = parse(SCENARIO.format(scheme="{plan: ring}"), "x.yaml", changes)
    if fits:
        assert list_notes(scenario) == ()
        return
    said = (
        "limits.memory, 6 GiB: the models of 5 sites alone take 7 GB; "
        "remedy: a smaller model, fewer sites, or more limits.memory"
    )
    assert list_notes(scenario) == (f"it can be predicted, but not run: {said}",)
    with pytest.raises(KernelError) as refused:
        check_machine(scenario)
    assert str(refused.value) == said


def note_faults(fault, stop="{rounds: 8}"):
    """The notes on a run with a fault at 3 s, whose controller is at n1."""
    text = SCENARIO.format(scheme="{policy: bsp, plan: ring}").replace("{tasks: 3}", stop)
    timeline = f"timeline: [{{at: 1 s, do: heal}}, {{at: 3 s, do: '{fault}'}}]"
    return list_notes(parse(text + timeline, "x.yaml"))


def test_a_fault_that_may_make_a_site_do_its_rounds_alone_has_a_note():
    assert note_faults("outage n1 n4 for 4 s", "{rounds: 8, time: 9 s}") == (
        "stop.rounds, 8: outage n1 n4 both blackhole for 4 s, at 3 s, may cut a site off from the "
        "controller; the site may do its last rounds alone and then take part in no more tasks: "
        "stop by tasks or time instead",
    )
    assert note_faults("outage n1 n4 for 4 s", "{tasks: 8}") == ()


@pytest.mark.parametrize(
    ("fault", "cuts_off"),
    [
        ("flap n4 n1 every 1 s", True),
        ("isolate n4", True),
        ("partition n4,n5", True),
        ("pause controller for 4 s", True),
        ("churn oneways=9s", True),
        ("outage n3 n4", False),
        ("setlink n1 n4 rate=1Mbit/s", False),
        ("pause n4 for 4 s", False),
        ("churn pauses=9s", False),
    ],
)
def test_only_faults_that_may_cut_a_site_off_from_the_controller_have_the_note(fault, cuts_off):
    assert bool(note_faults(fault)) == cuts_off


STAR = """
import itertools
from trunkline.plan import Block, Plan, PlanRequest


def build(request: PlanRequest) -> Plan:
    root = {draw}.choice(request.group)
    others = [site for site in request.group if site != root][{first}:]
    ways = tuple((site, root) for site in others), tuple((root, site) for site in others)
    blocks = (Block(((0, request.chunk_count),), root, *ways),)
    return Plan(request.group, request.group, request.chunk_count, blocks)


class Turns:
    count = itertools.count()

    def choice(self, group):
        return group[next(self.count) % len(group)]
"""


def write_plan(folder, **parts):
    """A scenario with a plan of its own, and the scenario's file."""
    text = STAR.replace("{draw}", parts.get("draw", "request.rng"))
    (folder / "mine.py").write_text(text.replace("{first}", parts.get("first", "0")))
    (folder / "x.yaml").write_text(SCENARIO.format(scheme="\n  plan: mine.py\n  p: 5"))
    return folder / "x.yaml"


def test_a_plan_that_draws_from_its_request_is_accepted(tmp_path):
    assert load(write_plan(tmp_path)).scheme.plan.kind == "mine.py"


def test_a_plan_that_draws_elsewhere_is_refused_where_it_is_named(tmp_path):
    """Each call takes the next site: numbers drawn at random are equal now and then."""
    with pytest.raises(ScenarioErrors) as refused:
        load(write_plan(tmp_path, draw="Turns()"))
    assert str(refused.value).endswith(
        "x.yaml:4: scheme.plan: mine.py: two calls of build with equal requests gave different "
        "plans: expected one that depends on its request alone, with random numbers of request.rng"
    )


def test_a_wrong_plan_is_refused_where_the_command_names_it(tmp_path):
    file = write_plan(tmp_path, first="1")
    with pytest.raises(ScenarioErrors) as refused:
        load(file, ["scheme.plan=mine.py"])
    said = str(refused.value)
    assert said.startswith("--set scheme.plan=mine.py: scheme.plan: mine.py: block 0 at n")
    assert ": its sum lacks n" in said


def test_a_plan_that_a_loss_would_break_has_a_note(tmp_path, capsys):
    file = write_plan(tmp_path)
    assert list_notes(load(file)) == ()
    star = (tmp_path / "mine.py").read_text()
    whole = star.replace("for site in request.group if", "for site in request.sites if")
    (tmp_path / "mine.py").write_text(whole)
    note = (
        "mine.py: without n1, its plan is wrong: block 0 at n2: n1 is in the in-tree and has "
        "nothing to send (plan mine.py, task 0 of n2, n3, n4, n5); a run that loses a site would "
        "fail"
    )
    assert list_notes(load(file)) == (note,)
    assert main.main(["validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n{file}: note: {note}\n"


def test_a_plan_that_leaves_the_program_is_refused_where_it_does(tmp_path):
    file = write_plan(tmp_path)
    leaving = (
        (tmp_path / "mine.py")
        .read_text()
        .replace("    root =", "    raise SystemExit(0)\n    root =")
    )
    (tmp_path / "mine.py").write_text(leaving)
    with pytest.raises(ScenarioErrors, match=r"scheme.plan: mine.py: line 7: SystemExit: 0"):
        load(file)


def test_every_plan_is_rehearsed_without_complaint():
    for plan in registry.plans():
        parse(SCENARIO.format(scheme=f"{{plan: {plan}, p: 3}}"), "x.yaml")


@pytest.mark.parametrize(
    ("scheme", "group"),
    [("{p: 2}", ("n1", "n2")), ("{policy: bsp}", ("n1", "n2", "n3", "n4", "n5"))],
)
def test_the_sample_group_is_the_first_that_the_policy_makes(scheme, group):
    task = first_task(parse(SCENARIO.format(scheme=scheme), "x.yaml"))
    assert (None if task is None else task.start.group) == group


LATER = """
from trunkline.policy import Ready, Tick, Wake, average

class Later:
    timed = True
    initial = ()

    def step(self, ready, event):
        match event:
            case Ready(site):
                return (*ready, site), (Wake(event.at_s + 1.0),)
            case Tick():
                return (), (average(ready),)
        return ready, ()

def create(sites):
    return Later()
"""


def test_the_sample_group_of_a_policy_that_knows_time_may_begin_at_a_tick(tmp_path):
    (tmp_path / "later.py").write_text(LATER)
    (tmp_path / "x.yaml").write_text(SCENARIO.format(scheme="{policy: later.py}"))
    task = first_task(load(tmp_path / "x.yaml"))
    assert task is not None
    assert task.start.group == ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize(
    ("key", "owners"),
    [("p", "policy preduce"), ("split", "plan crew, plan opr"), ("roots", "plan fapt)")],
)
def test_an_unknown_key_names_the_policies_and_plans_that_have_it(key, owners):
    with pytest.raises(ScenarioErrors) as refused:
        parse(SCENARIO.format(scheme=f"{{policy: bsp, plan: ring, {key}: 3}}"), "x.yaml")
    said = f"x.yaml:3: scheme.{key}: 3: unknown key (an option of {owners}"
    assert str(refused.value).startswith(said)
