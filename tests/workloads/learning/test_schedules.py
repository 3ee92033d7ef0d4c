"""Schedules of the learning rate, by iteration."""

import pytest
import torch

from trunkline.harness.config.options import check, make_type, render
from trunkline.workloads.learning.schedules import (
    Cosine,
    Exponential,
    Linear,
    Milestones,
    Schedule,
    Step,
    problems,
)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        (Schedule(), [1, 1, 1, 1, 1]),
        (Schedule(step=Step(2, 0.5)), [1, 1, 0.5, 0.5, 0.25]),
        (Schedule(milestones=Milestones((1, 3), 0.5)), [1, 0.5, 0.5, 0.25, 0.25]),
        (Schedule(exponential=Exponential(0.5)), [1, 0.5, 0.25, 0.125, 0.0625]),
        (Schedule(cosine=Cosine(4)), [1, 0.853553, 0.5, 0.146447, 0]),
        (Schedule(cosine=Cosine(2, 0.5)), [1, 0.75, 0.5, 0.5, 0.5]),
        (Schedule(linear=Linear(2, 0.2)), [1, 0.6, 0.2, 0.2, 0.2]),
        (Schedule(warm_up=4), [0.25, 0.5, 0.75, 1, 1]),
        (Schedule(step=Step(3, 0.5), warm_up=2), [0.5, 1, 1, 0.5, 0.5]),
    ],
)
def test_a_schedule_gives_each_iteration_its_share_of_the_rate(schedule, shares):
    assert [schedule.share(n) for n in range(5)] == pytest.approx(shares, abs=1e-6)


@pytest.mark.parametrize(
    ("schedule", "known"),
    [
        (Schedule(step=Step(3, 0.3)), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.3)),
        (
            Schedule(milestones=Milestones((2, 5), 0.3)),
            lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 5], 0.3),
        ),
        (
            Schedule(exponential=Exponential(0.9)),
            lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        ),
        (
            Schedule(cosine=Cosine(8, 0.1)),
            lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 8, 0.1),
        ),
        (
            Schedule(linear=Linear(8, 0.1)),
            lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.1, 8),
        ),
    ],
)
def test_a_schedule_is_the_one_of_torch_that_it_is_named_after(schedule, known):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler, rates = known(optimizer), []
    for _ in range(8):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert [schedule.share(n) for n in range(8)] == pytest.approx(rates, abs=1e-6)


def test_a_schedule_is_written_as_it_is_read():
    given = {"milestones": {"at": [10, 20], "factor": 0.5}, "warm_up": 3}
    read, refused = check(make_type(Schedule), given)
    assert refused == []
    assert read == Schedule(milestones=Milestones((10, 20), 0.5), warm_up=3)
    assert render(read, None) == given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"step": {}}, "step.every: a value is required here"),
        ({"step": {"every": 0}}, "step.every: expected 1 or more"),
        ({"cosine": {"iterations": 3, "to": 2.0}}, "cosine.to: expected 1 or less"),
        ({"exponential": {"factor": 0.0}}, "exponential.factor: expected more than 0"),
    ],
)
def test_a_wrong_schedule_is_refused_at_its_key(given, said):
    _, (refusal,) = check(make_type(Schedule), given)
    assert f"{'.'.join(map(str, refusal.path))}: {refusal.text}" == said


def test_two_ways_to_fall_and_milestones_out_of_order_are_refused():
    both = Schedule(step=Step(2), linear=Linear(3))
    assert [str(each) for each in problems(both)] == [
        "workload.schedule: 'step and linear': expected one of them"
    ]
    late = Schedule(milestones=Milestones((5, 5)))
    assert [str(each) for each in problems(late)] == [
        "workload.schedule.milestones.at: [5, 5]: expected iterations in ascending order, each once"
    ]
    assert problems(None) == problems(Schedule(warm_up=5)) == []
