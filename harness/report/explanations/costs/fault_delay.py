"""The cost of faults for a site, and by how much they made a run longer (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trunkline.agents.events.causes import Enough, RoundsDone
from trunkline.agents.events.run_events import Stopping
from trunkline.harness.config.units import count_of
from trunkline.harness.report.explanations.costs.member_costs import NOTHING, SiteCost, cost_member
from trunkline.harness.report.explanations.costs.shorter_run import (
    Longer,
    Shorter,
    predict_shorter,
)
from trunkline.harness.report.explanations.costs.site_times import list_at_work
from trunkline.harness.report.explanations.costs.task_losses import TOLD_S
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.run_data import RunData

MEASURE = "trunkline explain RUN --measure"
"""What measures what faults cost a run."""

LEAST_EARLIER_S = 0.05
"""A run that ends earlier by less does not end earlier."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The cost of faults for a run.

    Attributes:
        site: what they cost a site that did rounds on average, in tasks and before them.
        is_open: whether the run could end earlier without them: it ended by its tasks or rounds.
        shorter: the prediction of that run; None if there is none.
        abandoned: how many tasks of the run were abandoned.
    """

    site: SiteCost = NOTHING
    is_open: bool = False
    shorter: Shorter | None = None
    abandoned: int = 0

    @classmethod
    def of(cls, found: Sequence[Explanation], data: RunData) -> Delay:
        """The cost of faults for a run, of which these tasks lost most time.

        A task takes the time of its members alone, and none of a server, which does no rounds.
        """
        at_work = {*list_at_work(data.tables["workers"])}
        members = (
            cost_member(each, site)
            for each in found
            for site in each.task.started.group
            if site in at_work
        )
        of_site = sum(members, NOTHING) / max(len(at_work), 1)
        if of_site.seconds < TOLD_S:
            return cls()
        ends = data.history.all(Stopping)
        is_open = bool(ends) and isinstance(ends[-1].cause, Enough | RoundsDone)
        shorter = predict_shorter(data, found) if is_open else None
        abandoned = sum(task.outcome == "abandoned" for task in data.history.tasks)
        return cls(of_site, is_open, shorter, abandoned)

    @property
    def longer(self) -> tuple[Longer, ...]:
        """By how much several faults made the run longer; empty of one, or if that is not known."""
        parts = () if self.shorter is None else self.shorter.parts
        return parts if sum(len(part.faults) for part in parts) > 1 else ()

    @property
    def is_ranked(self) -> bool:
        """Whether it is known which of them made the run longest, in spite of the error."""
        if self.shorter is None or not self.longer:
            return False
        first, *others = sorted((part.seconds for part in self.longer), reverse=True)
        error_s = max(self.shorter.error_s, *(part.error_s for part in self.longer))
        return first - max(others, default=0.0) >= error_s

    def describe_end(self) -> Iterator[str]:
        """By how much faults made the run longer; nothing if that is not known."""
        if self.shorter is None:
            return
        earlier_s = self.shorter.earlier_s
        error = f"± {self.shorter.error_s:.1f} s"
        when = f"about {earlier_s:.1f} {error} earlier"
        if earlier_s < LEAST_EARLIER_S:
            when = f"no earlier ({error})"
        more = count_of(self.abandoned, "more task")
        whole = f", and {more} would have been completed" if self.abandoned else ""
        which = f"predicted by the fluid model; `{MEASURE}` measures it"
        yield f"Without faults, the last task would have ended {when}{whole} ({which})."

    def describe_unknown(self) -> Iterator[str]:
        """That the run without faults is not known, if it is not."""
        if self.site.seconds and self.is_open and self.shorter is None:
            yield (
                "The fluid model cannot say how much earlier the last task would have ended "
                f"without faults: `{MEASURE}` carries the run out without them."
            )
