"""Exclusions are judged: a falsified log of a run with an outlier does not pass."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import wan as wans
from wan import Integers, Wan, mesh

from trunkline.agents.policies import fl_r2sp
from trunkline.harness.checks.judging import CHECKS
from trunkline.harness.checks.verdict import Check

CLIENTS, SERVERS = ("n1", "n2", "n3", "n4"), ("s1",)
DECIDED, PROTOCOL = "policy decisions match their replay", "workers followed the protocol"

Log = list[dict[str, Any]]


class Opposed(Integers):
    """The updates of the second client point away from all others."""

    def commit(self) -> None:
        self.model += self.step + 100 * (-1 if self.rank == 1 else 1)


@pytest.fixture(scope="module")
def wan() -> Any:
    policy = fl_r2sp.create(CLIENTS, servers=SERVERS, groups=2, fraction=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wans, "Integers", Opposed)
        made = Wan(mesh((*CLIENTS, *SERVERS)), "ps", policy, rounds=60, servers=SERVERS)
        made.run()
    return made


def judge(wan: Any, name: str, change: Callable[[Log], Log] = list) -> tuple[str, str]:
    log = sorted(json.loads(json.dumps(wan.events)), key=lambda line: line["t_ns"])
    check = Check.of(name, "", CHECKS[name][1](wan.history(change(log)), wan.rules()))
    return check.outcome, check.detail


def of(log: Log, event: str) -> list[dict[str, Any]]:
    return [line for line in log if line["event"] == event]


def test_the_log_itself_passes(wan: Any) -> None:
    assert judge(wan, DECIDED)[0] == judge(wan, PROTOCOL)[0] == "pass"
    assert len(of(wan.events, "site_excluded")) == 1


def test_a_policy_is_told_only_similarities_that_sites_have_found(wan: Any) -> None:
    def change(log: Log) -> Log:
        told = [line for line in of(log, "policy_told") if line["told"] == "compared"]
        told[-1]["values"]["similarity"] = 0.875
        return log

    outcome, detail = judge(wan, DECIDED, change)
    assert outcome == "fail" and "similarity=0.875" in detail and "has not happened" in detail


@pytest.mark.parametrize("name", [DECIDED])
def test_an_outlier_that_was_not_excluded_is_found(wan: Any, name: str) -> None:
    outcome, detail = judge(
        wan, name, lambda log: [line for line in log if line["event"] != "site_excluded"]
    )
    assert outcome == "fail" and "the replay that n2 is excluded" in detail


def test_another_site_than_the_outlier_must_not_be_excluded(wan: Any) -> None:
    def change(log: Log) -> Log:
        of(log, "site_excluded")[0]["worker"] = "n3"
        return log

    assert judge(wan, DECIDED, change)[0] == "fail"
    outcome, detail = judge(wan, PROTOCOL, change)
    assert outcome == "fail" and "n3 was excluded, but began iteration" in detail


def test_a_similarity_is_a_cosine(wan: Any) -> None:
    def change(log: Log) -> Log:
        of(log, "compared")[0]["similarity"] = 1.5
        return log

    outcome, detail = judge(wan, PROTOCOL, change)
    assert outcome == "fail" and "1.5 is not a similarity" in detail
