"""Code of a user's that never returns is reported while its scenario is read."""

import signal
import threading

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario import compute_limit
from trunkline.harness.scenario.compute_limit import limited_call, limited_calls
from trunkline.harness.scenario.loading import load

SCENARIO = """\
topology: {{builder: full_mesh, sites: 3, rates: 50 Mbit/s}}
workload: {{kind: synthetic, model: 10 MB}}
scheme: {scheme}
stop: {{tasks: 3}}
"""

LOOP = """\
def spin():
    while True:
        pass
"""

CREATE = """\
def create(sites, *, rng):
    try:
        spin()
    except Exception:
        pass
"""


@pytest.mark.parametrize(
    ("scheme", "text", "said"),
    [
        (
            "{plan: loop.py}",
            f"{LOOP}def build(request):\n    spin()\n",
            "scheme.plan: loop.py: line 3: build() computed for more than 0.2 s",
        ),
        (
            "{policy: loop.py}",
            f"{LOOP}{CREATE}",
            "scheme.policy: loop.py: line 3: create() computed for more than 0.2 s",
        ),
        (
            "{plan: loop.py}",
            f"{LOOP}spin()\n",
            "scheme.plan: loop.py: line 3: it computed for more than 0.2 s",
        ),
    ],
)
def test_code_that_loops_forever_is_refused_with_its_line(
    tmp_path, monkeypatch, scheme, text, said
):
    monkeypatch.setattr(compute_limit, "CALL_S", 0.2)
    (tmp_path / "loop.py").write_text(text)
    (tmp_path / "x.yaml").write_text(SCENARIO.format(scheme=scheme))
    handler = signal.getsignal(signal.SIGPROF)
    with pytest.raises(ScenarioErrors) as refused:
        load(tmp_path / "x.yaml")
    (problem,) = refused.value.problems
    found = f"{problem.key_path}: {problem.value}: {problem.allowed}"
    assert found.replace("line 2", "line 3") == said  # either line of the loop
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is handler


def has_timer():
    return signal.getitimer(signal.ITIMER_PROF) != (0.0, 0.0)


def test_only_calls_of_the_main_thread_while_a_scenario_is_read_are_limited():
    with limited_call():
        assert not has_timer()
    with limited_calls(), limited_call():
        assert has_timer()
        with limited_call():
            assert has_timer()
        assert has_timer()
    assert not has_timer()
    seen = []

    def look():
        with limited_calls(), limited_call():
            seen.append(has_timer())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False]
