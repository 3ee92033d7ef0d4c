"""Why agents do what they log: values that code compares, and words for people (pure).

`str` gives the words. No code reads the words: checks, tables and explanations read the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

BY_TYPE: Any = Field(discriminator="type")
"""For a field with one of several causes: its JSON says which by the key `type`."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an agent did something.

    `WORDS` is the format of its words: `{0.site}` is its field `site`.
    """

    WORDS: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.WORDS.format(self)

    @property
    def names(self) -> frozenset[str]:
        """The sites that the cause is about."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class OfSite(Cause):
    """Why an agent did something, if it is about one site."""

    site: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.site})


# -- why a task is repaired, given up or postponed ------------------------------------------------


@dataclass(frozen=True, slots=True)
class SiteLost(OfSite):
    """The controller lost the connection to this site."""

    WORDS = "{0.site} is lost"

    type: Literal["site_lost"] = "site_lost"


@dataclass(frozen=True, slots=True)
class SiteWithdrew(OfSite):
    """This site takes no part in the task: it refused it, or it has done its rounds."""

    WORDS = "{0.site} takes no part in the task"

    type: Literal["site_withdrew"] = "site_withdrew"


@dataclass(frozen=True, slots=True)
class LinkBroke(Cause):
    """The connection between two neighbours broke, as one of them reports."""

    WORDS = "{0.sites[0]} and {0.sites[1]} lost each other"

    sites: tuple[str, str]
    type: Literal["link_broke"] = "link_broke"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.sites)


Loss = SiteLost | SiteWithdrew | LinkBroke
"""What takes a member or a link away from a task."""


@dataclass(frozen=True, slots=True)
class NoCandidate(Cause):
    """After a loss, no other member can take over the blocks (CREW's equation (3))."""

    WORDS = "{0.after}, and no other member reaches the whole group"

    after: Annotated[Loss, BY_TYPE]
    type: Literal["no_candidate"] = "no_candidate"

    @property
    def names(self) -> frozenset[str]:
        return self.after.names


@dataclass(frozen=True, slots=True)
class BudgetSpent(Cause):
    """The task took longer than the time that every task has, in seconds."""

    WORDS = "exceeded its budget of {0.budget_s:g} s"

    budget_s: float
    type: Literal["budget_spent"] = "budget_spent"


@dataclass(frozen=True, slots=True)
class FinishedTooEarly(OfSite):
    """This site has a result without the newest blocks, of which it had not heard."""

    WORDS = "{0.site} finished before it heard of the newest blocks"

    type: Literal["finished_too_early"] = "finished_too_early"


@dataclass(frozen=True, slots=True)
class TakenOver(Cause):
    """The task's controller was lost, and a member or a link with it."""

    WORDS = "its controller was lost, and more with it"

    type: Literal["taken_over"] = "taken_over"


Halting = Loss | NoCandidate | BudgetSpent | FinishedTooEarly | TakenOver
"""Why a controller halts a task."""


@dataclass(frozen=True, slots=True)
class NoPlan(Cause):
    """The links that work do not connect these sites; the task was halted `after` something."""

    words: str
    sites: tuple[str, ...]
    after: Annotated[Halting, BY_TYPE] | None = None
    type: Literal["no_plan"] = "no_plan"

    def __str__(self) -> str:
        return self.words if self.after is None else f"{self.after}; {self.words}"

    @property
    def names(self) -> frozenset[str]:
        before: frozenset[str] = frozenset() if self.after is None else self.after.names
        return before.union(self.sites)


Abandoning = Halting | NoPlan
"""Why a controller abandons a task."""


def find_loss(cause: Halting) -> Loss | None:
    """The loss that is a cause, or behind it; None if there is none."""
    match cause:
        case NoCandidate(after):
            return after
        case SiteLost() | SiteWithdrew() | LinkBroke():
            return cause
    return None


# -- why a member gives a task up -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DecidedWithout(Cause):
    """The task ended while this site was lost."""

    WORDS = "decided without this site"

    type: Literal["decided_without"] = "decided_without"


@dataclass(frozen=True, slots=True)
class HaltedAlone(Cause):
    """The task is halted, and the controller that halted it is lost."""

    WORDS = "halted, and the controller is lost"

    type: Literal["halted_alone"] = "halted_alone"


@dataclass(frozen=True, slots=True)
class NoRepair(Cause):
    """Without a controller, the task did not end in time."""

    WORDS = "no repair came in time"

    type: Literal["no_repair"] = "no_repair"


@dataclass(frozen=True, slots=True)
class RefusedAlone(OfSite):
    """Without a controller, this neighbour takes no part in the task."""

    WORDS = "{0.site} takes no part, and the controller is lost"

    type: Literal["refused_alone"] = "refused_alone"


@dataclass(frozen=True, slots=True)
class LostAlone(OfSite):
    """Without a controller, the connection to this neighbour broke."""

    WORDS = "lost {0.site}, and the controller is lost"

    type: Literal["lost_alone"] = "lost_alone"


Dropping = Abandoning | DecidedWithout | HaltedAlone | NoRepair | RefusedAlone | LostAlone
"""Why a member gives a task up."""


# -- why a run ends -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enough(Cause):
    """So many tasks had been started."""

    tasks: int
    type: Literal["enough"] = "enough"

    def __str__(self) -> str:
        return f"{self.tasks} task{'s' * (self.tasks > 1)} had been started"


@dataclass(frozen=True, slots=True)
class TimeUp(Cause):
    """The run's time has passed, in seconds."""

    WORDS = "its time of {0.time_s:g} s has passed"

    time_s: float
    type: Literal["time_up"] = "time_up"


@dataclass(frozen=True, slots=True)
class RoundsDone(Cause):
    """Every site has done its rounds, or every one `within_reach`, or the policy excluded it."""

    within_reach: bool
    excluded: bool
    type: Literal["rounds_done"] = "rounds_done"

    def __str__(self) -> str:
        which = " that can be reached" if self.within_reach else ""
        return f"every site{which} has done its rounds{' or is excluded' * self.excluded}"


Quantity = Literal["accuracy", "loss"]
"""What a run may have to reach: an accuracy in percent, or a loss."""


@dataclass(frozen=True, slots=True)
class TargetReached(Cause):
    """The evaluated model had this accuracy (in percent) or more, or this loss or less.

    It did so in `in_a_row` evaluations in a row; `value` is that of the last one.
    """

    what: Quantity
    value: float
    target: float
    in_a_row: int
    type: Literal["target_reached"] = "target_reached"

    def __str__(self) -> str:
        accurate = self.what == "accuracy"
        value, target = (
            (f"{self.value:.2f} %", f"{self.target:g} %")
            if accurate
            else (f"{self.value:.3g}", f"{self.target:g}")
        )
        often = f", for {self.in_a_row} evaluations in a row" if self.in_a_row > 1 else ""
        return f"{self.what} {value} reached {target}{often}"


@dataclass(frozen=True, slots=True)
class NoProgress(Cause):
    """An evaluation had this accuracy, and none of the next `evaluations` in a row a better one."""

    best_percent: float
    evaluations: int
    type: Literal["no_progress"] = "no_progress"

    def __str__(self) -> str:
        more = f"{self.evaluations} more evaluation{'s' * (self.evaluations > 1)}"
        return f"accuracy {self.best_percent:.2f} % stayed the best for {more}"


@dataclass(frozen=True, slots=True)
class Asked(Cause):
    """A user asked for the end of the run."""

    WORDS = "a stop was requested"

    type: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True)
class NoSite(Cause):
    """No site could be reached for so many seconds."""

    WORDS = "no site could be reached for {0.for_s:g} s"

    for_s: float
    type: Literal["no_site"] = "no_site"


@dataclass(frozen=True, slots=True)
class ProgramsExited(Cause):
    """These programs exited, or all. The name of a site's only program is that of the site."""

    sites: tuple[str, ...]
    all: bool
    type: Literal["programs_exited"] = "programs_exited"

    def __str__(self) -> str:
        which = "at every site" if self.all else ", ".join(self.sites)
        at = "" if self.all or any("." in name for name in self.sites) else "at "
        return f"the program{'s' * (len(self.sites) > 1)} {at}{which} exited"


@dataclass(frozen=True, slots=True)
class ProgramFailed(Cause):
    """A program failed."""

    WORDS = "a program failed"

    type: Literal["program_failed"] = "program_failed"


Ending = (
    Enough
    | TimeUp
    | RoundsDone
    | TargetReached
    | NoProgress
    | Asked
    | NoSite
    | ProgramsExited
    | ProgramFailed
)
"""Why no more tasks begin, and why a run of programs ends."""


@dataclass(frozen=True, slots=True)
class Broken(Cause):
    """The run could not end as it should: these failures, or Ctrl-C or a signal."""

    failures: tuple[str, ...]
    interrupted: bool
    type: Literal["broken"] = "broken"

    def __str__(self) -> str:
        return "; ".join([*self.failures, *["interrupted"] * self.interrupted])
