"""Figures of R2SP (Zhang et al.), scaled down as the files in `scenarios/paper/r2sp` say."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure

SCHEMES = "scheme.name=ps-bsp,ps-asp,ps-ssp,r2sp,r2sp-literal"


def _list_delayed(chunk: str, batch: int) -> str:
    """The schemes of figure 14; the last one tunes batches, and begins with this one."""
    names = ("ps-bsp", "ps-asp", "ps-ssp", "safa", "r2sp", f"r2sp, batch: {batch}")
    rest = f"servers: [n9, n10], chunk: {chunk}"
    return "scheme=" + ",".join(f"{{name: {name}, {rest}}}" for name in names)


DELAYED = _list_delayed("12500 B", 400)
DELAYED_TRAINING = _list_delayed("4 KiB", 32)

FEDERATED = "scheme.name=fl-bsp,fl-r2sp"

FIGURES: Mapping[str, Figure] = {
    "1": Figure(
        "with BSP, workers share a server's link, and use only one direction of it; with R2SP the "
        "server's peak rate and the time of a pull are several times smaller",
        "paper/r2sp/server_link.yaml",
        (
            "scheme={name: ps-bsp, servers: [n17], chunk: 12500 B},"
            "{name: r2sp, at_once: 2, servers: [n17], chunk: 12500 B}",
        ),
        "server_out_peak_mbps",
    ),
    "8": Figure(
        "16 workers, 4 servers: iterations of R2SP are about 30 % shorter than those of BSP, and "
        "shorter than those of ASP and SSP",
        "paper/r2sp/cluster.yaml",
        (SCHEMES,),
        "rounds",
    ),
    "8b": Figure(
        "iterations of a worker until the loss stays low: BSP needs the fewest; of ASP, SSP and "
        "R2SP, R2SP needs the fewest",
        "paper/r2sp/cluster_training.yaml",
        (SCHEMES,),
        "target_rounds",
    ),
    "8c": Figure(
        "time until the loss stays low: R2SP needs up to 25 % less than BSP, and BSP less than ASP "
        "and SSP",
        "paper/r2sp/cluster_training.yaml",
        (SCHEMES,),
        "target_s",
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
    "11": Figure(
        "workers of three speeds reach the same quality in about 40 % less time if batches are "
        "tuned; here, 80 % of the test samples",
        "paper/r2sp/convergence.yaml",
        ("scheme.batch=null,64",),
        "target_s",
    ),
    "12": Figure(
        "the slower the links, the larger is the gain of R2SP over BSP; here, the larger the model",
        "paper/r2sp/cluster.yaml",
        (
            "scheme.name=ps-bsp,r2sp",
            "scheme.chunk=12500 B",
            "workload.model=60 kB,250 kB,500 kB,1 MB",
        ),
        "rounds",
    ),
    "13": Figure(
        "a smaller relaxation factor leaves workers waiting for less time; iterations are the "
        "shortest with 0.8. Here, all workers may push at once, so only the factor spaces them",
        "paper/r2sp/cluster.yaml",
        ("scheme.name=r2sp", "scheme.at_once=16", "scheme.relaxation=0,0.2,0.4,0.6,0.8,1"),
        "rounds",
    ),
    "14": Figure(
        "two workers are delayed by 0.5 s per iteration, and two by 1 s: with tuned batches, R2SP "
        "has the shortest iterations, so here the most rounds",
        "paper/r2sp/delays.yaml",
        (DELAYED,),
        "rounds",
    ),
    "14b": Figure(
        "delayed workers: R2SP with tuned batches needs a few more iterations of a worker than BSP "
        "and SAFA until the loss stays low",
        "paper/r2sp/delays_training.yaml",
        (DELAYED_TRAINING,),
        "target_rounds",
    ),
    "14c": Figure(
        "delayed workers: R2SP with tuned batches needs 16.9 and 18.8 % less time than the second "
        "best scheme until the loss stays low",
        "paper/r2sp/delays_training.yaml",
        (DELAYED_TRAINING,),
        "target_s",
    ),
    "15": Figure(
        "accuracy when ten evaluations in a row were no better: that of FL-R2SP is that of BSP, "
        "that of ASP is worse; without outlier filtering, BSP and FL-R2SP lose about 10 points",
        "paper/r2sp/outliers.yaml",
        (
            "scheme={name: fl-bsp, servers: [n1], chunk: 16 KiB},"
            "{name: fl-bsp, servers: [n1], chunk: 16 KiB, similarity: null},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB, similarity: null},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB, mix: delta},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB, mix: delta, similarity: null},"
            "{name: ps-asp, servers: [n1], chunk: 16 KiB}",
        ),
        "accuracy_percent",
    ),
    "16": Figure(
        "128 clients: the clients of a group compute, wait, push and pull together, and one group "
        "after the other; under BSP all clients wait for the same turn. The figure draws who does "
        "what when: here, in the report of each run. The table has how long a client waits",
        "paper/r2sp/federated.yaml",
        (FEDERATED,),
        "wait_s",
    ),
    "16-pushes": Figure(
        "128 clients push as soon as they have computed, and only pulls meet: a push under BSP "
        "takes 0.36 to 0.38 s (CNN, LSTM; table V). Here, with compute times that differ by up to "
        "10 %, pushes do so too, or wait for those of their group",
        "paper/r2sp/federated.yaml",
        (
            FEDERATED,
            "scheme.mix=delta",
            "scheme.wait=push,pull",
            "workload.compute=[7.2 s, 8.8 s]",
        ),
        "push_s",
    ),
    "17": Figure(
        "128 clients: the peak rate at which the server sends is about 3 times lower with FL-R2SP "
        "than with BSP, traced with nethogs. Here, the peak is that of steps of 0.1 s; "
        "tables/servers.csv of each run has the steps",
        "paper/r2sp/federated.yaml",
        (FEDERATED,),
        "server_out_peak_mbps",
    ),
    "18": Figure(
        "128 clients in groups of 2 to 64: rounds take the least time in groups of 32",
        "paper/r2sp/federated.yaml",
        ("scheme.groups=64,32,16,8,4,2",),
        "rounds",
    ),
    "table2": Figure(
        "128 clients need 14 to 34 times as long as a single one to exchange a model with the "
        "server under BSP",
        "paper/r2sp/federated.yaml",
        ("scheme.name=fl-bsp", "topology.sites=2,129"),
        "pull_s",
    ),
    "table3": Figure(
        "workers with 429, 628 and 917 samples/s wait for 0, 0.62 and 0.82 s per round; with tuned "
        "batches of 512, 901 and 1264 samples they do not wait",
        "paper/r2sp/heterogeneous.yaml",
        ("scheme.batch=null,512",),
        "wait_s",
    ),
    "table4": Figure(
        "128 clients: a round takes 22, 13 and 18 % less time with FL-R2SP than with BSP (CNN, "
        "LSTM, ResNet20)",
        "paper/r2sp/federated.yaml",
        (FEDERATED,),
        "rounds",
    ),
    "table4-convergence": Figure(
        "with FL-R2SP, it takes 22, 14 and 11 % less time until the accuracy gets no better (CNN, "
        "LSTM, ResNet20)",
        "paper/r2sp/outliers.yaml",
        (
            "scheme={name: fl-bsp, servers: [n1], chunk: 16 KiB},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB},"
            "{name: fl-r2sp, servers: [n1], chunk: 16 KiB, mix: delta}",
        ),
        "converged_s",
    ),
    "table5a": Figure(
        "128 clients: a push takes 0.34 to 0.47 s with FL-R2SP, 0.36 to 1.19 s with BSP",
        "paper/r2sp/federated.yaml",
        (FEDERATED,),
        "push_s",
    ),
    "table5b": Figure(
        "128 clients: a pull takes 0.36 to 1.50 s with FL-R2SP, 2.12 to 13.28 s with BSP, so 5.9 "
        "to 8.9 times as long",
        "paper/r2sp/federated.yaml",
        (FEDERATED,),
        "pull_s",
    ),
}
