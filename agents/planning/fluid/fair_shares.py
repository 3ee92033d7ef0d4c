"""How transfers share links: max-min fair rates (Bertsekas and Gallager, Data Networks, 6.5; pure).

No transfer can get more without taking from one that has as much or less. That is what TCP's
connections approach on links that they share, if their round trips are alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

Transfer = TypeVar("Transfer", bound=Hashable)
Link = TypeVar("Link", bound=Hashable)


def compute_fair_rates(
    paths: Mapping[Transfer, Collection[Link]], rates: Mapping[Link, float]
) -> dict[Transfer, float]:
    """The rate of each transfer, in the unit of `rates`.

    All transfers grow alike until a link is full. Those on it keep their rate, the others continue.

    Args:
        paths: the links of each transfer, at least one.
        rates: the rate of each link, above 0.
    """
    users: dict[Link, dict[Transfer, None]] = {}
    for transfer, path in paths.items():
        for link in path:
            users.setdefault(link, {})[transfer] = None
    free = {link: rates[link] for link in users}
    found: dict[Transfer, float] = {}
    # The share of a link only grows while others fill up, so old entries are never too high.
    shares = [
        (free[link] / len(using), rank, link) for rank, (link, using) in enumerate(users.items())
    ]
    heapq.heapify(shares)
    while users:
        before, rank, tightest = heapq.heappop(shares)
        if tightest not in users:
            continue
        share = free[tightest] / len(users[tightest])
        if share > before:
            heapq.heappush(shares, (share, rank, tightest))
            continue
        for transfer in tuple(users[tightest]):
            found[transfer] = share
            for link in paths[transfer]:
                free[link] = max(0.0, free[link] - share)
                del users[link][transfer]
                if not users[link]:
                    del users[link]
    return found
