"""Figures of P-Reduce (Miao et al.), scaled down as the files in `scenarios/paper/p-reduce` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

FIGURES: Mapping[str, Figure] = {
    "theory": Figure(
        "three sites: rho is 0.5 in groups of two, 0.625 if one site takes twice as long, and 0 if "
        "every group has all sites",
        "paper/p-reduce/theory.yaml",
        (
            "workload.slowdown=null,{n3: 1.9},{n3: 2.0},{n3: 2.1}",
            "scheme.p=2,3",
        ),
        "rho",
    ),
    "frozen": Figure(
        "two sites may average only with each other, and the other two as well; the group filter "
        "connects them (section 4)",
        "frozen_groups.yaml",
        ("scheme={group_filter: false},{group_filter: true},{group_filter: true, history: 12}",),
        "rho",
    ),
}
