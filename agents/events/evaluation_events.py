"""The events of evaluations: models, measured at equal times (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trunkline.agents.events.event import By, Count, Event

Of = Literal["average", "server", "member"]
"""Which model is evaluated: the mean of the workers' models, the servers' one, or a worker's."""


@dataclass(frozen=True, slots=True)
class SiteModel:
    """The model that a site had: its digest and its fingerprint."""

    site: str
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ModelEvaluated(Event, by=By.RUNNER):
    """Evaluation `number`, from 1 on: a model of these sites, measured on test samples.

    `average` is the mean of their models. `server` is their sum, because a server's model has zeros
    for the chunks of other servers. `digest` and `fingerprint` are of the model that was measured.
    """

    number: Count
    of: Of
    models: tuple[SiteModel, ...]
    digest: str
    fingerprint: tuple[float, ...]
    accuracy_percent: float
    loss: float
    samples: Count
