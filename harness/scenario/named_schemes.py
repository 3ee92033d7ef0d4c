"""The schemes that a scenario can name: a policy, a plan and their options (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "crew": {"policy": "preduce", "plan": "crew"},
    "opr": {"policy": "preduce", "plan": "opr"},
    "p-reduce": {"policy": "preduce", "plan": "ring"},
    "allreduce": {"policy": "bsp", "plan": "ring"},
    "eager-reduce": {"policy": "eager_reduce", "plan": "ring"},
    "ad-psgd": {"policy": "ad_psgd", "plan": "ring"},
    "ps-bsp": {"policy": "ps", "plan": "ps", "mode": "bsp"},
    "ps-asp": {"policy": "ps", "plan": "ps", "mode": "asp"},
    "ps-ssp": {"policy": "ps", "plan": "ps", "mode": "ssp"},
    "ps-hete": {"policy": "ps", "plan": "ps", "mode": "hete"},
    "ps-bk": {"policy": "ps", "plan": "ps", "mode": "bk"},
    "r2sp": {"policy": "r2sp", "plan": "ps"},
    "r2sp-literal": {
        "policy": "r2sp",
        "plan": "ps",
        "wait": "pull",
        "iteration_time": "slowest",
    },
    "fl-r2sp": {"policy": "fl_r2sp", "plan": "ps"},
    "fl-bsp": {"policy": "fl_r2sp", "plan": "ps", "groups": 1},
    "safa": {"policy": "safa", "plan": "ps"},
    "mxnet": {"policy": "bsp", "plan": "star"},
    "mlnet": {"policy": "bsp", "plan": "bkt"},
    "tsengine": {
        "policy": "bsp",
        "plan": "mst",
        "rates": "measured",
        "awareness": {"estimator": "round_trip"},
    },
    "netstorm-lite": {"policy": "bsp", "plan": "fapt"},
    "netstorm-std": {"policy": "bsp", "plan": "fapt", "rates": "measured"},
    "netstorm-pro": {"policy": "bsp", "plan": "fapt", "rates": "measured", "auxiliary": {}},
}
"""The policy, plan and options of each named scheme, as in the papers.

A file has `scheme: crew` or, with other options, `scheme: {name: crew, p: 4}`.
"""

DEFAULT_SCHEME: Mapping[str, Any] = {"policy": "preduce", "plan": "crew"}

_WORDS: Mapping[str, str | Mapping[str, str]] = {
    "sync synchronous bulksynchronous ddp dataparallel distributeddataparallel horovod nccl gloo "
    "mpi ringallreduce collective": "allreduce",
    "parameterserver paramserver pserver server servers pssync syncps": "ps-bsp",
    "async asynchronous asp asgd hogwild psasync asyncps asyncsgd downpour": "ps-asp",
    "ssp stale stalesynchronous stalesynchronousparallel boundedstaleness": "ps-ssp",
    "hete heterogeneous": "ps-hete",
    "bk backup backupworkers": "ps-bk",
    "fedavg fedsgd fl federated federatedaveraging federatedlearning flower": "fl-bsp",
    "semiasync semiasynchronous fedasync": "safa",
    "gossip dpsgd decentralized decentralised p2p peertopeer": "ad-psgd",
    "partialreduce": "p-reduce",
    "netstorm": "netstorm-pro",
    "tree trees spanningtree aggregationtree": {"policy": "bsp", "plan": "fapt"},
    "balancedtree binarytree karytree hierarchical hierarchy": {"policy": "bsp", "plan": "bkt"},
    "broadcast alltoall allgather mesh fullmesh": {"policy": "bsp", "plan": "a2a"},
    "hub central centralized centralised": {"policy": "bsp", "plan": "star"},
}
"""What others call it -> the name of a scheme, or a policy and a plan."""

OTHER_WORDS = {word: scheme for words, scheme in _WORDS.items() for word in words.split()}


def suggest(value: str, known: Iterable[str], policies: Iterable[str], plans: Iterable[str]) -> str:
    """What the user may have meant, with right keys and values; empty if nothing comes to mind.

    The value is that of `scheme:`, `policy:` or `plan:`, of which it is none of the `known` ones.
    """
    word = _squash(value)
    own, of_schemes, of_policies, of_plans = (
        {_squash(name): name for name in names} for names in (known, SCHEMES, policies, plans)
    )
    if word in own:
        return f"did you mean {own[word]}?"
    if word in of_schemes:
        return f"this is the name of a scheme: {_describe(of_schemes[word])}"
    if word in of_policies:
        policy = of_policies[word]
        usual = [scheme["plan"] for scheme in SCHEMES.values() if scheme["policy"] == policy]
        return f"this is the name of a policy: policy: {policy}, plan: {[*usual, 'ring'][0]}"
    if word in of_plans:
        return f"this is the name of a plan: policy: bsp, plan: {of_plans[word]}"
    meant = OTHER_WORDS.get(word)
    if isinstance(meant, str):
        return f"did you mean {_describe(meant)}?"
    return f"did you mean {_write(meant)}?" if meant else ""


def _describe(name: str) -> str:
    return f"scheme: {name}, or {_write(SCHEMES[name])}"


def _write(scheme: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in scheme.items())


def _squash(word: str) -> str:
    return re.sub(r"[\W_]", "", word).lower()
