"""Figures of NetStorm (Li et al.), scaled down as the files in `scenarios/paper/netstorm` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

SCENARIO = "paper/netstorm/dynamic.yaml"
_BOTH = "timeline=[],[{at: 180 s, do: redraw rate=0.2..1.55 Mbit/s every 180 s}]"
"""The static network, and the dynamic one."""

# Without auxiliary paths: the figure compares trees.
_MEASURED = "rates: measured, auxiliary: null"
_BOUNDS = ",".join(
    f"{{busy_bound: {busy}, queue_length: {length}}}" for busy in (1, 2, 4) for length in (1, 5)
)

FIGURES: Mapping[str, Figure] = {
    "13": Figure(
        "training with NetStorm: up to 9.2 times as fast as with MXNET at constant rates, up to "
        "6.5 times at changing rates",
        SCENARIO,
        ("scheme.name=mxnet,mlnet,tsengine,netstorm-pro", _BOTH),
        "task_s",
    ),
    "14": Figure(
        "one tree: FAPT up to 6.7 times as fast as STAR, 3.1 times as fast as BKT; with changing "
        "rates 1.7 times as fast as a static balanced tree",
        SCENARIO,
        (
            "scheme={plan: star, rates: configured, auxiliary: null},"
            "{plan: bkt, rates: configured, auxiliary: null},"
            f"{{plan: mst, {_MEASURED}}},{{plan: fapt, roots: 1, {_MEASURED}}}",
            _BOTH,
        ),
        "task_s",
    ),
    "15": Figure(
        "throughput grows linearly with the number of roots; nine are 2.8 times as fast as one",
        SCENARIO,
        ("scheme.roots=1,3,5,7,9",),
        "task_s",
    ),
    "16": Figure(
        "awareness: an iteration takes 50 s instead of 66 s",
        SCENARIO,
        ("scheme.rates=configured,measured",),
        "task_s",
    ),
    "17": Figure(
        "auxiliary paths: 1.3 to 1.65 times as fast, most at bounds of 2 and 5",
        SCENARIO,
        (f"scheme.auxiliary=null,{_BOUNDS}",),
        "task_s",
    ),
    "18": Figure(
        "speed relative to MXNET: lite 5.5 times, std 20 % more than lite, pro 7.5 times",
        SCENARIO,
        ("scheme.name=mxnet,netstorm-lite,netstorm-std,netstorm-pro",),
        "task_s",
    ),
    "19a": Figure(
        "iteration time grows more slowly with the model's size than MXNET's",
        SCENARIO,
        ("scheme.name=mxnet,netstorm-pro", "workload.model=168 kB,468 kB,1.02 MB,2.41 MB"),
        "task_s",
    ),
    "19b": Figure(
        "5 to 15 sites: total throughput grows linearly with an efficiency of 0.93",
        SCENARIO,
        ("topology.sites=5,7,9,11,13,15",),
        "task_s",
    ),
    "20a": Figure(
        "chunk size: smaller is better; the best is 0.5 to 1 million parameters",
        SCENARIO,
        ("scheme.chunk=10 kB,20 kB,40 kB,80 kB,160 kB,320 kB",),
        "task_s",
    ),
    "20b": Figure(
        "update period: the best is 5 s",
        SCENARIO,
        ("scheme.update=1 s,5 s,20 s,60 s,180 s",),
        "task_s",
    ),
    "20c": Figure(
        "chunks per measurement: 4 to 32 are equally good",
        SCENARIO,
        ("scheme.awareness.probe_count=1,4,16,32,64",),
        "task_s",
    ),
    "20d": Figure(
        "least size of measured chunks: 0.01 to 4 million parameters are good, more is too large",
        SCENARIO,
        ("scheme.awareness.probe_chunk=400 B,4 kB,20 kB,39 kB",),
        "task_s",
    ),
    "mxnet": Figure(
        "speed relative to MXNET, whose server and routes the paper does not give",
        SCENARIO,
        (
            "scheme="
            + ",".join(
                f"{{name: {name}, chunk: 40 kB}}"
                for name in (
                    *(
                        f"mxnet, server: {server}, routes: {routes}"
                        for server in ("root", "fastest", "slowest", "n5")
                        for routes in ("hops", "rate")
                    ),
                    *(f"mlnet, routes: {routes}" for routes in ("hops", "rate")),
                    *("tsengine", "netstorm-lite", "netstorm-std", "netstorm-pro"),
                )
            ),
        ),
        "task_s",
    ),
}
