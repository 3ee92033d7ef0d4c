"""Words for schemes, policies and plans that stand at a wrong key, or that others use."""

import pytest
import yaml

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.named_schemes import OTHER_WORDS, SCHEMES

SITES = """\
topology: {builder: full_mesh, sites: 4, rates: 50 Mbit/s}
workload: {kind: synthetic, model: 1 MB}
stop: {rounds: 3}
"""


def refuse(scheme):
    with pytest.raises(ScenarioErrors) as refused:
        parse(f"{SITES}scheme: {scheme}", "x.yaml")
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("scheme", "hints"),
    [
        ("{policy: ring}", ["policy: ring: this is the name of a plan: policy: bsp, plan: ring; "]),
        ("{policy: bsp, plan: safa}", ["plan: safa: this is the name of a scheme: scheme: safa, or "
                                       "policy: safa, plan: ps; expected one of a2a"]),
        ("{policy: bsp, plan: bsp}", ["plan: bsp: this is the name of a policy: policy: bsp, plan: "
                                      "ring; expected one of a2a"]),
        ("{policy: bsp, plan: preduce}", ["plan: preduce: this is the name of a scheme: scheme: "
                                          "p-reduce, or policy: preduce, plan: ring; expected"]),
        ("{policy: all-reduce, plan: AllReduce}",
         [f"{key}: {value}: this is the name of a scheme: scheme: allreduce, or policy: bsp, plan: "
          "ring; expected" for key, value in (("policy", "all-reduce"), ("plan", "AllReduce"))]),
        ("{policy: fedavg}", ["policy: fedavg: did you mean scheme: fl-bsp, or policy: fl_r2sp, "
                              "plan: ps, groups: 1? expected one of ad_psgd"]),
        ("{policy: asp, plan: ps}", ["policy: asp: did you mean scheme: ps-asp, or policy: ps, "
                                     "plan: ps, mode: asp? expected one of ad_psgd"]),
        ("{policy: bsp, plan: tree}", ["plan: tree: did you mean policy: bsp, plan: fapt? exp"]),
        ("{policy: BSP, plan: Ring}", ["policy: BSP: did you mean bsp? expected",
                                       "plan: Ring: did you mean ring? expected"]),
        ("{policy: preduc, plan: xyz}", ["policy: preduc: did you mean preduce? expected",
                                         "plan: xyz: expected one of a2a"]),
    ],
)  # fmt: skip
def test_a_word_at_the_wrong_key_and_one_of_others_lead_to_the_right_ones(scheme, hints):
    told = refuse(scheme)
    assert len(told) == len(hints)
    for text, hint in zip(told, hints, strict=True):
        assert text.partition("scheme.")[2].startswith(hint)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("ring", "this is the name of a plan: policy: bsp, plan: ring; expected one of crew"),
        ("ps", "this is the name of a policy: policy: ps, plan: ps; expected one of crew"),
        ("Async", "did you mean scheme: ps-asp, or policy: ps, plan: ps, mode: asp? expected"),
        ("ps_bsp", "did you mean ps-bsp? expected one of crew"),
        ("{name: gossip}", "did you mean scheme: ad-psgd, or policy: ad_psgd, plan: ring? expe"),
    ],
)
def test_a_word_that_is_no_scheme_leads_to_one(word, hint):
    (told,) = refuse(word)
    assert hint in told


@pytest.mark.parametrize("word", sorted(OTHER_WORDS))
def test_every_hint_is_a_scheme_that_can_be_read(word):
    (told,) = refuse(word)
    meant = told.partition("did you mean ")[2].partition("?")[0]
    name, _, rest = meant.removeprefix("scheme: ").partition(", or ")
    pairs = yaml.safe_load(f"{{{rest or name}}}")
    assert parse(f"{SITES}scheme: {pairs}", "x.yaml").scheme.policy.kind == pairs["policy"]
    assert not rest or SCHEMES[name] == pairs
