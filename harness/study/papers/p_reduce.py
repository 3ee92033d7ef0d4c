"""Figures of P-Reduce (Miao et al.), scaled down as the files in `scenarios/paper/p-reduce` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

FIGURES: Mapping[str, Figure] = {
    "theory": Figure(
        "three sites: rho is 0.5 in groups of two, 0.625 if one site takes twice as long, and 0 if "
        "every group has all sites",
        "paper/p-reduce/theory.yaml",
        ("workload.slowdown=null,{n3: 1.9},{n3: 2.0},{n3: 2.1}", "scheme.p=2,3"),
        "rho",
    ),
    "table1": Figure(
        "time to an accuracy with three slow workers of eight: partial reduce in groups of 3 and 5 "
        "is the fastest (603 to 658 s); AD-PSGD 731, BK 734, HETE 861, ASP 996, AR 1150, BSP 1204 "
        "s; Eager-Reduce does not get there",
        "paper/p-reduce/table1.yaml",
        (
            "scheme={name: allreduce},{name: eager-reduce},{name: ad-psgd},{name: ps-bsp},"
            "{name: ps-asp},{name: ps-hete},{name: ps-bk, backups: 3},{name: p-reduce, p: 3},"
            "{name: p-reduce, p: 3, weights: dynamic},{name: p-reduce, p: 5},"
            "{name: p-reduce, p: 5, weights: dynamic}",
        ),
        "target_s",
    ),
    "8": Figure(
        "the time per update grows with the size of groups, and the number of updates falls; the "
        "best sizes are 3 and 5 of 8 workers, of which none is slow",
        "paper/p-reduce/table1.yaml",
        ("scheme={name: p-reduce}", "scheme.p=2,3,4,5,6,7,8", "workload.slowdown=null"),
        "target_s",
    ),
    "9": Figure(
        "16 workers of a production cluster: partial reduce takes a 16.6th of all-reduce's time "
        "per update, and half of its time in all",
        "paper/p-reduce/fig9.yaml",
        (
            "scheme={name: allreduce},{name: p-reduce, p: 3},"
            "{name: p-reduce, p: 3, weights: dynamic}",
        ),
        "update_s",
    ),
    "7": Figure(
        "accuracy over time, and table 1's levels of heterogeneity: partial reduce in groups of 3 "
        "takes 0.74 to 0.80 of all-reduce's time at level 1, and 0.52 to 0.55 at level 3 "
        "(ResNet-34). Level 1: no slow worker; 2: two workers share a GPU, and take 1.5 times as "
        "long; 3: three share one, and take twice as long",
        "paper/p-reduce/table1.yaml",
        (
            "scheme={name: allreduce},{name: p-reduce, p: 3}",
            "workload.slowdown=null,{n6: 1, n7: 1.5, n8: 1.5},{n6: 2, n7: 2, n8: 2}",
        ),
        "target_s",
    ),
    "10": Figure(
        "32 workers of a production cluster: partial reduce is as accurate as all-reduce at the "
        "end, and gets there in less time",
        "paper/p-reduce/fig9.yaml",
        ("scheme={name: allreduce},{name: p-reduce, p: 4}", "topology.sites=32"),
        "target_s",
    ),
    "11": Figure(
        "partial reduce in groups of 4 gains from more workers for longer than all-reduce does, up "
        "to 32. Compute times are those of figure 9, whose slowest worker is the slower, the more "
        "there are",
        "paper/p-reduce/fig9.yaml",
        ("scheme={name: allreduce},{name: p-reduce, p: 4}", "topology.sites=4,8,16,32"),
        "target_s",
    ),
    "frozen": Figure(
        "two sites may average only with each other, and the other two as well; the group filter "
        "connects them (section 4)",
        "frozen_groups.yaml",
        (
            "scheme={group_filter: false},{group_filter: true},{group_filter: true, history: 12},"
            "{group_filter: true, filter: repair},"
            "{group_filter: true, history: 12, filter: repair}",
        ),
        "rho",
    ),
}
