"""When a run ends, and how long it waits for lost sites before that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set

from trunkline.agents.events.causes import Ending, NoSite, RoundsDone
from trunkline.agents.wire.agent_settings import ControllerSettings


class Termination:
    """Decides when a controller's run ends: when no task is running and no site is working.

    `present` is the set of sites within reach; its owner keeps it up to date. `busy` returns
    whether tasks are running. `announce` is called once, with the cause, when no more tasks may
    begin. `cause` is then what other controllers have to know of it: None if sites within this
    one's reach were the cause.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        present: Set[str],
        busy: Callable[[], bool],
        announce: Callable[[Ending], None],
    ) -> None:
        self._sites = frozenset(settings.sites)
        self._task_s = settings.task_s
        self._patience_s = settings.failover.patience_s
        self._present = present
        self._busy = busy
        self._announce = announce
        self._workers = frozenset(settings.workers)
        self._working = set(self._workers)
        self._given_up: set[str] = set()
        self._excluded = False
        self._last_call: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] | None = None
        self.stopping = False
        self.cause: Ending | None = None

    def begin(self) -> None:
        """Begin the run; needs a running event loop."""
        self._over = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Return at the end of the run; raises the error given to `fail`. Call `begin` first."""
        assert self._over is not None
        await self._over

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun."""
        return self._over is not None

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and has not ended."""
        return self._over is not None and not self._over.done()

    def is_working(self, site: str) -> bool:
        """Whether this site still has rounds to do and has not been given up."""
        return site in self._working

    def stop(self, cause: Ending) -> None:
        """Let no more tasks begin, for a cause that holds for the whole run."""
        self._stop(cause, cause)

    def _stop(self, cause: Ending, passed_on: Ending | None = None) -> None:
        if self.stopping:
            return
        self.stopping, self.cause = True, passed_on
        self._announce(cause)
        if self._last_call is not None:
            self._call_last(self._patience_s, self._give_up_absent)

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def mark_done(self, site: str) -> None:
        """Note that this site has done all of its rounds."""
        self._working.discard(site)

    def exclude(self) -> None:
        """Note that the policy has excluded a site, which then does no more rounds."""
        self._excluded = True

    def check(self) -> None:
        """End the run if no task is running, no site is working and none is still missing.

        Lost sites have `patience_s` to come back, even after their last round: otherwise they would
        not learn that the run is over. If all sites are lost before any has done its rounds, the
        controller itself may be cut off. It then waits as long as a task may take.
        """
        if self._over is None or self._over.done():
            return
        if self._busy() or self._working & self._present:
            self.close()
        elif not self._working and not self._missing():
            self._stop(RoundsDone(within_reach=False, excluded=self._excluded))
            self._over.set_result(None)
        elif self._last_call is not None:
            return
        elif self.stopping or len(self._working) < len(self._workers):
            self._stop(RoundsDone(within_reach=bool(self._working), excluded=self._excluded))
            self._call_last(self._patience_s, self._give_up_absent)
        else:
            self._call_last(self._task_s, lambda: self._stop(NoSite(self._task_s)))

    def close(self) -> None:
        """Stop waiting for lost sites."""
        if self._last_call is not None:
            self._last_call.cancel()
            self._last_call = None

    def _call_last(self, wait_s: float, call: Callable[[], None]) -> None:
        self.close()
        self._last_call = asyncio.get_running_loop().call_later(wait_s, call)

    def _give_up_absent(self) -> None:
        self._last_call = None
        self._given_up |= self._missing()
        self._working -= self._given_up
        self.check()

    def _missing(self) -> Set[str]:
        """The sites that are lost and may still come back."""
        return self._sites - self._present - self._given_up
