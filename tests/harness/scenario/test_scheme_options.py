"""Options of policies and plans: all that are out of bounds are reported at once."""

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import parse

SCENARIO = """\
topology: {builder: full_mesh, sites: 4, rates: 50 Mbit/s}
workload: {kind: synthetic, model: 1 MB}
stop: {rounds: 3}
"""

OPTIONS = [
    ("policy: r2sp", "relaxation", {"-0.1": "0 or more", "1.1": "1 or less"}),
    ("policy: r2sp", "patience", {"0.5": "1 or more"}),
    ("policy: r2sp", "at_once", {"0": "1 or more"}),
    ("policy: r2sp", "batch", {"0": "1 or more"}),
    ("policy: r2sp", "wait", {"both": "one of push, pull"}),
    ("policy: r2sp", "iteration_time", {"max": "one of mean, slowest"}),
    ("policy: ps", "momentum", {"-0.1": "0 or more", "1.0": "less than 1"}),
    ("policy: ps", "share", {"0.0": "1.175494e-38 or more", "1.0e+300": "3.402823e+38 or less"}),
    ("policy: ps", "bound", {"-1": "0 or more"}),
    ("policy: ps", "backups", {"0": "1 or more"}),
    ("policy: safa", "fraction", {"0.0": "more than 0", "1.5": "1 or less"}),
    ("policy: safa", "lag", {"-1": "0 or more"}),
    ("policy: fl_r2sp", "similarity", {"-1.5": "-1 or more", "1.5": "1 or less"}),
    ("policy: fl_r2sp", "strikes", {"0": "1 or more"}),
    ("policy: fl_r2sp", "groups", {"0": "1 or more"}),
    ("policy: fl_r2sp", "wait", {"both": "one of push, pull"}),
    ("policy: fl_r2sp", "mix", {"sum": "one of paper, delta"}),
    ("policy: eager_reduce", "quorum", {"0": "1 or more"}),
    ("policy: preduce", "filter", {"both": "one of prevent, repair"}),
    ("policy: preduce", "decay", {"0.0": "more than 0", "1.0": "less than 1"}),
    ("plan: bkt", "k", {"0": "1 or more"}),
    ("plan: blink", "trees", {"0": "1 or more"}),
    ("plan: fapt", "roots", {"0": "1 or more"}),
    ("plan: ipart", "startup", {"-1 s": "a time of 0 or more", "1 h": "less than 3600"}),
    ("plan: owl", "groups", {"0": "1 or more"}),
    ("plan: toa", "aggregators", {"0": "1 or more"}),
    ("plan: toa", "steps", {"-1": "0 or more"}),
]


def refuse(scheme: str) -> list[str]:
    with pytest.raises(ScenarioErrors) as refused:
        parse(f"{SCENARIO}scheme: {{{scheme}}}\n", "x.yaml")
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("component", "option", "value", "allowed"),
    [(name, key, value, words) for name, key, each in OPTIONS for value, words in each.items()],
)
def test_a_value_out_of_bounds_is_refused(component, option, value, allowed):
    (line,) = refuse(f"{component}, {option}: {value}")
    assert line.startswith(f"x.yaml:4: scheme.{option}: ")
    assert line.endswith(f": expected {allowed}")


def test_all_values_out_of_bounds_are_reported_at_once():
    assert refuse("policy: r2sp, at_once: 0, patience: 0.5, momentum: 1.0, plan: bkt, k: 0") == [
        "x.yaml:4: scheme.patience: 0.5: expected 1 or more",
        "x.yaml:4: scheme.at_once: 0: expected 1 or more",
        "x.yaml:4: scheme.momentum: 1.0: expected less than 1",
        "x.yaml:4: scheme.k: 0: expected 1 or more",
    ]
    assert refuse("policy: safa, lag: -1, fraction: 0.0") == [
        "x.yaml:4: scheme.fraction: 0.0: expected more than 0",
        "x.yaml:4: scheme.lag: -1: expected 0 or more",
    ]


@pytest.mark.parametrize(("key", "value"), [("at_once", "4"), ("strict", "true")])
def test_an_option_of_pushes_that_wait_is_refused_where_pulls_wait(key, value):
    assert refuse(f"policy: r2sp, wait: pull, {key}: {value}") == [
        f"x.yaml:4: scheme.{key}: {value}: expected none with wait: pull, as pushes do not wait"
    ]


def test_a_mix_that_needs_all_updates_of_a_group_is_refused_where_they_come_alone():
    assert refuse("policy: fl_r2sp, wait: pull") == [
        "x.yaml:4: scheme.wait: pull: expected push, as mix: paper needs all updates at once"
    ]


def test_a_policy_that_uses_servers_refuses_an_empty_list_of_them():
    assert refuse("policy: r2sp, servers: []") == [
        "x.yaml:4: scheme.servers: []: expected a site or more; without this key, "
        "the first site is the server"
    ]
    scenario = parse(f"{SCENARIO}scheme: {{policy: preduce, servers: []}}\n", "x.yaml")
    assert scenario.scheme.servers == ()  # as a resolved scenario has it


def test_a_value_that_depends_on_the_number_of_sites_is_reported_beside_them():
    assert refuse("policy: eager_reduce, quorum: 9, momentum: 1.0") == [
        "x.yaml:4: scheme.momentum: 1.0: expected less than 1",
        "x.yaml:4: scheme.quorum: 9: expected 1 to 4, the number of sites",
    ]


FILE = """
topology: {builder: racks, racks: 2, sites_per_rack: 2, intra_rate: 50 Mbit/s}
workload: {kind: training, channels: 4, compute: 1 s}
scheme: {policy: preduce, p: 3, plan: crew, split: even, chunk: 8 kB}
stop: {rounds: 1}
"""


@pytest.mark.parametrize(
    ("changes", "removed"),
    [
        (["scheme.policy=bsp"], "p: 3, "),
        (["scheme.plan=ring"], "split: even, "),
        (["scheme.plan=opr"], "nothing"),  # it has `split`, too
        (["workload.kind=synthetic"], "channels: 4, "),
    ],
)
def test_a_component_that_set_replaces_takes_its_options_with_it(changes, removed):
    changed = parse(FILE, "x.yaml", changes)
    assert changed == parse(FILE.replace(removed, ""), "x.yaml", changes)
    assert changed != parse(FILE, "x.yaml")


@pytest.mark.parametrize("text", [FILE, FILE.replace("policy: preduce, ", "name: crew, ")])
def test_the_name_of_a_scheme_that_set_gives_replaces_policy_and_plan(text):
    only = FILE.replace("policy: preduce, p: 3, plan: crew, split: even", "name: ps-asp")
    changed = parse(text.replace("plan: crew, ", ""), "x.yaml", ["scheme.name=ps-asp"])
    assert changed == parse(text, "x.yaml", ["scheme.name=ps-asp"]) == parse(only, "x.yaml")
    both = ["scheme.name=ps-asp", "scheme.plan=star"]
    for changes in (both, both[::-1]):
        assert parse(text, "x.yaml", changes).scheme.plan.kind == "star"


def test_an_option_of_another_policy_is_refused_beside_a_name_that_set_gives():
    with pytest.raises(ScenarioErrors, match=r"scheme\.p: 2: unknown key"):
        parse(FILE, "x.yaml", ["scheme.name=ps-asp", "scheme.p=2"])


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["scheme.policy=bsp", "scheme.p=2"], "p"),  # given with the policy that lacks it
        (["scheme.policy=bsp", "scheme.speed=2"], "speed"),
        ([], "p"),  # nothing is replaced
    ],
)
def test_an_option_that_belongs_to_no_chosen_component_is_refused_all_the_same(changes, key):
    text = FILE if changes else FILE.replace("preduce", "bsp")
    with pytest.raises(ScenarioErrors) as caught:
        parse(text, "x.yaml", changes)
    assert f"scheme.{key}: " in str(caught.value)
    assert "unknown key" in str(caught.value)
