"""Compute times per site, and measured ones from a file."""

from pathlib import Path

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import load, parse, resolve

AGENTS = """
topology: {{builder: full_mesh, sites: [a, b], rates: 8 Mbit/s, delays: 10 ms}}
workload: {{kind: synthetic, model: 1 MB, compute: {}}}
scheme: {{policy: bsp, plan: ring}}
stop: {{rounds: 3}}
"""


def times(scenario, rank, count=50):
    found = scenario.workload.module.compute_times(
        rank, scenario.topology.site_names, 1, **scenario.workload.options
    )
    return {found.time_s(step) for step in range(count)}


def write(folder: Path, rows: str, compute: str = "{csv: steps.csv}") -> Path:
    (folder / "steps.csv").write_text(rows)
    (folder / "x.yaml").write_text(AGENTS.format(compute))
    return folder / "x.yaml"


def test_each_site_may_have_its_own_times() -> None:
    scenario = parse(AGENTS.format("{a: 0.1 s, b: {measured: [0.3 s, 0.2 s]}}"), "x.yaml")
    assert times(scenario, 0) == {0.1}
    assert times(scenario, 1) == {0.2, 0.3}
    assert parse(resolve(scenario), "y.yaml").workload.options == scenario.workload.options


def test_sites_without_a_time_of_their_own_have_that_of_others() -> None:
    scenario = parse(AGENTS.format("{b: 0.1 s, others: [0.3 s, 0.3 s]}"), "x.yaml")
    assert times(scenario, 0) == {0.3}
    assert times(scenario, 1) == {0.1}
    assert parse(resolve(scenario), "y.yaml").workload.options == scenario.workload.options


@pytest.mark.parametrize(
    ("rows", "compute", "first", "second"),
    [
        ("0.1\n# slow\n200 ms\n", "{csv: steps.csv}", {0.1, 0.2}, {0.1, 0.2}),
        ("b,a\n0.1,0.3\n0.2,\n", "{csv: steps.csv}", {0.3}, {0.1, 0.2}),
        ("gpu,cpu\n0.1,0.3\n", "{csv: steps.csv, column: cpu}", {0.3}, {0.3}),
    ],
)
def test_times_are_read_from_a_file(tmp_path, rows, compute, first, second) -> None:
    scenario = load(write(tmp_path, rows, compute))
    assert (times(scenario, 0), times(scenario, 1)) == (first, second)


@pytest.mark.parametrize(
    ("rows", "compute", "said"),
    [
        ("", "{csv: steps.csv}", "steps.csv: empty: expected a time of a step per row"),
        ("a,b\n", "{csv: steps.csv}", "steps.csv: 0 rows: expected 1 to 100000"),
        (
            "0.1\nfast\n",
            "{csv: steps.csv}",
            "steps.csv: time 2: 'fast': expected seconds, or 20 ms",
        ),
        ("0.1\n-1\n", "{csv: steps.csv}", "time 2: '-1': expected seconds, or 20 ms"),
        ("a,b\n1,2\n1\n", "{csv: steps.csv}", "steps.csv: time 2: 1 cells, not 2"),
        ("a,a\n1,2\n", "{csv: steps.csv}", "expected a name for each column, each once"),
        ("x,y\n1,2\n", "{csv: steps.csv}", "expected a, b, or a rank from 0 to 1"),
        ("x,y\n1,2\n", "{csv: steps.csv, column: z}", "column 'z': expected one of x, y"),
        (
            "1\n",
            "{csv: step.csv}",
            "cannot read: no such file or directory: did you mean steps.csv?",
        ),
        ("1\n", "{csv: steps.csv, row: 1}", "unknown key: expected csv or column"),
        ("1\n", "{a: 0.1 s}", "expected a time for each site: b has none; or others: a time"),
        ("1\n", "{a: 0.1 s, 0: 0.1 s, b: 1 s}", "expected each site once"),
        ("1\n", "{measured: []}", "no time is measured"),
    ],
)
def test_wrong_times_are_refused(tmp_path, rows, compute, said) -> None:
    with pytest.raises(ScenarioErrors) as refused:
        load(write(tmp_path, rows, compute))
    (line,) = str(refused.value).splitlines()
    assert "x.yaml:3: workload.compute" in line
    assert said in line


@pytest.mark.parametrize(
    ("scheme", "compute", "said"),
    [
        ("name: r2sp, servers: [a]", "{b: 0.1 s}", ""),
        ("name: r2sp", "{b: 0.1 s}", ""),  # the first site is the server
        ("name: allreduce", "{b: 0.1 s}", "expected a time for each site: a has none"),
        ("name: r2sp, servers: [a]", "{a: 0.1 s, b: 0.1 s}", "; the servers, a, compute nothing"),
        ("name: r2sp, servers: [b]", "{b: 0.1 s}", "expected a, or a rank from 0 to 0"),
    ],
)
def test_a_server_needs_no_time_of_computing(tmp_path, scheme, compute, said) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "topology: {builder: full_mesh, sites: [a, b], rates: 20 Mbit/s, delays: 10 ms}\n"
        f"workload: {{kind: synthetic, model: 1 MB, compute: {compute}}}\n"
        f"scheme: {{{scheme}}}\nstop: {{tasks: 4}}\n"
    )
    if not said:
        load(file)
        return
    with pytest.raises(ScenarioErrors) as refused:
        load(file)
    (line,) = str(refused.value).splitlines()
    assert said in line
