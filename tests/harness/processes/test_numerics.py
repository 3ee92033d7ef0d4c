"""Training gives the same bits on every processor.

The digests were found on an AMD processor with AVX-512 and are those of an emulated Intel Haswell
and AMD EPYC (with AVX2) and of an Intel Nehalem (without), under QEMU.
"""

import functools
import os
import subprocess
import sys

import pytest
import torch

from trunkline.harness.processes import numerics

TRAIN = """
import numpy as np
from trunkline.workloads import training
from trunkline.workloads.base import digest

training.preload()
site = training.build(0, ("a", "b", "c"), 1)
for iteration in range(3):
    site.compute(iteration)
    site.commit()
numbers = np.random.default_rng(1).random(10_007, dtype=np.float32)
print(digest(site.contribution())[:16], float(numbers @ numbers).hex())
"""

EVALUATE = """
import numpy as np, torch
from trunkline.workloads.learning import models
from trunkline.workloads.base import digest

numbers = np.random.default_rng(1).normal(size=(500, 1, 28, 28)).astype(np.float32)
with torch.inference_mode():
    print(digest(models.cnn(8, 640, 1)(torch.from_numpy(numbers)).numpy()))
"""

pinned = pytest.mark.skipif(
    torch.__version__ != "2.13.0+cpu", reason="another build of torch has other routines"
)


def train(variables, source=TRAIN):
    return run(tuple(variables.items()), source)


@functools.cache
def run(variables, source):
    environment = {**os.environ, **numerics.ONE_THREAD, **dict(variables)}
    return subprocess.check_output([sys.executable, "-c", source], env=environment, text=True)


@pinned
@pytest.mark.skipif(
    numerics.environment()["ATEN_CPU_CAPABILITY"] != "avx2", reason="this processor lacks AVX2"
)
def test_with_avx2_training_gives_these_bits():
    assert train(numerics.WITH_AVX2) == "ad1f750898b9c8b7 0x1.a2b65a0000000p+11\n"


@pinned
@pytest.mark.skipif(
    numerics.environment()["ATEN_CPU_CAPABILITY"] != "avx2", reason="this processor lacks AVX2"
)
def test_with_avx2_evaluations_give_these_bits():
    """Found on an Intel processor with AVX-512, and on an emulated AMD EPYC."""
    assert train(numerics.WITH_AVX2, EVALUATE) == "6baa16450730a7e81c227d605ab7ea5e\n"


@pinned
def test_on_older_processors_training_gives_these_bits():
    assert train(numerics.WITHOUT_AVX2) == "9e81669128ad3d4f 0x1.a2b65e0000000p+11\n"


@pinned
def test_what_a_library_chooses_by_itself_changes_the_bits():
    """Otherwise the tests above would show nothing."""
    chosen = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "AUTO"}
    assert train(numerics.WITHOUT_AVX2 | chosen) != train(numerics.WITHOUT_AVX2)


def test_a_processor_chooses_by_its_abilities(monkeypatch):
    for flags, chosen in (("fpu sse avx2 fma", "avx2"), ("fpu sse avx", "default")):
        numerics.environment.cache_clear()
        text = f"model name\t: x\nflags\t\t: {flags}\nbugs\t\t: avx2\n"
        monkeypatch.setattr(numerics.Path, "read_text", lambda *_, text=text, **__: text)
        assert numerics.environment()["ATEN_CPU_CAPABILITY"] == chosen
    numerics.environment.cache_clear()
