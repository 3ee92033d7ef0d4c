"""Runs on the machines of a cluster, by dask.distributed or as a job array of SLURM.

A `cluster_file` says which cluster. `dask_clusters` starts it or connects to it, with `slurm_jobs`
and `ssh_machines`, which also say why workers are missing. `cluster_pool` hands runs to it in place
of `harness.runs.run_pool`, and `cluster_task` carries each out over there. `job_array` writes a
script for SLURM that needs no Dask. Nothing else imports Dask, which is the extra
`trunkline[cluster]`. Finished runs are found by their folders, never by Dask.
"""


class ClusterError(Exception):
    """A cluster that cannot be used, or is lost; the text says what to do."""
