"""The schemes that a scenario can name: a policy, a plan and their options (pure)."""

from __future__ import annotations

from collections.abc import Mapping
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
