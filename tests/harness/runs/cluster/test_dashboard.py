"""The address of Dask's dashboard: told where one runs, with the host that a browser can reach."""

import pytest

pytest.importorskip("distributed")

from trunkline.harness.runs.cluster.cluster_file import Address, Local, Slurm, Ssh
from trunkline.harness.runs.cluster.dask_clusters import find_dashboard


class Client:
    """What a client tells of a scheduler whose dashboard runs, or does not."""

    dashboard_link = "http://10.0.0.1:8787/status"

    def __init__(self, runs):
        self.run_on_scheduler = lambda _: runs
        self.scheduler_info = lambda: {"services": {"dashboard": 4242}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (Local(), "http://127.0.0.1:4242/status"),
        (Slurm(walltime_s=60.0, interface="ib0"), "http://127.0.0.1:4242/status"),
        (Ssh(hosts=("127.0.0.1", "b")), "http://127.0.0.1:4242/status"),
        (
            Ssh(hosts=("a", "b"), unencrypted=True),
            "http://127.0.0.1:4242/status, after: ssh -L 4242:127.0.0.1:4242 a",
        ),
        (Address("tls://10.0.0.1:8786"), "http://10.0.0.1:8787/status"),
    ],
)
def test_a_dashboard_is_on_the_scheduler_s_loopback_interface_if_trunkline_started_it(spec, told):
    assert find_dashboard(Client(runs=True), spec) == told
    assert find_dashboard(Client(runs=False), spec) is None
