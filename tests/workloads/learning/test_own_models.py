"""Models of a user's own, in a file beside the scenario."""

import contextlib
import textwrap

import numpy as np
import pytest
import torch

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.workloads import training
from trunkline.workloads.base import digest, gives_changes, takes_batch
from trunkline.workloads.learning import models

SCENARIO = """\
topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s}
workload: {kind: training, model: net.py, batch: 8, local_steps: 2}
scheme: {policy: bsp, plan: star}
stop: {rounds: 2}
"""

NET = """\
import torch
from torch import nn

def model(*, width: int = 4) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.ReLU(),
        nn.Linear(width, 2),
    )
"""

DATA = """
def data(*, samples: int = 40):
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, 3, generator=draw)
    return inputs, (inputs[:, 0] > 0).long(), inputs[:20], (inputs[:20, 0] > 0).long()
"""


@pytest.fixture
def write(tmp_path):
    """Writes the model and the scenario; returns the scenario's file."""

    def write(net=NET + DATA, scenario=SCENARIO):
        (tmp_path / "net.py").write_text(net)
        (tmp_path / "x.yaml").write_text(scenario)
        return tmp_path / "x.yaml"

    return write


def problems(file, overrides=(), here=("programs",)):
    with pytest.raises(ScenarioErrors) as refused:
        load(file, overrides, here=here)
    return [f"{p.key_path}: {p.value}: {p.allowed}" for p in refused.value.problems]


def build(scenario, rank=0, seed=1, **changes):
    options = {**scenario.workload.options, **changes}
    return scenario.workload.module.build(rank, scenario.workers, seed, **options)


def step(workload, iteration):
    workload.compute(iteration)
    workload.commit()


def test_options_of_the_model_and_of_its_data_are_keys_beside_those_of_training(write):
    scenario = load(write(), ["workload.width=5", "workload.samples=30"], here=("programs",))
    assert {"width": 5, "samples": 30, "batch": 8}.items() <= scenario.workload.options.items()
    assert not {"channels", "hidden", "data"} & scenario.workload.options.keys()
    assert scenario.evaluation.of == "average"
    assert gives_changes(scenario.workload.module)
    assert takes_batch(build(scenario))
    (line,) = problems(write(), ["workload.hidden=3"])
    assert line.startswith("workload.hidden: 3: unknown key")
    (line,) = problems(write(), ["workload.width=wide"])
    assert line == "workload.width: wide: expected a whole number"


def test_the_resolved_scenario_has_the_file_and_another_file_is_another_run(write, tmp_path):
    scenario = load(write())
    text = resolve(scenario)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "resolved.yaml").write_text(text)
    again = load(tmp_path / "elsewhere" / "resolved.yaml")
    assert again == scenario
    assert again.code == {"net.py": NET + DATA}
    assert again.model_bytes == scenario.model_bytes
    other = load(write(NET.replace("0.5", "0.4") + DATA))
    assert provenance.identify_run(other) != provenance.identify_run(scenario)
    assert provenance.identify_run(again) == provenance.identify_run(scenario)


def test_parameters_and_running_statistics_travel_and_counters_stay(write):
    scenario = load(write())
    # 3 x 4 + 4 and 4 x 2 + 2 weights; scale and shift, running mean and variance of 4 units.
    assert scenario.model_bytes == 4 * (16 + 10 + 2 * 4 + 2 * 4)
    module = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2))
    names = [name for name, _ in models.list_tensors(module)]
    assert names == [
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
    ]  # fmt: skip
    flat = models.flatten(module)
    module(torch.tensor([[1.0], [3.0]]))
    assert flat[-4:].tolist() == [
        *module[1].running_mean.tolist(), *module[1].running_var.tolist(),
    ]  # fmt: skip


def test_running_statistics_move_in_steps_are_averaged_and_are_gone_on_from(write):
    scenario = load(write())
    first, second = build(scenario, 0), build(scenario, 1)
    start = first.contribution().copy()
    assert start[-8:].tolist() == [0] * 4 + [1] * 4
    step(first, 0)
    step(second, 0)
    assert np.array_equal(first.change()[-8:], (first.contribution() - start)[-8:])
    assert (first.contribution()[-8:] != second.contribution()[-8:]).all()
    mean = (first.contribution() + second.contribution()) / np.float32(2)
    for each in (first, second):
        each.install(mean)
    assert np.array_equal(first.contribution(), second.contribution())
    step(first, 1)
    moved = np.abs(first.contribution()[-8:] - mean[-8:])
    assert 0 < moved.max() < np.abs(first.contribution()[-8:] - start[-8:]).max() + 1


def test_evaluation_uses_the_running_statistics_of_the_installed_model(write):
    workload = build(load(write()))
    step(workload, 0)
    before = workload.evaluate()
    assert (before.samples, before) == (20, workload.evaluate())  # no dropout, no batch statistics
    other = workload.contribution().copy()
    other[-8:-4] += 3.0
    workload.install(other)
    assert workload.evaluate().loss != before.loss
    other[-4:] = -0.5  # as a server's sum of changes may make it
    workload.install(other)
    assert np.isfinite(workload.evaluate().loss)


def test_the_same_seed_trains_the_same_model_to_the_bit_with_dropout(write):
    scenario = load(write())
    first, again, other = (build(scenario, 1, seed) for seed in (7, 7, 8))
    assert digest(first.contribution()) == digest(again.contribution())
    assert digest(first.contribution()) != digest(other.contribution())
    torch.manual_seed(5)
    untouched = torch.rand(1)
    torch.manual_seed(5)
    for iteration in range(3):
        step(first, iteration)
    assert torch.rand(1) == untouched
    torch.rand(17)
    for iteration in range(3):
        step(again, iteration)
    assert digest(first.contribution()) == digest(again.contribution())


def test_seeding_is_torchs_own_and_keeps_nothing():
    torch.manual_seed(5)
    known, later = torch.rand(3), torch.rand(3)
    queued = len(torch.cuda._queued_calls)
    torch.manual_seed(5)
    torch.rand(3)
    with contextlib.suppress(ZeroDivisionError), training.seeded(5):
        assert torch.equal(torch.rand(3), known)
        raise ZeroDivisionError
    assert torch.equal(torch.rand(3), later)
    for seed in range(9):
        with training.seeded(seed):
            pass
    assert len(torch.cuda._queued_calls) <= queued + 1  # of the second manual_seed above


def test_a_schedule_scales_the_steps_of_its_iterations(write):
    net = NET.replace("nn.BatchNorm1d(width), nn.Dropout(0.5), ", "")
    scenario = load(write(net + DATA))
    options = {"momentum": 0.0, "local_steps": 1}
    half = parse(
        SCENARIO.replace("batch: 8", "schedule: {step: {every: 1, factor: 0.5}}, batch: 8"),
        str(write(net + DATA)),
    ).workload.options["schedule"]
    plain, scheduled = build(scenario, **options), build(scenario, **options, schedule=half)
    for iteration, share in enumerate((1.0, 0.5, 0.25)):
        plain.compute(iteration)
        scheduled.compute(iteration)
        np.testing.assert_allclose(scheduled.change(), share * plain.change(), atol=1e-7)


def test_weight_decay_and_momentum_leave_running_statistics_alone(write):
    scenario = load(write())
    plain, decayed = build(scenario), build(scenario, weight_decay=0.5, momentum=0.99)
    plain.compute(0)
    decayed.compute(0)
    # The first of the two steps has the same statistics of the first layer's outputs.
    assert np.abs(plain.change()[-8:]).max() > 0
    one, other = (build(scenario, local_steps=1, weight_decay=decay) for decay in (0.0, 0.5))
    one.compute(0)
    other.compute(0)
    assert np.array_equal(one.change()[-8:], other.change()[-8:])
    assert not np.array_equal(one.change()[:12], other.change()[:12])


LOSS = """
def data(*, slope: float = 2.0):
    inputs = torch.linspace(-1, 1, 40).reshape(-1, 1)
    return inputs, slope * inputs, inputs, slope * inputs

def loss(outputs, targets):
    return ((outputs - targets) ** 2).mean()

def correct(outputs, targets):
    return (outputs - targets).abs() < 0.1

def model() -> nn.Module:
    return nn.Linear(1, 1)
"""


def test_a_loss_and_a_measure_of_ones_own_train_and_evaluate(write):
    head = "import torch\nfrom torch import nn\nfrom torch.utils import data\n"
    scenario = load(write(head + LOSS), here=("programs",))
    workload = build(scenario, momentum=0.0)
    before = workload.evaluate()
    for iteration in range(100):
        step(workload, iteration)
    after = workload.evaluate()
    assert after.samples == 40
    assert after.loss < 0.1 * before.loss
    assert before.accuracy_percent < after.accuracy_percent == 100
    lines = problems(write(head + LOSS), ["workload.shards=dirichlet"])
    assert lines == ["workload.shards: dirichlet: expected iid: the targets are no classes"]
    without = (head + LOSS).replace("def correct", "def precise")
    (line,) = problems(write(without))
    assert line.startswith("workload.model: net.py: expected a function correct(outputs, targets)")


def test_images_of_the_data_set_are_the_default(write):
    net = """
        from torch import nn

        def model():
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    """
    scenario = load(write(textwrap.dedent(net)), here=("programs",))
    assert scenario.workload.options["data"].endswith("fashion-mnist")
    workload = build(scenario)
    step(workload, 0)
    assert workload.evaluate().samples == 10_000


WRONG = {
    "expected a file with a function model(*, ...)": "x = 1",
    "expected model in the form model(*, ...), options after the *": "def model(width): ...",
    "expected model() to return a torch.nn.Module, not a NoneType": "def model(): ...",
    "expected other names of the options of model: training has batch": (
        "def model(*, batch: int = 3): ..."
    ),
    "expected other names of the options of data: model() has width": NET
    + "def data(*, width: int = 3): ...",
    "expected loss in the form loss(outputs, targets)": NET + "def loss(outputs): ...",
    "expected parameters and buffers of torch.float32 on cpu; weight is torch.float64 on cpu": (
        "import torch\ndef model(): return torch.nn.Linear(1, 1).double()"
    ),
    "expected a model with a parameter that is trained": (
        "import torch\ndef model(): return torch.nn.ReLU()"
    ),
    "line 2: ZeroDivisionError: division by zero": "\n1 / 0",
}


@pytest.mark.parametrize("said", WRONG)
def test_a_file_that_has_no_model_is_refused_where_it_is_named(write, said):
    (line,) = problems(write(WRONG[said]), here=())
    assert line == f"workload.model: net.py: {said}"


TRIED = {
    "workload.model: net.py: expected a loss that is one number; it is (8, 2)": NET
    + DATA
    + "\ndef loss(outputs, targets): return outputs",
    "workload.model: net.py: expected a loss that depends on all trained parameters, not without"
    " 1.weight": (
        "import torch\n"
        "class Net(torch.nn.Sequential):\n"
        "    def forward(self, x): return self[0](x)\n"
        "def model(): return Net(torch.nn.Linear(3, 2), torch.nn.Linear(3, 2))\n" + DATA
    ),
    "workload.model: net.py: expected data() to return (train inputs, train targets, test inputs,"
    " test targets); it gave a int": NET + "\ndef data(): return 3",
    "workload.model: net.py: expected data() to return (train inputs, train targets, test inputs,"
    " test targets), finite numbers; test inputs: 1 of 12 are nan or inf": NET
    + "\ndef data():\n    bad = torch.zeros(4, 3)\n    bad[2, 1] = float('inf')\n"
    + "    return torch.zeros(4, 3), [0] * 4, bad, [0] * 4",
    "workload.model: net.py: expected data() to return (train inputs, train targets, test inputs,"
    " test targets), inputs with a target each; 4 train inputs, 3 train targets, 4 test inputs,"
    " 4 test targets": NET
    + "\ndef data(): return torch.zeros(4, 3), [0, 1, 0], torch.zeros(4, 3), [0] * 4",
}


@pytest.mark.parametrize("said", TRIED)
def test_a_model_that_cannot_be_trained_is_refused_before_the_run(write, said):
    file = write(TRIED[said])
    load(file)  # a report needs no data
    assert problems(file) == [said]


def test_an_exception_in_the_model_is_told_with_its_line(write):
    net = NET.replace("nn.Linear(3, width)", "Odd(3, width)") + DATA
    net += "\nclass Odd(nn.Linear):\n    def forward(self, x):\n        return x @ self.weight\n"
    (line,) = problems(write(net))
    assert line.startswith("workload: : net.py: line 17: RuntimeError: mat1 and mat2 shapes")
