"""Types of options of plans and policies, with the values that they allow (pure).

A scenario is checked against the types of all options before a plan or a policy gets them, so every
wrong value is reported at once. What depends on the number of sites is checked by the plan or the
policy itself.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=1)]
"""A number of things, of which there is at least one."""

Share = Annotated[float, Field(gt=0, le=1)]
"""A part of all, and not none of it."""

Momentum = Annotated[float, Field(ge=0, lt=1)]
"""The part of the last step that is in the next one."""

Patience = Annotated[float, Field(ge=1)]
"""How many times as long as expected something may take."""
