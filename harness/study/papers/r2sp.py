"""Figures of R2SP (Zhang et al.), scaled down as the files in `scenarios/paper/r2sp` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

SCHEMES = "scheme.name=ps-bsp,ps-asp,ps-ssp,r2sp"

FIGURES: Mapping[str, Figure] = {
    "8": Figure(
        "16 workers, 4 servers: iterations of R2SP are about 30 % shorter than those of BSP, and "
        "shorter than those of ASP and SSP",
        "paper/r2sp/cluster.yaml",
        (SCHEMES,),
        "rounds",
    ),
    "9": Figure(
        "gaps of zero between updates: 15/16 (93.75 %) with BSP, 83 % with SSP, 75 % with ASP, and "
        "almost none with R2SP",
        "paper/r2sp/cluster.yaml",
        (SCHEMES,),
        "zero_gaps_percent",
    ),
    "10": Figure(
        "the rate at which a worker pulls is the highest with R2SP",
        "paper/r2sp/cluster.yaml",
        (SCHEMES,),
        "pull_s",
    ),
    "12": Figure(
        "the slower the links, the larger is the gain of R2SP over BSP; here, the larger the model",
        "paper/r2sp/cluster.yaml",
        ("scheme.name=ps-bsp,r2sp", "workload.model=250 kB,500 kB,1 MB"),
        "rounds",
    ),
    "13": Figure(
        "a smaller relaxation factor leaves workers waiting for less time; iterations are the "
        "shortest with 0.8. Here, all workers may push at once, so only the factor spaces them",
        "paper/r2sp/cluster.yaml",
        ("scheme.name=r2sp", "scheme.at_once=16", "scheme.relaxation=0,0.2,0.4,0.6,0.8,1"),
        "rounds",
    ),
    "table3": Figure(
        "workers with 429, 628 and 917 samples/s wait for 0, 0.62 and 0.82 s per round; with tuned "
        "batches of 512, 901 and 1264 samples they do not wait",
        "paper/r2sp/heterogeneous.yaml",
        ("scheme.batch=null,512",),
        "wait_s",
    ),
}
