"""The text of a fault and its value, both ways, what is refused, and what may come next."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import complete, parse
from trunkline.harness.faults.fault_types import (
    VERBS,
    Churn,
    Flap,
    Heal,
    Isolate,
    Kill,
    Leave,
    Mend,
    Outage,
    Partition,
    Pause,
    Redraw,
    Restart,
    Resume,
    SetLink,
)
from trunkline.harness.faults.fault_writing import summary, usage, write
from trunkline.harness.faults.recorded.recorded_faults import Availability, Step, Switch, Trace
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

SITES = ("oslo", "rome", "kyiv", "5s")
LINKS = [(a, b) for a in SITES for b in SITES if a != b and {a, b} != {"oslo", "5s"}]
TOPOLOGY = Topology("t", tuple(map(Site, SITES)), tuple(Link(a, b, 8.0, 10.0) for a, b in LINKS))
FILES = {
    "up.csv": "time,rate,delay,loss\n0,20\n1.5,30 Mbit/s,40,0.1\n",
    "up.mahi": "1\n2\n2\n150\n",
}

SAME = [
    ("outage oslo rome both blackhole for 5 s", Outage("oslo", "rome", for_s=5.0)),
    ("outage oslo rome one-way blackhole", Outage("oslo", "rome", "one-way")),
    ("isolate rome carrier for 500 ms", Isolate("rome", "carrier", 0.5)),
    ("partition oslo,rome | kyiv blackhole", Partition((("oslo", "rome"), ("kyiv",)))),
    (
        "flap rome 5s both carrier every 1 s for 60 s",
        Flap("rome", "5s", 1.0, "both", "carrier", 60),
    ),
    ("setlink oslo all both rate=20Mbit/s", SetLink("oslo", "all", rate_mbps=20.0)),
    ("mend oslo all", Mend("oslo", "all")),
    (
        "setlink oslo rome both rate=20Mbit/s delay=30ms loss=0.02%",
        SetLink("oslo", "rome", rate_mbps=20.0, delay_ms=30.0, loss_percent=0.02),
    ),
    (
        "setlink oslo rome one-way reorder=1% duplicate=0.5% corrupt=0.1% correlation=25%",
        SetLink(
            "oslo",
            "rome",
            "one-way",
            reorder_percent=1.0,
            duplicate_percent=0.5,
            corrupt_percent=0.1,
            correlation_percent=25.0,
        ),
    ),
    (
        "setlink oslo rome both jitter=2ms distribution=-1.2,-0.4,0,0.5,3 for 2 s",
        SetLink("oslo", "rome", jitter_ms=2.0, distribution="-1.2,-0.4,0,0.5,3", for_s=2.0),
    ),
    ("redraw rate=20..155Mbit/s every 180 s", Redraw(rate_mbps=(20.0, 155.0), every_s=180.0)),
    (
        "trace oslo rome 0s:20Mbit/s,1.5s:30Mbit/s:40ms:0.1% one-way",
        Trace("oslo", "rome", (Step(0, 20), Step(1.5, 30, 40, 0.1))),
    ),
    (
        "trace oslo rome 0s:0Mbit/s::1%,2s:1Mbit/s:::3ms both for 5 s",
        Trace("oslo", "rome", (Step(0, 0, None, 1), Step(2, 1, jitter_ms=3)), "both", for_s=5.0),
    ),
    (
        "availability kyiv 0s:off,5s:on carrier every 10 s",
        Availability("kyiv", (Switch(0, False), Switch(5, True)), "carrier", 10.0),
    ),
    ("kill controller for 2 s", Kill("controller", 2.0)),
    ("leave kyiv for 2 s", Leave("kyiv", 2.0)),
    ("pause kyiv", Pause("kyiv")),
    ("resume kyiv", Resume("kyiv")),
    ("restart 5s", Restart("5s")),
    ("mend oslo rome", Mend("oslo", "rome")),
    ("heal", Heal()),
    (
        "churn outages=30s kills=120s lasting=0.5..2s links=2 agents=1 total=20 seed=7 for 1 h",
        Churn(30.0, None, 120.0, lasting_s=(0.5, 2.0), links=2, total=20, seed=7, for_s=3600.0),
    ),
    (
        "churn oneways=2s losses=3s slowdowns=4s lasting=1..10s links=1 agents=1",
        Churn(oneways_s=2.0, losses_s=3.0, slowdowns_s=4.0),
    ),
    (
        "churn pauses=30s lasting=1..10s links=1 agents=1 among=rome,5s",
        Churn(pauses_s=30.0, among=("rome", "5s")),
    ),
]


@pytest.mark.parametrize(("text", "fault"), SAME)
def test_a_text_and_its_fault_are_one_another(text, fault):
    assert parse(text, TOPOLOGY) == fault
    assert write(fault) == text


def test_every_verb_is_in_the_examples_above_and_has_help():
    assert {text.split()[0] for text, _ in SAME} == set(VERBS)
    for verb in VERBS:
        assert usage(verb).startswith(verb)
        assert summary(verb).endswith((".", ";", ":")) or len(summary(verb)) > 20


def test_a_usage_says_which_end_may_be_all():
    assert usage("mend") == "mend SITE (SITE|all)"
    assert usage("setlink").startswith("setlink SITE (SITE|all) [both|one-way] ")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("outage oslo rome", "outage oslo rome both blackhole"),
        ("outage oslo -> rome for 5s", "outage oslo rome one-way blackhole for 5 s"),
        ("outage oslo <-> rome carrier", "outage oslo rome both carrier"),
        ("outage oslo rome for 5 s blackhole both", "outage oslo rome both blackhole for 5 s"),
        ("partition oslo|rome,kyiv", "partition oslo | rome,kyiv blackhole"),
        (
            "setlink oslo rome rate=20 Mbit/s delay=1 s",
            "setlink oslo rome both rate=20Mbit/s delay=1s",
        ),
        ("redraw rate=20Mbit/s..1Gbit/s", "redraw rate=20..1000Mbit/s"),
        ("redraw rate=20..155 Mbit/s loss=0..1 %", "redraw rate=20..155Mbit/s loss=0..1%"),
        (
            "trace oslo -> rome up.csv",
            "trace oslo rome 0s:20Mbit/s,1.5s:30Mbit/s:40ms:0.1% one-way",
        ),
        ("trace oslo rome up.mahi both", "trace oslo rome 0s:320kbit/s both"),
        ("outage oslo->rome for 5 s", "outage oslo rome one-way blackhole for 5 s"),
        ("outage oslo<->rome", "outage oslo rome both blackhole"),
    ],
)
def test_other_spellings_mean_the_same(text, same):
    assert write(parse(text, TOPOLOGY, FILES.__getitem__)) == same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a verb is missing: expected one of outage, isolate, partition,"),
        ("outgae oslo rome", "outgae: did you mean outage? expected one of outage,"),
        ("outage", "a site is missing: expected outage SITE SITE [both|one-way]"),
        ("outage oslo paris", "paris: expected one of rome, kyiv"),
        ("outage oslo 5s", "oslo 5s: no link joins these two: expected one of rome, kyiv"),
        ("outage oslo oslo", "oslo oslo: the same site twice: expected one of rome, kyiv"),
        ("outage oslo rome twice", "twice: expected one of both, one-way, blackhole, carrier, for"),
        ("outage oslo rome 7s", "7s: did you mean for 7s? expected one of both, one-way,"),
        ("setlink oslo rome bandwidth=5Mbit/s", "bandwidth=5Mbit/s: did you mean rate=5Mbit/s?"),
        ("setlink oslo rome latency=5ms", "latency=5ms: did you mean delay=5ms? expected one of"),
        ("setlink oslo rome packet_loss=1%", "packet_loss=1%: did you mean loss=1%? expected"),
        ("setlink oslo rome rtt=5ms", "rtt=5ms: did you mean delay=, which is one-way, half of"),
        ("outage oslo rome for", "a time is missing: expected outage"),
        ("outage oslo rome for 5", "for: 5: a unit is missing: expected a time such as 50 s"),
        ("outage oslo rome for -1 s", "for: -1s: expected a time of 0 or more"),
        ("outage oslo rome for 5 s for 6 s", "for: given twice: expected once"),
        ("outage oslo -> rome carrier", "carrier one-way: expected both"),
        ("flap oslo rome", "every TIME is missing: expected flap SITE SITE"),
        ("flap oslo rome every 1 us", "1e-06 s: expected 1 ms or more"),
        ("partition oslo | oslo", "site oslo is named twice: expected once"),
        ("partition oslo,rome,kyiv,5s", "this cuts no link: expected groups with links between"),
        ("partition oslo | 5s", "this cuts no link: expected groups with links between them,"),
        (f"kill {'n' * 10**5}", f"{'n' * 57}...: expected one of oslo, rome, kyiv, 5s, contr"),
        ("setlink oslo rome", "nothing to do: expected at least one of rate=, delay=, jitter="),
        ("setlink oslo rome rate=fast", "rate: fast: expected a rate such as 50 Mbit/s"),
        ("redraw rate=155..20 Mbit/s", "rate: 155..20Mbit/s: expected the smaller value first"),
        ("kill paris", "paris: expected one of oslo, rome, kyiv, 5s, controller"),
        ("heal everything", "everything: expected nothing more"),
        ("churn total=7", "nothing to do: expected at least one of outages=, pauses=, kills="),
        ("churn kills=1 s among=oslo,oslo", "site oslo is named twice: expected once"),
        ("churn kills=1 s among=oslo,paris", "paris: expected one of oslo, rome, kyiv, 5s"),
        ("churn kills=1 s links=few", "links: few: expected a whole number of 0 or more"),
        (
            "trace oslo rome up.csv",
            "up.csv: expected the steps of a trace: no file can be read here",
        ),
        ("trace oslo rome 0s:20Mbit/s,0s:30Mbit/s", "steps: 0 s after 0 s: expected times that"),
        ("trace oslo rome 0s:0.0001Mbit/s", "steps: rate 0.0001 Mbit/s: expected 0.001 to"),
        ("trace oslo rome 0s:1Mbit/s step=1s", "step=: expected with a file only"),
        ("availability oslo 0s:off,9s:maybe", "steps: 'maybe': expected on or off, up or down"),
        ("availability oslo 9s:off,9s:on", "steps: 9 s after 9 s: expected times that grow"),
        ("trace oslo rome 9s:1Mbit/s every 9 s", "every 9 s: expected more than 9 s, its end"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(text, message):
    with pytest.raises(FaultError) as refused:
        parse(text, TOPOLOGY)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("setlink loss=101%", "loss 101 %: expected 0 to 100 %"),
        ("setlink jitter=3s delay=5s", "jitter 3000 ms: expected 0 to 2000 ms"),
        ("setlink jitter=11ms", "jitter 11 ms: expected 0 to the link's delay, 10 ms"),
        ("setlink delay=100h", "delay 360000000 ms: expected 0 to 60000 ms"),
        ("setlink rate=0.00001Mbit/s", "rate 1e-05 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ("setlink rate=2000Gbit/s", "rate 2000000 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        (
            "setlink rate=1kbit/s",  # the link's default queue is 65,536 bytes
            "queue 65536 B: expected 1514 (one packet) to 33750, what drains in 270 s at",
        ),
        ("redraw rate=0.00001..1Mbit/s", "rate 1e-05 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ("redraw rate=0.001..1Mbit/s", "queue 65536 B: expected 1514 (one packet) to"),
        ("redraw loss=0..101%", "loss 101 %: expected 0 to 100 %"),
        ("trace 0s:1Mbit/s,1s:2e12Mbit/s", "steps: rate 2000000000000 Mbit/s: expected"),
        ("trace 0s:1Mbit/s:2h,1s:1Mbit/s", "steps: delay 7200000 ms: expected 0 to 60000 ms"),
    ],
)
def test_values_that_no_link_can_have_are_refused_in_a_topology_s_words(values, message):
    verb, rest = values.split(" ", 1)
    ends = "" if verb == "redraw" else "oslo rome "
    with pytest.raises(FaultError) as refused:
        parse(f"{verb} {ends}{rest}", TOPOLOGY)
    assert str(refused.value).removeprefix("link oslo -> rome: ").startswith(message)


def test_a_link_may_end_at_routers():
    ends = [(a, b) for pair in ("ar", "rq", "qb") for a, b in (pair, pair[::-1])]
    links = tuple(Link(*each, 8.0, 10.0) for each in ends)
    routed = Topology("t", (Site("a"), Site("b")), links, ("r", "q"))
    assert parse("outage r q for 1 s", routed) == Outage("r", "q", for_s=1.0)
    assert parse("outage r a", routed) == parse("outage r <-> a", routed)
    assert complete("outage ", routed) == ("a", "b", "r", "q")
    with pytest.raises(FaultError, match="a b: no link joins these two: expected r"):
        parse("outage a b", routed)
    with pytest.raises(FaultError, match="r: expected"):
        parse("kill r", routed)


def test_the_router_of_a_place_is_offered_for_the_place():
    ends = [("rome-gw", other) for other in ("rome-1", "rome-2", "oslo")]
    links = tuple(Link(*each, 8.0, 10.0) for pair in ends for each in (pair, pair[::-1]))
    sites = tuple(map(Site, ("rome-1", "rome-2", "oslo")))
    shared = Topology("t", sites, links, ("rome-gw",))
    for text in ("outage rome oslo", "outage oslo rome"):
        with pytest.raises(FaultError, match=r"rome: (did you mean|expected) rome-gw"):
            parse(text, shared)
    with pytest.raises(FaultError, match=r"rome: did you mean rome-1\?"):
        parse("kill rome", shared)


def test_without_a_topology_every_site_may_be_meant():
    assert parse("kill oslo") == Kill("oslo")


def test_a_shorter_delay_takes_the_jitter_with_it():
    links = [Link(a, b, 8.0, 10.0, jitter_ms=4.0) for a, b in LINKS]
    jittery = Topology("t", tuple(map(Site, SITES)), tuple(links))
    for text in ("setlink oslo rome delay=1ms", "redraw delay=0..9ms"):
        parse(text, jittery)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("out", ("outage",)),
        ("re", ("redraw", "resume", "restart")),
        ("outage ", SITES),
        ("outage oslo ", ("rome", "kyiv")),
        ("outage oslo rome ", ("both", "one-way", "blackhole", "carrier", "for")),
        ("outage oslo rome carrier f", ("for",)),
        ("kill c", ("controller",)),
        ("partition oslo,r", ("oslo,rome",)),
        ("partition oslo | ky", ("kyiv",)),
        ("setlink oslo rome ra", ("rate=",)),
        ("flap oslo rome e", ("every",)),
        ("paris ", ()),
        ("outage paris ", ()),
        ("heal ", ()),
    ],
)
def test_an_unfinished_text_is_completed(text, words):
    assert complete(text, TOPOLOGY) == words


sites = st.sampled_from(SITES)
pairs = st.sampled_from(LINKS)
times_s = st.none() | st.floats(0.001, 1e6)
hows = st.sampled_from(["blackhole", "carrier"])
ranges = st.tuples(st.floats(0.01, 10), st.floats(10, 1e5))
faults = st.one_of(
    st.builds(
        lambda p, d, t: Outage(*p, direction=d, for_s=t),
        pairs,
        st.sampled_from(["both", "one-way"]),
        times_s,
    ),
    st.builds(
        lambda p, h, e, t: Flap(*p, e, "both", h, t), pairs, hows, st.floats(0.001, 1e6), times_s
    ),
    st.builds(Isolate, sites, hows, times_s),
    st.builds(
        lambda p, *v: SetLink(*p, "both", *v),
        pairs,
        st.floats(1e-6, 1e6),
        times_s,
        times_s,
        times_s,
        st.none() | st.integers(1, 99),
        times_s,
    ),
    st.builds(Redraw, ranges, st.none() | ranges, st.none() | ranges, times_s, times_s),
    st.builds(Kill, sites | st.just("controller"), times_s),
    st.builds(
        Churn,
        st.floats(0.001, 1e6),
        times_s,
        times_s,
        times_s,
        ranges,
        st.integers(0, 99),
        st.integers(0, 99),
        st.none() | st.integers(0, 99),
    ),
)


@given(faults)
def test_what_is_written_is_read_back(fault):
    assert parse(write(fault)) == fault


words = st.sampled_from(
    [
        *VERBS,
        *SITES,
        "both",
        "carrier",
        "for",
        "every",
        "5s",
        "s",
        "rate=2..3Mbit/s",
        ",",
        "|",
        "->",
        "=",
    ]
)


@given(st.lists(words, max_size=8).map(" ".join))
def test_any_words_are_a_fault_or_refused(text):
    fault = None
    with contextlib.suppress(FaultError):
        fault = parse(text, TOPOLOGY)
    assert fault is None or parse(write(fault), TOPOLOGY) == fault
    assert all(isinstance(word, str) for word in complete(text, TOPOLOGY))


def test_the_manual_lists_every_verb_with_its_usage_and_help():
    text = (Path(__file__).parents[3] / "docs" / "timeline.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    escaped = {verb: usage(verb).replace("|", "\\|") for verb in VERBS}
    assert rows == [f"| `{escaped[verb]}` | {summary(verb)} |" for verb in VERBS]


def test_a_file_of_delays_gives_delay_and_jitter_unless_the_line_does():
    delays = "\n".join(str(20 + number % 50) for number in range(500))
    fault = parse("setlink oslo rome distribution=d.csv", TOPOLOGY, lambda name: delays)
    assert (fault.delay_ms, round(fault.jitter_ms, 2)) == (44.5, 14.43)
    assert parse(write(fault), TOPOLOGY) == fault
    fault = parse("setlink oslo rome delay=50ms distribution=d.csv", TOPOLOGY, lambda name: delays)
    assert (fault.delay_ms, round(fault.jitter_ms, 2)) == (50.0, 14.43)
    with pytest.raises(FaultError, match=r"d\.csv: 1 delays: expected 10 or more, one a line"):
        parse("setlink oslo rome distribution=d.csv", TOPOLOGY, lambda name: "5")
