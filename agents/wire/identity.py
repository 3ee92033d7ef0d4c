"""Who may talk to an agent: those of its run, who share a secret (pure).

Whoever calls proves that it knows the secret, which itself crosses no link. A proof holds for one
caller, one callee and the time of one call, so one that was seen on a link opens nothing again:
a callee takes no call that is older than itself, nor than the last one of the same caller. All
agents of a run read the same clock, that of their kernel.

Nothing is encrypted, and what follows a hello is not proved: who can change or add packets of a
connection is inside.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from trunkline.agents.wire.messages import Hello, ProtocolError

SINGLY_TOLD = 16
"""So many refusals are told one by one; then only every power of two, lest they fill the log."""

MAX_REASON = 200
"""Characters of a refusal's reason, which may quote what a stranger sent."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The run's name, and the secret that makes its agents known to each other."""

    run: str
    secret: bytes = field(repr=False)

    def hello(self, caller: str, callee: str, now_ns: int) -> Hello:
        """What a caller says first, once, and now."""
        return Hello(self.run, caller, now_ns, self.proof(caller, callee, now_ns))

    def proof(self, caller: str, callee: str, called_ns: int) -> str:
        """What only this run's agents can say of a call."""
        call = json.dumps([self.run, caller, callee, called_ns]).encode()
        return hmac.new(self.secret, call, hashlib.sha256).hexdigest()


@dataclass(slots=True)
class Gate:
    """Decides who may connect to the agent `me`, which has listened since `opened_ns`.

    Who connects has `hello_s` to say hello. `refused` gets a reason and how many there were.
    """

    identity: Identity
    me: str
    opened_ns: int
    hello_s: float
    refused: Callable[[str, int], None]
    _refusals: int = 0
    _latest_ns: dict[str, int] = field(default_factory=dict)

    def admit(self, hello: Hello, expected: Collection[str]) -> None:
        """Raises ProtocolError unless this is a new call of somebody expected, of this run."""
        if hello.run != self.identity.run:
            raise ProtocolError(f"a call of {hello.site!r} of run {hello.run!r}")
        proof = self.identity.proof(hello.site, self.me, hello.called_ns)
        if not hmac.compare_digest(proof.encode(), hello.proof.encode()):
            raise ProtocolError(f"a call in the name of {hello.site!r} without proof")
        if hello.site not in expected:
            raise ProtocolError(f"a call of {hello.site}, which does not call {self.me}")
        if hello.called_ns <= self._latest_ns.get(hello.site, self.opened_ns):
            raise ProtocolError(f"an old call of {hello.site} again")
        self._latest_ns[hello.site] = hello.called_ns

    def refuse(self, address: str, reason: object) -> None:
        """Tell that somebody was turned away."""
        self._refusals += 1
        if self._refusals <= SINGLY_TOLD or self._refusals.bit_count() == 1:
            text = " ".join(f"{address}: {reason}".split())
            self.refused(text[:MAX_REASON], self._refusals)
