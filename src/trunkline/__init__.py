"""Real geo-distributed training traffic over an emulated wide-area network.

Your own files import only from these modules:

    trunkline.topology    a network: `build(rng, *, ...) -> Topology`
    trunkline.plan        how bytes move: `build(request, *, ...) -> Plan`
    trunkline.policy      who synchronizes, when: `create(sites, *, ...) -> Policy`
    trunkline.workload    what sites compute: `build(rank, sites, seed, *, ...) -> Workload`
    trunkline.program     what a program of your own may report to a run

The names in these modules are stable. Everything below `trunkline.agents`, `trunkline.harness`,
`trunkline.topologies` and `trunkline.workloads` may move between versions.
"""
