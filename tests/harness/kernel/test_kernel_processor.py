"""Guests get a processor each, while there are enough."""

import contextlib
import os
import subprocess
import sys

import pytest

from trunkline.harness.kernel import processor

CLAIM = """
import sys
from trunkline.harness.kernel import processor
processor.CLAIMS = "\\0" + sys.argv[1]
with processor.claim() as number:
    print(number, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def allowed(monkeypatch):
    """The processors; only the test claims them."""
    monkeypatch.setattr(processor, "CLAIMS", f"\0trunkline-test-{os.getpid()}")
    return sorted(os.sched_getaffinity(0))


def test_claims_are_different_until_all_processors_are_taken(allowed):
    with contextlib.ExitStack() as claims:
        numbers = [claims.enter_context(processor.claim()) for _ in allowed]
        extra = claims.enter_context(processor.claim())
    assert sorted(numbers) == allowed
    assert extra in allowed


def test_a_claim_ends_with_a_killed_owner(allowed):
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, processor.CLAIMS[1:]], stdin=pipe, stdout=pipe
    ) as owner:
        taken = int(owner.stdout.readline())
        with contextlib.ExitStack() as claims:
            others = [claims.enter_context(processor.claim()) for _ in allowed[1:]]
            assert taken not in others
        owner.kill()
    with contextlib.ExitStack() as claims:
        assert sorted(claims.enter_context(processor.claim()) for _ in allowed) == allowed
