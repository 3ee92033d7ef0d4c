"""Sites whose names are words: nothing that is said about a run depends on how sites are called."""

import re

import pytest
from inside import run_all

from trunkline.agents.events.task_events import (
    TaskAbandoned,
    TaskDropped,
    TaskHalted,
    TaskRearranged,
)
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.explained_tasks import explain_tasks
from trunkline.harness.report.explanations.told.explanation_text import summarize
from trunkline.harness.report.explanations.told.wait_text import describe_wait
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.loading import parse, resolve

COUNTRIES = """
topology: {builder: full_mesh, sites: [de, fr, is, it], rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 500 kB, compute: 100 ms}
scheme: {policy: preduce, p: 3, plan: crew, chunk: 16 KiB}
stop: {time: 3 s}
timeline:
- {at: 1 s, do: kill fr for 1 s}
- {at: 1.005 s, do: pause is for 5 ms}
"""

FAULTY = """
topology: {builder: full_mesh, sites: [a0, a1, a2, a3, a4], rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 500 kB, compute: [100 ms, 200 ms]}
scheme: {policy: preduce, p: 3, plan: crew, chunk: 16 KiB}
failover: {backup: a1}
stop: {time: 14 s}
timeline:
- {at: 1 s, do: kill a3 for 1 s}
- {at: 1.005 s, do: pause a2 for 5 ms}
- {at: 3 s, do: outage a0 a4 for 3 s}
- {at: 4 s, do: 'partition a3,a4 for 2 s'}
- {at: 8 s, do: kill controller for 5 s}
- {at: 8.1 s, do: isolate a4 for 2 s}
"""

SITES = ("a0", "a1", "a2", "a3", "a4")

WORDS = (
    ("at", "be", "is", "no", "to"),
    ("budget", "its", "lost", "task", "xn1"),
    ("and", "controller2", "each", "n1", "takes"),
    ("exceeded", "it", "of", "plan", "s"),
)
"""Words of the reasons that agents give. The order stays, because plans break ties by it."""


@pytest.fixture(scope="module")
def runs(embedded, tmp_path_factory):
    """The folder with both runs."""
    home = tmp_path_factory.mktemp("runs")
    for name, text in (("countries", COUNTRIES), ("faulty", FAULTY)):
        (home / name / "log").mkdir(parents=True)
        (home / name / "resolved.yaml").write_text(resolve(parse(text, "test.yaml")))
    done = embedded.call(run_all, str(home), ["countries", "faulty"], visible=[home])
    assert done["codes"] == {"countries": 0, "faulty": 0}
    return home


def test_a_word_of_a_reason_is_not_the_site_of_that_name(runs):
    said = explain(outputs.read(runs / "countries"))
    assert "fr is lost (fault 0: kill fr" in said
    assert "fr is lost (fault 1" not in said


@pytest.mark.parametrize("words", WORDS)
def test_other_names_of_sites_change_nothing_but_the_names(runs, words, tmp_path):
    names = dict(zip(SITES, words, strict=True))
    (tmp_path / "log").mkdir()
    for file in ("resolved.yaml", "events.jsonl"):
        (tmp_path / file).write_text(rename((runs / "faulty" / file).read_text(), names))
    before, after = outputs.read(runs / "faulty"), outputs.read(tmp_path)
    assert str(after.verdict) == rename(str(before.verdict), names)
    for name, table in before.tables.items():
        assert after.tables[name].to_csv() == rename(table.to_csv(), names), name
    assert explain(after) == rename(explain(before), names)
    happened = {type(event) for event in after.history.events}
    assert happened >= {TaskHalted, TaskRearranged, TaskAbandoned, TaskDropped}


def explain(data: RunData) -> str:
    """What is said of all tasks of a run."""
    numbers = [task.number for task in data.history.tasks]
    found = explain_tasks(data.scenario, data.history, data.tables["tasks"], numbers)
    summaries = [summarize(each, data.history) for each in found]
    waits = [
        describe_wait(each.task.number, each.wait, data.history) for each in found if each.wait
    ]
    return "\n".join(summaries + waits)


def rename(text: str, names: dict[str, str]) -> str:
    """The text with other names of sites; no other word of it looks like one."""
    return re.sub(r"\ba[0-4]\b", lambda found: names[found[0]], text)
