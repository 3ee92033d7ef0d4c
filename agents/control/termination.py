"""When a run ends, and who may still come back before it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set

from trunkline.agents.wire.agent_settings import ControllerSettings

ASKED = "somebody asked for it"
"""Why a run ends that is told to."""


class Ending:
    """Of a controller's run: `wait` returns once nothing is under way and nobody works.

    `present` is the set of sites that can be reached, which its owner keeps up to date; `busy` says
    whether anything is under way. `announce` is called once, with the reason, when no more tasks
    are to begin.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        present: Set[str],
        busy: Callable[[], bool],
        announce: Callable[[str], None],
    ) -> None:
        self._sites = frozenset(settings.sites)
        self._task_s = settings.task_s
        self._patience_s = settings.failover.patience_s
        self._present = present
        self._busy = busy
        self._announce = announce
        self._working = set(settings.sites)
        self._given_up: set[str] = set()
        self._last_call: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] | None = None
        self.stopping = False

    def begin(self) -> None:
        """The run goes on from now."""
        self._over = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Return at the end of the run, which has begun; raises what `fail` was given."""
        assert self._over is not None
        await self._over

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and is not over."""
        return self._over is not None and not self._over.done()

    def works(self, site: str) -> bool:
        """Whether this site has neither done its rounds nor been given up."""
        return site in self._working

    def stop(self, reason: str) -> None:
        """No more tasks."""
        if self.stopping:
            return
        self.stopping = True
        self._announce(reason)
        if self._last_call is not None:
            self._call_last(self._patience_s, self._give_up_absent)

    def fail(self, error: BaseException) -> None:
        """The run cannot go on."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def left(self, site: str) -> None:
        """This site has done its rounds."""
        self._working.discard(site)

    def check(self) -> None:
        """End when nothing runs and nobody works; whoever is lost may come back for a while.

        So may those who have done their rounds: nobody else tells them that the run is over. Where
        all are lost before anybody has done its rounds it is as likely the controller that is cut
        off: then the while is as long as a task may take.
        """
        if self._over is None or self._over.done():
            return
        if self._busy() or self._working & self._present:
            self.close()
        elif not self._working and not self._missing():
            self.stop("every site has done its rounds")
            self._over.set_result(None)
        elif self._last_call is not None:
            return
        elif self.stopping or len(self._working) < len(self._sites):
            reached = " that can be reached" if self._working else ""
            self.stop(f"every site{reached} has done its rounds")
            self._call_last(self._patience_s, self._give_up_absent)
        else:
            reason = f"no site could be reached for {self._task_s:g} s"
            self._call_last(self._task_s, lambda: self.stop(reason))

    def close(self) -> None:
        """Wait for nobody any more."""
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
        """The sites that cannot be reached and may still come back."""
        return self._sites - self._present - self._given_up
