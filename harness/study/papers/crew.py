"""Figures of CREW (Luo et al.), scaled down as the files in `scenarios/paper/crew` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

FAULTY_LINKS = (0, 1, 2, 4, 8)
_CHURN = "'churn outages=20ms lasting=100s links=21 total={} among=n2,n3,n4,n5,n6,n7,n8'"

FIGURES: Mapping[str, Figure] = {
    "4": Figure(
        "one partial reduce: CREW fastest, OPR second, dozens of times faster than the others",
        "paper/crew/fig4.yaml",
        (
            "scheme={plan: crew},{plan: crew, split: even},{plan: crew, split: pipelined},"
            "{plan: opr},{plan: a2a},{plan: ring},{plan: ps},{plan: blink},{plan: toa}",
            "scheme.pipelined=true,false",
        ),
        "task_s",
    ),
    "5": Figure(
        "rounds of CREW: 12 to 15 times A2A's, 4 to 9 times OPR's, 1.5 to 2 times those with an "
        "even split and fair links (n = 60)",
        "paper/crew/fig5.yaml",
        (
            "scheme={plan: crew},{plan: crew, split: even, discipline: fair},{plan: opr},"
            "{plan: a2a}",
            "topology.rates=n1,n2",
        ),
        "rounds",
    ),
    "6": Figure(
        "non-blocking scatter: more rounds in every case, up to 1.2 times",
        "paper/crew/fig6.yaml",
        ("scheme.scatter=blocking,non-blocking", "scheme.p=3,8"),
        "rounds",
    ),
    "7": Figure(
        "rounds by discipline: fcfs > fair, C2 > C1, about task-fcfs",
        "paper/crew/fig7.yaml",
        ("scheme.discipline=fcfs,fair,task-fcfs,C1,C2",),
        "rounds",
    ),
    "8": Figure(
        "faulty links: the first cost many rounds, further ones few; larger groups lose more",
        "paper/crew/fig8.yaml",
        (
            "timeline[0].do=" + ",".join(_CHURN.format(number) for number in FAULTY_LINKS),
            "scheme.p=3,6",
        ),
        "rounds",
    ),
    "9": Figure(
        "computing x2 to x6: nearly linear loss of rounds, less with N2 than with N1",
        "paper/crew/fig9.yaml",
        ("workload.compute_factor=1.0,2.0,4.0,6.0", "topology.rates=n1,n2"),
        "rounds",
    ),
    "10": Figure(
        "model x2 to x8: less than linear loss of rounds",
        "paper/crew/fig10.yaml",
        ("workload.model=270 kB,540 kB,1.08 MB,2.16 MB", "topology.rates=n1,n2"),
        "rounds",
    ),
    "11": Figure(
        "wrong rate estimates: the network-aware split degrades slowly, the even one not at all",
        "paper/crew/fig11.yaml",
        ("scheme={plan: crew},{plan: crew, split: even}", "scheme.rate_error=0 %,10 %,30 %,50 %"),
        "rounds",
    ),
}
