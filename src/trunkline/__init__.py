"""Real geo-distributed training traffic over an emulated wide-area network.

Files of your own import from here, one module per kind, and from nowhere else:

    trunkline.topology    a network: `build(rng, *, ...) -> Topology`
    trunkline.plan        how bytes move: `build(request, *, ...) -> Plan`
    trunkline.policy      who synchronizes, when: `create(sites, *, ...) -> Policy`
    trunkline.workload    what sites compute: `build(rank, sites, seed, *, ...) -> Workload`
    trunkline.program     what a program of your own may tell a run

The names in these modules stay where they are. Everything below `trunkline.agents`,
`trunkline.harness`, `trunkline.topologies` and `trunkline.workloads` may move from one version to
the next.
"""
