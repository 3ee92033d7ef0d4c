"""What a timeline does when, and how everything is undone: literal faults in, literal steps out."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.faults.fault_steps import AgentStep, Began, Ended, LinkStep
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry, Timeline
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

SITES = ("a", "b", "c")
TOPOLOGY = Topology(
    "t",
    tuple(map(Site, SITES)),
    tuple(Link(x, y, 8.0, 10.0, jitter_ms=2.0) for x in SITES for y in SITES if x != y),
)
S = 10**9


def timeline(*lines, seed=1):
    """Each line is `seconds: fault`."""
    entries = []
    for line in lines:
        at_s, _, text = line.partition(": ")
        entries.append(Entry(float(at_s), parse(text, TOPOLOGY)))
    return Timeline(TOPOLOGY, entries, seed)


def said(steps):
    """Steps in words, as short as they can be."""
    words = []
    for step in steps:
        match step:
            case Began(number=number, fault=fault):
                words.append(f"+{number} {write(fault)}")
            case Ended(number=number):
                words.append(f"-{number}")
            case AgentStep(who=who, do=do):
                words.append(f"{do} {who}")
            case LinkStep(before=before, after=after, cuts_before=was, cuts_after=now):
                ends = f"{after.src}->{after.dst}"
                words += [f"mend {ends} {how}" for how in sorted(was - now)]
                words += [f"cut {ends} {how}" for how in sorted(now - was)]
                if before != after:
                    words.append(
                        f"{ends} {after.rate_mbps:g} {after.delay_ms:g} {after.jitter_ms:g}"
                    )
    return words


def played(line, until_s):
    """(second, what is done) until a time, never looking before something is due."""
    found = []
    while line.next_ns is not None and line.next_ns <= until_s * S:
        now_ns = line.next_ns
        found += [(now_ns / S, words) for words in said(line.advance(now_ns))]
    return found


def test_an_outage_cuts_its_directions_and_mends_them_when_its_time_is_over():
    line = timeline("5: outage a b for 2 s", "6: outage a c carrier")
    assert played(line, 100) == [
        (5.0, "+0 outage a b both blackhole for 2 s"),
        (5.0, "cut a->b blackhole"),
        (5.0, "cut b->a blackhole"),
        (6.0, "+1 outage a c both carrier"),
        (6.0, "cut a->c carrier"),
        (6.0, "cut c->a carrier"),
        (7.0, "mend a->b blackhole"),
        (7.0, "mend b->a blackhole"),
        (7.0, "-0"),
    ]


def test_a_link_is_mended_when_the_last_fault_that_cuts_it_is_over():
    line = timeline(
        "0: outage a b one-way for 3 s", "1: isolate a for 1 s", "1: partition a | b for 9 s"
    )
    done = dict.fromkeys(words for _, words in played(line, 9))
    assert [w for w in done if "a->b" in w] == ["cut a->b blackhole"]
    assert [w for w in played(line, 10) if "a->b" in w[1]] == [(10.0, "mend a->b blackhole")]


def test_one_group_is_parted_from_all_others():
    line = timeline("0: partition b")
    assert [words for _, words in played(line, 0)][1:] == [
        f"cut {ends} blackhole" for ends in ("a->b", "b->a", "b->c", "c->b")
    ]


def test_a_flap_is_down_for_half_of_every_period_and_up_when_it_is_over():
    line = timeline("1: flap a b one-way every 2 s for 5.5 s")
    assert [(at, words[:3]) for at, words in played(line, 100)][1:] == [
        (1.0, "cut"),
        (2.0, "men"),
        (3.0, "cut"),
        (4.0, "men"),
        (5.0, "cut"),
        (6.0, "men"),
        (6.5, "-0"),
    ]


def test_setlink_keeps_what_it_does_not_name_and_the_last_word_holds():
    line = timeline(
        "0: setlink a b one-way rate=4 Mbit/s for 3 s",
        "1: setlink a b one-way rate=2Mbit/s delay=1ms for 1 s",
    )
    changes = [(at, words) for at, words in played(line, 9) if "->" in words]
    assert changes == [
        (0.0, "a->b 4 10 2"),
        (1.0, "a->b 2 1 1"),
        (2.0, "a->b 4 10 2"),
        (3.0, "a->b 8 10 2"),
    ]


def test_a_redraw_draws_every_direction_anew_from_the_seed():
    rates = []
    for seed in (1, 1, 2):
        line = timeline("0: redraw rate=20..155Mbit/s every 180 s", seed=seed)
        rates.append(
            [s.after.rate_mbps for at in (0, 180) for s in line.advance(at * S)[at == 0 :]]
        )
    first, again, other = rates
    assert first == again != other
    assert len(set(first)) == 2 * 6
    assert all(20 <= rate <= 155 for rate in first)


def test_a_trace_is_followed_from_its_start_and_repeated():
    line = timeline("1: trace a b 1s:4Mbit/s,2s:2Mbit/s:30ms every 4 s for 6 s")
    assert [(at, words) for at, words in played(line, 20) if "->" in words] == [
        (2.0, "a->b 4 10 2"),
        (3.0, "a->b 2 30 2"),
        (6.0, "a->b 4 30 2"),
        (7.0, "a->b 8 10 2"),
    ]


def cuts(line, until_s):
    """(time, link, how it is cut) of each step of a link."""
    found = []
    while line.next_ns is not None and line.next_ns <= until_s * S:
        at_ns = line.next_ns
        steps = [step for step in line.advance(at_ns) if isinstance(step, LinkStep)]
        found += [(at_ns / S, f"{s.after.src}->{s.after.dst}", {*s.cuts_after}) for s in steps]
    return found


def test_a_rate_of_0_cuts_the_link_until_the_next_rate():
    line = timeline("0: trace a b 1s:0Mbit/s,2s::30ms,3s:2Mbit/s every 4 s for 6 s")
    assert cuts(line, 20) == [
        (1.0, "a->b", {"blackhole"}),
        (2.0, "a->b", {"blackhole"}),
        (3.0, "a->b", set()),
        (5.0, "a->b", {"blackhole"}),
        (6.0, "a->b", set()),
    ]


def test_a_site_that_is_not_available_has_no_links():
    line = timeline("0: availability a 1s:off,2s:on carrier every 4 s for 7 s")
    own = {"a->b", "b->a", "a->c", "c->a"}
    found = cuts(line, 20)
    assert {each for _, each, _ in found} == own
    assert [(at, how) for at, each, how in found if each == "c->a"] == [
        (1.0, {"carrier"}),
        (2.0, set()),
        (5.0, {"carrier"}),
        (6.0, set()),
    ]


def test_agents_are_paused_killed_and_started_again():
    line = timeline(
        "0: pause a",
        "1: kill a for 2 s",
        "4: resume a",
        "5: kill controller",
        "6: restart controller",
        "7: restart b",
    )
    assert [(at, words) for at, words in played(line, 9) if words[0] not in "+-"] == [
        (0.0, "pause a"),
        (1.0, "kill a"),
        (3.0, "restart a"),
        (3.0, "pause a"),
        (4.0, "resume a"),
        (5.0, "kill controller"),
        (6.0, "restart controller"),
        (7.0, "kill b"),
        (7.0, "restart b"),
    ]


def test_setlink_of_all_links_of_a_site():
    line = timeline(
        "0: setlink a all rate=4Mbit/s",
        "1: setlink a all one-way rate=2Mbit/s for 1 s",
        "3: outage b c",
        "4: mend a all",
    )
    done = played(line, 9)
    changes = {at: [words for t, words in done if t == at and "->" in words] for at, _ in done}
    assert sorted(changes[0.0]) == ["a->b 4 10 2", "a->c 4 10 2", "b->a 4 10 2", "c->a 4 10 2"]
    assert sorted(changes[1.0]) == ["a->b 2 10 2", "a->c 2 10 2"]
    assert sorted(changes[2.0]) == ["a->b 4 10 2", "a->c 4 10 2"]
    assert sorted(changes[4.0]) == ["a->b 8 10 2", "a->c 8 10 2", "b->a 8 10 2", "c->a 8 10 2"]


def test_mend_undoes_a_links_faults_and_heal_undoes_all():
    line = timeline(
        "0: outage a b",
        "0: setlink b a rate=1Mbit/s",
        "0: outage a c",
        "0: kill b",
        "1: mend b a",
        "2: heal",
    )
    done = played(line, 9)
    assert [words for at, words in done if at == 1 and words[0] not in "+-"] == [
        "mend a->b blackhole",
        "mend b->a blackhole",
        "b->a 8 10 2",
        "a->b 8 10 2",
    ] or [words for at, words in done if at == 1][-1] == "-4"
    assert [words for at, words in done if at == 2] == [
        "+5 heal",
        "mend a->c blackhole",
        "mend c->a blackhole",
        "-2",
        "restart b",
        "-3",
        "-5",
    ]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("mend b a", ("b -> a", "a -> b")),
        ("resume a", ("a",)),
        ("restart b", ("b",)),
        ("heal", ()),
        ("redraw rate=1..2Mbit/s", ()),
        ("outage a b one-way", ("a -> b",)),
    ],
)
def test_a_fault_names_its_targets_also_if_it_undoes_others(text, targets):
    assert timeline(f"0: {text}").advance(0)[0].targets == targets


def test_the_end_of_a_run_undoes_what_goes_on_and_starts_all_agents_that_are_not_done():
    for done, restarted in (((), ["restart b", "-1"]), (("b", "controller"), [])):
        line = timeline("0: outage a b", "0: kill b", "0: pause c", "9: outage a c")
        line.advance(0)
        assert said(line.finish(done)) == [
            "mend a->b blackhole",
            "mend b->a blackhole",
            "-0",
            *restarted,
            "resume c",
            "-2",
        ]
        assert line.next_ns is None


def test_churn_keeps_its_budget_and_depends_on_its_seed_alone():
    times = "outages=1s pauses=1s kills=1s controller=2s lasting=1..3s"
    text = f"0: churn {times} links=2 agents=1 total=40"
    line, again, other = timeline(text), timeline(text), timeline(text, seed=2)
    done = played(line, 1000)
    assert done == played(again, 1000) != played(other, 1000)
    begun = [words for _, words in done if words.startswith("+")][1:]
    assert len(begun) == 40
    assert {words.split()[1] for words in begun} == {"outage", "pause", "kill"}
    cut, hit = set(), set()
    for _, words in done:
        match words.split():
            case ["cut", link, _]:
                cut.add(frozenset(link.split("->")))
            case ["mend", link, _]:
                cut.discard(frozenset(link.split("->")))
            case ["pause" | "kill", who]:
                hit.add(who)
            case ["resume" | "restart", who]:
                hit.discard(who)
        assert (len(cut) <= 2, len(hit) <= 1) == (True, True)
    assert (cut, hit) == (set(), set())


def test_churn_leaves_out_what_is_not_among_its_sites():
    text = "0: churn outages=1s pauses=1s lasting=1..2s links=9 agents=9 total=50 among=a,c"
    begun = [words for _, words in played(timeline(text), 1000) if words.startswith("+")][1:]
    assert {words.split(" for ")[0].split(" ", 1)[1] for words in begun} == {
        "outage a c both blackhole", "pause a", "pause c"
    }  # fmt: skip


def test_churn_breaks_links_of_routers_and_with_among_only_those_of_its_sites():
    ends = [(a, b) for pair in ("ar", "rq", "qb") for a, b in (pair, pair[::-1])]
    links = tuple(Link(*each, 8.0, 10.0) for each in ends)
    routed = Topology("t", (Site("a"), Site("b")), links, ("r", "q"))

    def broken(text):
        timeline = Timeline(routed, [Entry(0.0, parse(text, routed))], 1)
        steps = timeline.advance(300 * 10**9)
        return {frozenset((x.after.src, x.after.dst)) for x in steps if isinstance(x, LinkStep)}

    whole = {frozenset(pair) for pair in ("ar", "rq", "qb")}
    assert broken("churn outages=3s") == whole
    assert broken("churn outages=3s among=a") == {frozenset("ar")}


def test_churn_draws_one_way_outages_losses_and_slow_links_one_fault_a_link():
    text = "0: churn oneways=1s losses=1s slowdowns=1s lasting=1..3s links=9 total=60"
    begun = [words for _, words in played(timeline(text), 1000) if words.startswith("+")][1:]
    kinds = [words.split(" for ")[0].split(" ", 1)[1] for words in begun]
    one_way = {kind for kind in kinds if kind.startswith("outage")}
    assert one_way and all("one-way" in kind or "->" in kind for kind in one_way)
    losses = [kind for kind in kinds if "loss=" in kind]
    shares = [float(kind.split("loss=")[1].split()[0].rstrip("%")) for kind in losses]
    assert len(shares) > 5 and all(10 <= share <= 60 for share in shares)
    rates = {kind.split("rate=")[1] for kind in kinds if "rate=" in kind}
    assert rates == {"800kbit/s"}


LINES = [
    "outage a b for 2 s", "isolate c carrier for 1 s", "partition a | b,c", "flap a c every 300 ms",
    "setlink a b rate=3Mbit/s for 1 s", "redraw delay=1..90 ms every 700 ms", "kill a for 1 s",
    "restart a", "resume a", "mend a b", "trace b c 0s:0Mbit/s,1s:2Mbit/s:::3ms every 2 s", "heal",
    "availability a 0s:off,1s:on every 2 s",
    "pause a for 2 s", "churn outages=200ms pauses=300ms lasting=0.1..1s links=2",
]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(LINES)), max_size=12))
def test_whatever_went_on_the_end_leaves_the_network_as_it_was_built(lines):
    line = timeline(*(f"{at / 10}: {text}" for at, text in lines))
    links = {(link.src, link.dst): (link, frozenset()) for link in TOPOLOGY.links}
    was = dict(links)
    states = {}
    steps = []
    while line.next_ns is not None and line.next_ns < 6 * S:
        steps += line.advance(line.next_ns)
    for step in [*steps, *line.finish()]:
        if isinstance(step, LinkStep):
            ends = (step.after.src, step.after.dst)
            assert links[ends] == (step.before, step.cuts_before)
            links[ends] = (step.after, step.cuts_after)
        elif isinstance(step, AgentStep):
            states[step.who] = step.do
    assert links == was
    assert not {"pause", "kill"} & {*states.values()}


@pytest.mark.parametrize("seed", range(3))
def test_looking_late_does_all_that_was_due_in_its_order(seed):
    lines = random.Random(seed).sample(LINES, 6)
    texts = [f"{number / 10}: {text}" for number, text in enumerate(lines)]
    assert said(timeline(*texts).advance(4 * S)) == [
        words for _, words in played(timeline(*texts), 4)
    ]
