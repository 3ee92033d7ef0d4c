"""FL-R2SP and SAFA in whole runs in one process, with clients that are lost, late or outliers."""

import numpy as np
import pytest
import wan as wans
from faults import until
from wan import CHUNK_BYTES, Integers, Wan, contribution, mesh, schedule

from trunkline.agents.policies import fl_r2sp, safa
from trunkline.agents.policies.random_draws import create_policy
from trunkline.workloads.base import fingerprint

ELEMENTS = 4000
CLIENTS = ("n1", "n2", "n3", "n4")


def play(create, servers=("s1",), scenario=None, rounds=4, backup=False, speeds=(), **options):
    policy = create_policy(create, CLIENTS, options, "seed", servers)
    sites = (*CLIENTS, *servers)
    wan = Wan(mesh(sites), "ps", policy, rounds=rounds, servers=servers, backup=backup)
    wan.compute_s = dict(speeds)
    wan.run(scenario)
    return wan


def list_pushes(wan):
    """For each version of the only server: the models in it, its keep and scale, and the event."""
    started = {event["task"]: event for event in wan.of("task_started")}
    iterations = {(e["task"], e["site"]): e["iteration"] for e in wan.of("contributed")}
    for event in wan.of("model_merged"):
        start = started[event["task"]]
        models = [(site, iterations[event["task"], site]) for site in start["weights"]]
        yield models, start["roles"]["keep"], start["scale"], event


def check(wan):
    """Each version of the server keeps its share of the one before; returns the pushed models."""
    seen, model = set(), np.zeros(ELEMENTS, np.float32)
    for models, keep, scale, event in list_pushes(wan):
        assert not seen.intersection(models)
        seen.update(models)
        terms = [contribution(wan.sites.index(site), i, ELEMENTS) for site, i in models]
        model = np.float32(keep) * model + np.float32(scale) * sum(terms)
        right = fingerprint(model, CHUNK_BYTES)
        np.testing.assert_allclose(event["fingerprint"], right, rtol=1e-5, atol=1.0)
    return seen


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_every_version_is_a_mix_of_the_one_before_and_a_groups_mean(groups):
    wan = play(fl_r2sp.create, groups=groups, fraction=1.0, similarity=None)
    assert check(wan) == {(site, iteration) for site in CLIENTS for iteration in range(4)}
    assert {keep for _, keep, _, _ in list_pushes(wan)} == {(groups - 1) / groups}
    assert not wan.of("compared")
    assert wan.verdict().outcome == "pass"


def test_every_version_adds_a_share_of_what_a_group_has_changed():
    wan = play(fl_r2sp.create, groups=2, fraction=1.0, mix="delta")
    assert check(wan) == {(site, iteration) for site in CLIENTS for iteration in range(4)}
    assert {(keep, scale) for _, keep, scale, _ in list_pushes(wan)} == {(1.0, 0.25)}
    assert wan.verdict().outcome == "pass"


def test_clients_push_alone_if_their_pull_waits_for_the_turn_of_their_group():
    options = {"groups": 2, "fraction": 1.0, "similarity": None, "patience": 100.0}
    wan = play(fl_r2sp.create, mix="delta", wait="pull", **options)
    assert check(wan) == {(site, iteration) for site in CLIENTS for iteration in range(4)}
    assert {len(models) for models, *_ in list_pushes(wan)} == {1}
    pulls = [set(e["group"]) - {"s1"} for e in wan.of("task_started") if e["scale"] == 1]
    assert pulls == [{"n1", "n3"}, {"n2", "n4"}] * 4
    assert wan.verdict().outcome == "pass"


def test_a_straggler_only_pulls():
    wan = play(
        fl_r2sp.create, rounds=6, groups=1, fraction=0.75, similarity=-1.0, speeds={"n4": 0.45}
    )
    check(wan)
    groups = [{site for site, _ in models} for models, *_ in list_pushes(wan)]
    assert groups[:6] == [{"n1", "n2", "n3"}] * 6
    assert set(*groups[6:7]) == {"n4"}  # the others have left
    assert wan.verdict().outcome == "pass"
    assert {e["site"]: e["rounds"] for e in wan.of("worker_finished")} == dict.fromkeys(CLIENTS, 6)


@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2")])
def test_a_client_whose_updates_point_elsewhere_is_excluded_and_the_others_go_on(servers):
    class Opposed(Integers):
        """Its updates point away from those of all others."""

        def commit(self):
            self.model += self.step + 100 * (-1 if self.rank == 1 else 1)

    wan = play_with(Opposed, servers, groups=2, fraction=1.0, rounds=8)
    assert [event["worker"] for event in wan.of("site_excluded")] == ["n2"]
    assert {e["site"]: e["rounds"] for e in wan.of("worker_finished")} == {
        "n1": 8,
        "n2": 3,
        "n3": 8,
        "n4": 8,
    }
    similar = {site: [] for site in CLIENTS}
    for event in wan.of("compared"):
        similar[event["site"]].append(event["similarity"])
    assert max(similar["n2"]) < -0.5 and min(similar["n1"] + similar["n3"]) > 0.5
    verdict = wan.verdict()
    assert verdict.outcome == "pass", verdict


def play_with(workload, servers, rounds, **options):
    policy = fl_r2sp.create(CLIENTS, servers=servers, **options)
    before, wans.Integers = wans.Integers, workload
    try:
        wan = Wan(mesh((*CLIENTS, *servers)), "ps", policy, rounds=rounds, servers=servers)
        wan.run()
    finally:
        wans.Integers = before
    return wan


def test_an_excluded_client_that_is_started_again_is_excluded_again():
    async def restart(wan):
        await until(wan, "site_excluded")
        site = wan.of("site_excluded")[0]["worker"]
        wan.kill(site)
        await until(wan, "worker_lost")
        wan.restart(site)

    wan = play(fl_r2sp.create, scenario=restart, rounds=12, groups=2, similarity=1.0, strikes=2)
    workers = [event["worker"] for event in wan.of("site_excluded")]
    assert set(workers) == set(CLIENTS)  # integers point everywhere, so no update is that similar


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("servers", [("s1",), ("s1", "s2")])
def test_the_rotation_of_groups_goes_on_whatever_is_lost(seed, servers):
    async def faults(wan):
        await schedule(seed, wan)(wan)

    options = {"groups": 1 + seed % 3, "fraction": (0.5, 0.75, 1.0)[seed % 3], "similarity": None}
    options["mix"] = ("paper", "delta")[seed // 2 % 2]
    options["wait"] = "pull" if seed // 2 % 4 == 1 else "push"
    wan = play(fl_r2sp.create, servers, faults, rounds=30, backup=bool(seed % 2), **options)
    assert {e["site"] for e in wan.of("worker_finished")} == set(CLIENTS)
    assert wan.verdict().outcome == "pass"


@pytest.mark.parametrize("seed", range(4))
def test_safa_takes_stale_updates_once_whatever_is_lost(seed):
    async def faults(wan):
        await schedule(seed, wan)(wan)

    wan = play(safa.create, ("s1",), faults, rounds=30, fraction=0.5, lag=2)
    assert {e["site"] for e in wan.of("worker_finished")} == set(CLIENTS)
    assert wan.verdict().outcome == "pass"
