"""For your own plans: the classes of a plan and of a request, checks, routes and the fluid model.

A plan file has `build(request: PlanRequest, *, <options>) -> Plan`. It raises PlanError if it
cannot serve a request.
"""

from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.plan import (
    Block,
    Chunks,
    Directed,
    Edge,
    Plan,
    PlanError,
    PlanRequest,
    check,
    split,
    star,
)
from trunkline.agents.planning.routes import routes

__all__ = [
    "Block",
    "Chunks",
    "Directed",
    "Edge",
    "Plan",
    "PlanError",
    "PlanRequest",
    "check",
    "estimate",
    "routes",
    "split",
    "star",
]
