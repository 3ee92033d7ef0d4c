"""Wrong scenarios: every one with everything that is said about it, to the letter.

Each file of `tests/bad` ends with the lines that reading it must give, marked `#>`. The names of
extensions in them are those of `KNOWN`, so that a new plan or topology changes no message here.
"""

import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.harness.config import document
from trunkline.harness.config.document import ScenarioErrors, read, show_path, write
from trunkline.harness.scenario.extensions import Extensions, discover
from trunkline.harness.scenario.loading import load, parse

BAD = sorted((Path(__file__).parents[2] / "bad").glob("*.yaml"))

GOOD = """\
topology: {builder: full_mesh, sites: 4, rates: 50 Mbit/s}
workload: {kind: synthetic, model: 10 MB}
scheme: {policy: preduce, plan: crew, p: 3}
stop: {rounds: 3}
"""


@pytest.fixture(scope="module")
def known() -> Extensions:
    names = {
        "topologies": ("explicit", "full_mesh", "internet2", "star"),
        "plans": ("a2a", "crew", "opr", "ps", "ring"),
        "policies": ("bsp", "preduce"),
        "workloads": ("program", "synthetic", "training"),
    }
    found = discover()
    return Extensions(
        **{
            field.name: {name: getattr(found, field.name)[name] for name in names[field.name]}
            for field in dataclasses.fields(Extensions)
        }
    )


def messages(known, text, *arguments, file="x.yaml"):
    with pytest.raises(ScenarioErrors) as refused:
        parse(text, file, *arguments, extensions=known)
    return str(refused.value).splitlines()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_wrong_scenario_is_refused_with_every_problem_in_it(path, known):
    text = path.read_text()
    expected = [line[3:] for line in text.splitlines() if line.startswith("#> ")]
    assert expected, "the file does not say what is wrong with it"
    assert messages(known, text, file=path.name) == expected


def test_the_scenario_that_the_overrides_below_start_from_is_right(known):
    assert parse(GOOD, "x.yaml", extensions=known).scheme.policy.options == {
        "p": 3,
        "weights": "constant",
        "decay": 0.5,
        "missing": "closest",
        "group_filter": False,
        "history": None,
        "filter": "prevent",
    }


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("scheme.p=99", "scheme.p: 99: expected 2 to 4, the number of sites"),
        (
            "scheme.plan=rign",
            "scheme.plan: rign: did you mean ring? expected one of a2a, crew, opr, ps, ring",
        ),
        ("topology.sites=2", "scheme.p: 3: expected 2 to 2, the number of sites"),
        (
            "stop.time=50",
            "stop.time: 50: a unit is missing: expected a time such as 50 s "
            "(units: us, ms, s, min, h)",
        ),
        (
            "stop.tiem=50 s",
            "stop.tiem: 50 s: unknown key: did you mean time? expected one of "
            "rounds, time, tasks, accuracy, loss, in_a_row, without_progress, exit",
        ),
        (
            "stop={}",
            "stop: {}: expected at least one of rounds, time, tasks, accuracy, loss, "
            "without_progress",
        ),
        ("scheme.p", "expected key.path=value, such as scheme.p=4 or stop.time='50 s'"),
        ("=3", "expected key.path=value, such as scheme.p=4 or stop.time='50 s'"),
        ("scheme..p=3", "expected key.path=value, such as scheme.p=4 or stop.time='50 s'"),
        ("seed.x=3", "seed.x: expected a path through the mappings and lists of the file"),
        (
            "stop.rounds.x=3",
            "stop.rounds.x: expected a path through the mappings and lists of the file",
        ),
        (
            "topology.overrides[0].rate=1 Mbit/s",
            "topology.overrides[0].rate: expected a path "
            "through the mappings and lists of the file",
        ),
        ("stop={a: 1, a: 2}", "given again: expected once (first in line 1)"),
        (
            "stop=[1",
            "not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>';"
            " the [ in line 1 needs its ], as in [a, b]",
        ),
    ],
)
def test_a_problem_of_an_override_points_to_the_override(assignment, message, known):
    lines = messages(known, GOOD + "seed: 1\n", [assignment])
    place = "x.yaml:3" if assignment == "topology.sites=2" else f"--set {assignment}"
    assert lines == [f"{place}: {message}"]


PROGRAMS = """\
topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s}
workload: {kind: program, command: [python3, train.py]}
"""


@pytest.mark.parametrize(
    ("text", "assignment", "hint"),
    [
        (GOOD, "topology.rtts=rtts.csv", "did you mean delays, one-way, half of a round trip? "),
        (GOOD, "rate_factor=2", "did you mean topology.rate_factor? "),
        (PROGRAMS, "poll=1 ms", "did you mean workload.poll? "),
    ],
)
def test_an_unknown_key_has_a_hint_on_what_was_meant(text, assignment, hint, known):
    said = messages(known, text, [assignment])
    key, _, value = assignment.partition("=")
    start = f"--set {assignment}: {key}: {value}: unknown key: {hint}expected one of "
    assert any(line.startswith(start) for line in said), said


def test_a_default_of_links_belongs_to_the_topology_that_has_it(tmp_path):
    text = GOOD.replace("full_mesh, sites: 4, rates: 50 Mbit/s", "file, links: x.csv")
    with pytest.raises(ScenarioErrors, match=r"unknown key: did you mean topology.default_rate\? "):
        parse(text, "x.yaml", ["default_rate=10 Gbit/s"])


@pytest.mark.parametrize("written", ["workload {kind: synthetic}", "workload{kind: synthetic}"])
def test_a_key_without_its_colon_is_told_apart_from_a_wrong_one(written, known):
    lines = messages(known, GOOD.replace("workload: {kind: synthetic, model: 10 MB}", written))
    assert lines[1] == (
        "x.yaml:2: workload {kind: synthetic}: unknown key: a colon is missing after workload: "
        "expected workload: and then its value"
    ).replace("workload {kind", written.partition(":")[0], 1)


@pytest.mark.parametrize("text", [",a,b\na,,1\nb,1,\n", "a\n"])
def test_a_file_of_another_kind_is_told_that_a_scenario_is_expected(text, known):
    assert messages(known, text, file="rates.csv")[0] == "rates.csv: expected a scenario (.yaml)"
    assert "expected a scenario" not in "".join(messages(known, text))


def test_a_section_that_only_an_override_has_points_to_it(known):
    (line,) = messages(known, PROGRAMS, ["evaluation.every=2 s"])
    assert line.startswith("--set evaluation.every=2 s: evaluation: {every: 2 s}: not with")
    (line,) = messages(known, GOOD, ["evaluation.every=2 s"])
    assert line.startswith("--set evaluation.every=2 s: evaluation: {every: 2 s}: only with")
    (line,) = messages(known, PROGRAMS + "evaluation: {of: average}\n", ["evaluation.every=2 s"])
    assert line.startswith("x.yaml:3: evaluation: {of: average, every: 2 s}: not with")


def test_a_problem_of_the_seed_points_to_its_option(known):
    assert messages(known, GOOD, (), -1) == ["--seed -1: seed: -1: expected 0 or more"]


def test_problems_of_the_file_and_of_overrides_are_reported_together(known):
    assert messages(known, GOOD + "seed: -5\n", ["scheme.p=1", "clock=fast"]) == [
        "--set clock=fast: clock: fast: expected one of virtual, real",
        "--set scheme.p=1: scheme.p: 1: expected 2 to 4, the number of sites",
        "x.yaml:5: seed: -5: expected 0 or more",
    ]


def test_an_override_hides_the_problem_that_it_repairs(known):
    assert parse(GOOD + "seed: -5\n", "x.yaml", ["seed=5"], extensions=known).seed == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file or directory (see: trunkline list scenarios)"),
        (lambda path: path.mkdir(), "cannot read: is a directory"),
        (lambda path: path.write_bytes(b"name: \xff\xfe"), "expected UTF-8 text"),
        (
            lambda path: path.write_bytes(b"name: a\0"),
            "not YAML: unacceptable character #x0000: special characters are not allowed",
        ),
        (lambda path: path.write_text("#" * 10_000_001), "expected 10000000 characters or fewer"),
        (lambda path: path.write_text("[" * 5000), "expected less nesting"),
    ],
    ids=["missing", "folder", "not UTF-8", "control character", "too long", "too deep"],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, make, message):
    path = tmp_path / "x.yaml"
    make(path)
    with pytest.raises(ScenarioErrors) as refused:
        load(path)
    assert str(refused.value).startswith(str(path))
    assert str(refused.value).endswith(message)


@pytest.mark.parametrize("kind", ["device", "pipe", "socket"])
def test_what_may_have_no_end_or_no_writer_is_no_scenario(tmp_path, kind):
    path = tmp_path / "x.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "socket":
            bound.bind(str(path))
        with pytest.raises(ScenarioErrors) as refused:
            load("/dev/zero" if kind == "device" else path)
    assert str(refused.value).endswith(f": cannot read: is a {kind}: expected a regular file")


@pytest.mark.parametrize("given", ["/dev/stdin", "<(cat)"])
def test_a_scenario_may_come_from_a_pipe_that_is_open(given):
    command = f"exec {sys.executable} -m trunkline.harness.commands.main validate {given}"
    done = subprocess.run(
        ["bash", "-c", command], input=GOOD, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.endswith(": ok\n")) == (0, True), done.stderr


LONG = ("x" * 10**4, "y z " * 10**3, "5 " + "s" * 10**4, "kill n1 " + "n" * 10**4)


@pytest.mark.parametrize("long", LONG, ids=lambda text: text[:6])
@pytest.mark.parametrize(
    "path",
    [
        ("seed",),
        ("topology",),
        ("topology", "builder"),
        ("topology", "rates"),
        ("workload", "model"),
        ("scheme", "plan"),
        ("stop", "time"),
        ("controller", "site"),
        ("timeline", 0, "at"),
        ("timeline", 0, "do"),
    ],
    ids=show_path,
)
def test_no_error_is_long_because_a_value_or_a_key_is(path, long, known):
    *above, last = path
    for key, value in ((last, long), (long, 1)):
        data = read(GOOD + "controller: {}\ntimeline: [{at: 0 s, do: heal}]\n", "x.yaml").data
        inner = data
        for step in above:
            inner = inner[step]
        inner[key] = value
        for line in messages(known, write(data)):
            assert len(line) < 500
    [line] = messages(known, GOOD, [f"{show_path(path)}.none={long}", "scheme.p=9"])[:1]
    assert len(line) < 500


@pytest.mark.parametrize("name", ["ps-bsp", "ps-asp", "ps-bk", "ad-psgd", "eager-reduce"])
def test_at_least_one_site_is_no_server(name):
    text = GOOD.replace("{policy: preduce, plan: crew, p: 3}", f"{{name: {name}, servers: all}}")
    servers = "[s1, s2, s3, s4]"
    with pytest.raises(ScenarioErrors) as refused:
        parse(text.replace("servers: all", f"servers: {servers}"), "x.yaml")
    allowed = "expected fewer than all sites; the others are workers"
    assert f"scheme.servers: {servers}: {allowed}" in str(refused.value)


@pytest.mark.parametrize(
    ("workload", "batch", "said"),
    [
        ("kind: synthetic, model: 1 MB, batch: 64", 64, None),
        ("kind: synthetic, model: 1 MB, batch: 64", 32, "expected the workload's batch, 64"),
        ("kind: synthetic, model: 1 MB", 64, "expected the workload's batch, 32"),
    ],
)
def test_batches_are_tuned_from_that_of_the_workload(workload, batch, said):
    text = (
        f"topology: {{builder: full_mesh, sites: 4, rates: 50 Mbit/s}}\nworkload: {{{workload}}}\n"
        f"scheme: {{name: r2sp, servers: [n1], batch: {batch}}}\nstop: {{rounds: 3}}\n"
    )
    if said is None:
        assert parse(text, "x.yaml").scheme.policy.options["batch"] == batch
    else:
        with pytest.raises(ScenarioErrors, match=f"scheme.batch: {batch}: {said}"):
            parse(text, "x.yaml")


def test_letters_are_shown_as_they_are_and_what_cannot_be_printed_is_not():
    assert document.show(["München", "東京"]) == "[München, 東京]"
    assert document.show(["a\u202eb"]) == '["a\\u202Eb"]'
    assert document.show("a\nb") == '"a\\nb"'


@pytest.mark.parametrize(
    ("assignment", "meant"),
    [
        ("plan=crew", "scheme.plan"),
        ("tasks=3", "stop.tasks"),
        ("mtu=9000", "network.mtu"),
        ("wokload=3", "workload"),
    ],
)
def test_a_key_of_a_section_that_stands_alone_is_offered_in_its_section(assignment, meant, known):
    (said,) = messages(known, GOOD + "seed: 1\n", [assignment])
    assert f"unknown key: did you mean {meant}? expected one of name, description" in said


def test_a_key_that_cannot_be_printed_is_quoted():
    text = 'topology: full_mesh\n"bad\\e[31m": 1\nscheme: {"pl\\e[0man": crew}\n'
    with pytest.raises(ScenarioErrors) as refused:
        parse(text, "x.yaml")
    found = str(refused.value)
    assert "\x1b" not in found
    assert 'x.yaml:2: "bad\\e[31m": 1: unknown key' in found
    assert 'x.yaml:3: scheme."pl\\e[0man": crew: unknown key' in found


@pytest.mark.parametrize(
    "line",
    [
        'timeline: [{at: 1 s, do: "\\e[31mred\\a"}]',
        'timeline: [{at: 1 s, do: "kill \\e[31mred"}]',
        'timeline: [{at: 1 s, do: "setlink n1 n2 rate=\\e[31mred"}]',
        '"\\e[31mred": 1',
        'capture: {links: ["\\u202ered"]}',
    ],
)
def test_no_escape_sequence_of_a_file_reaches_the_terminal(known, line):
    assert all(each.isprintable() for each in messages(known, f"{GOOD}{line}\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"src,dst\nM\xfcnchen,b\n", "line 2: expected UTF-8 text"),
        (b"\x1f\x8b\x08\x00", "a file of gzip: expected UTF-8 text"),
        ("src,dst\na,b\n".encode("utf-16"), "UTF-16: expected UTF-8 text"),
        (None, "expected a regular file"),
    ],
)
def test_a_network_that_is_no_text_says_what_it_is(tmp_path, content, message):
    if content is None:
        (tmp_path / "x.csv").mkdir()
    else:
        (tmp_path / "x.csv").write_bytes(content)
    (tmp_path / "x.yaml").write_text(GOOD.replace("50 Mbit/s", "x.csv"))
    with pytest.raises(ScenarioErrors) as refused:
        load(tmp_path / "x.yaml")
    assert f"topology.rates: x.csv: {message}" in str(refused.value)


def test_of_names_that_resemble_a_wrong_one_equally_the_first_is_offered():
    names = ["oslo-1", "oslo-2", "rome"]
    assert document.find_near("oslo", names) == "oslo-1"
    assert document.find_near("rom", names) == "rome"
    assert document.find_near("tokyo", names) == ""


def test_an_error_lists_forty_of_many_names():
    said = document.list_choices([f"n{number}" for number in range(100)], "n99x")
    assert said.startswith("did you mean n99? expected one of n0, n1, ")
    assert said.endswith(", n39 and 60 more")
