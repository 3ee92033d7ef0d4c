"""The end of a run in which virtual time stands still: a process spins."""

from __future__ import annotations

import time

from trunkline.harness.kernel import KernelError
from trunkline.harness.kernel.process import Guest

MIN_STALL_S = 60.0
MIN_STALL_BOOTS = 120
INTERRUPTED_SHARE = 0.05
WARNING_SHARE = 1 / 6

REMEDY = (
    "for programs workload.charge, with which computing takes time, or workload.poll, with which "
    "polls do; else a sleep where it polls, or the key clock: real"
)


NO_SITE = "(none)"
"""The host name of a process that is at no site."""

OUTSIDE_REMEDY = (
    "there, Trunkline imports what `preload:` names and seeks the lines of `expect:`; a regular "
    "expression with a repetition in a repetition, as in (a+)+, takes exponential time"
)


class StallWatch:
    """Ends a run in which nothing waits while one process uses processor time.

    Then the virtual clock stands still. Or it creeps, because system calls that fail take some time
    each: so it is not the clock that tells, but the time that passed while all processes waited.

    The default timeout is MIN_STALL_S or, if that is longer, MIN_STALL_BOOTS times the processor
    time of booting, because an emulated processor takes many times as long for everything.

    While a process computes, no other one runs. So a program that has been interrupted may not get
    to know it, and the timeout is that much shorter: INTERRUPTED_SHARE of it.

    From WARNING_SHARE of the timeout on, `warning` says what is happening.
    """

    def __init__(self, guest: Guest, timeout_s: float | None = None) -> None:
        self.warning: str | None = None
        self._guest = guest
        self._timeout_s = MIN_STALL_S if timeout_s is None else timeout_s
        self._depends = timeout_s is None
        self._period_s = min(5.0, self._timeout_s / 10)
        self._next_s = 0.0
        self._seen_ns = self._seen_waited_ns = -1
        self._seen_cpu_s: dict[int, float] = {}

    def check(self) -> None:
        """Check the guest now; call this often.

        Raises:
            KernelError: a process has used `timeout_s` of processor time since all last waited.
        """
        now_s = time.monotonic()
        booted = self._depends and self._guest.virtual_time_ns >= 0
        interrupted = self._guest.interrupted
        if now_s < self._next_s and not booted and not interrupted:
            return
        self._next_s = now_s + self._period_s
        cpu_s = self._guest.cpu_s()
        if booted:
            self._depends = False
            self._timeout_s = max(self._timeout_s, MIN_STALL_BOOTS * sum(cpu_s.values()))
        timeout_s = self._timeout_s * (INTERRUPTED_SHARE if interrupted else 1.0)
        if self._guest.waited_ns != self._seen_waited_ns:
            self._seen_ns, self._seen_waited_ns = self._guest.virtual_time_ns, self._guest.waited_ns
            self._seen_cpu_s = cpu_s
        used_s = max((s - self._seen_cpu_s.get(pid, 0.0) for pid, s in cpu_s.items()), default=0.0)
        self.warning = None
        why = ", as the run was interrupted" if interrupted else ""
        if used_s > timeout_s:
            name, remedy = self._name_process()
            raise KernelError(
                f"{self._describe_clock()} while one process used {timeout_s:.0f} s of processor "
                f"time{why}: it spins without waiting, or computes for too long (docs/time.md)"
                f"{name}; remedy: {remedy}"
            )
        if used_s > WARNING_SHARE * timeout_s:
            self.warning = (
                f"no process waits while one computes: {used_s:.0f} s of processor time; after "
                f"{timeout_s:.0f} s it counts as spinning{why}"
            )

    def _name_process(self) -> tuple[str, str]:
        """The process that the kernel saw computing, as words to append, and the remedy."""
        site, process, name = [*self._guest.spinning.split(maxsplit=2), "", "", ""][:3]
        place, remedy = ("no site", OUTSIDE_REMEDY) if site == NO_SITE else (site, REMEDY)
        return (f"; it was process {process}, {name}, at {place}" if name else ""), remedy

    def _describe_clock(self) -> str:
        then_s, now_s = self._seen_ns / 1e9, self._guest.virtual_time_ns / 1e9
        if now_s == then_s:
            return f"the virtual clock stood still at {then_s:.3f} s"
        return f"no process waited from {then_s:.3f} s to {now_s:.3f} s of the virtual clock"
