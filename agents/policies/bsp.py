"""Bulk-synchronous parallel: every round, all sites synchronize together."""

from __future__ import annotations

from agents.policies.preduce import PartialReduce


def create(sites: tuple[str, ...]) -> PartialReduce:
    """A partial reduce whose group is everybody."""
    return PartialReduce(sites, len(sites))
