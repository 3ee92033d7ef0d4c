"""The model of a site: what it contributes, what it keeps, what results make of it."""

import numpy as np
import pytest
from wan import Integers

from trunkline.agents.events.task_events import Roles
from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.wire.agent_settings import AgentError

ELEMENTS = 4


def roles(keep=1.0, momentum=0.0):
    return Roles(("s",), (), keep, momentum, "proceed")


def model(**options):
    return SiteModel(Integers(0, ELEMENTS, 0.0), cut_model(ELEMENTS, ELEMENTS), **options)


def result(*values):
    return np.array(values, np.float32)


def iterate(site, iteration):
    """One iteration; returns the change that it makes."""
    site.compute(iteration, None)
    site.commit(iteration)
    return site.workload.change().copy()


def test_a_server_contributes_the_version_that_it_has_and_sends_on_what_it_contributed():
    server = model(shard=((0, 1),))
    first = server.contribute(0, lasting=True)
    server.merge(result(1, 2, 3, 4), roles())
    np.testing.assert_array_equal(server.contribute(1, lasting=True), result(1, 2, 3, 4))
    np.testing.assert_array_equal(first, np.zeros(ELEMENTS))


def test_a_merge_adds_the_step_before_times_the_momentum():
    server = model(shard=((0, 1),))
    for _ in range(3):
        merge = server.merge(result(8, 8, 8, 8), roles(momentum=0.5))
    np.testing.assert_array_equal(merge.step, np.full(ELEMENTS, 8 + 0.5 * (8 + 0.5 * 8)))
    np.testing.assert_array_equal(merge.model, merge.base + merge.step)
    np.testing.assert_array_equal(server.model, merge.model)


def test_a_merge_may_keep_a_share_of_the_initial_model():
    worker = model(initial=result(4, 4, 8, 8))
    half = Roles(("s",), (), 0.5, 0.0, "proceed", "initial")
    for _ in range(2):
        merge = worker.merge(result(1, 2, 3, 4), half)
        np.testing.assert_array_equal(merge.base, result(4, 4, 8, 8))
        np.testing.assert_array_equal(worker.model, result(3, 4, 7, 8))
    with pytest.raises(AgentError, match="was not kept"):
        model().merge(result(1, 2, 3, 4), half)


@pytest.mark.parametrize("gives", ["model", "update"])
def test_a_step_is_compared_once_with_what_the_new_model_adds_to_the_old_one(gives):
    worker = model(gives=gives, compares=True)
    worker.workload.model[:] = 1
    step = iterate(worker, 0) - (1 if gives == "model" else 0)  # its models replace the one before
    worker.merge(result(3, 1, 1, 1), None)
    assert worker.compare() == pytest.approx(step[0] / np.linalg.norm(step))
    assert worker.compare() is None
    worker.merge(result(5, 5, 5, 5), None)
    assert worker.compare() is None


def test_a_model_that_stays_as_it_is_cannot_be_compared_and_no_step_need_be():
    worker = model(compares=True)
    iterate(worker, 0)
    worker.merge(np.zeros(ELEMENTS, np.float32), None)
    assert worker.compare() is None
    plain = model()
    iterate(plain, 0)
    plain.merge(result(1, 2, 3, 4), None)
    assert plain.compare() is None


@pytest.mark.parametrize("accumulates", [False, True])
def test_an_update_is_given_again_only_if_no_task_has_taken_it(accumulates):
    worker = model(gives="update", accumulates=accumulates)
    first = iterate(worker, 0)
    for task in (0, 1):
        np.testing.assert_array_equal(worker.contribute(task, lasting=True), first)
        worker.end(task, taken=task == 1)
    np.testing.assert_array_equal(worker.contribute(2, lasting=True), np.zeros(ELEMENTS))


def test_an_update_that_no_task_has_taken_is_added_to_the_next_one_or_dropped():
    for accumulates in (False, True):
        worker = model(gives="update", accumulates=accumulates)
        first = iterate(worker, 0)
        worker.contribute(0, lasting=True)
        second = iterate(worker, 1)
        worker.end(0, taken=False)
        wanted = first + second if accumulates else second
        np.testing.assert_array_equal(worker.contribute(1, lasting=True), wanted)


def test_each_new_model_is_published_and_no_update_is():
    seen = []

    def publish(vector):
        seen.append(vector.copy())

    worker = model(publish=publish)
    iterate(worker, 0)
    worker.merge(result(1, 2, 3, 4), None)
    worker.merge(result(1, 1, 1, 1), roles())
    wanted = [np.zeros(ELEMENTS), worker.workload.step, result(1, 2, 3, 4), result(2, 3, 4, 5)]
    np.testing.assert_array_equal(seen, wanted)
    seen.clear()
    learner = model(gives="update", publish=publish)
    iterate(learner, 0)
    learner.merge(result(5, 5, 5, 5), None)
    np.testing.assert_array_equal(seen, [np.zeros(ELEMENTS), result(5, 5, 5, 5)])
    seen.clear()
    server = model(shard=((0, 0),), publish=publish)
    server.merge(result(8, 8, 8, 8), roles())
    np.testing.assert_array_equal(seen, [np.zeros(ELEMENTS), result(8, 8, 8, 8)])
