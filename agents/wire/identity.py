"""Which agents may connect to an agent: those of the same run, which share a secret (pure).

A caller proves that it knows the secret without sending it. The proof is valid for one caller, one
callee and one time, so a recorded proof cannot be used again: a callee refuses calls that are older
than itself or not newer than the same caller's last call. All agents of a run read the same clock,
that of their kernel.

Nothing is encrypted, and only the hello is proved. An attacker who can change a connection's
packets, or add some, is not kept out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from trunkline.agents.wire.hello import Hello
from trunkline.agents.wire.messages import ProtocolError

SINGLY_TOLD = 16
"""How many refusals are logged one by one. After that, only every power of two is logged, so that
refusals cannot fill the log."""

MAX_REASON = 200
"""The longest reason of a refusal, in characters; a reason may quote an unknown caller."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The run's id, and the secret that its agents share."""

    run: str
    secret: bytes = field(repr=False)

    def hello(self, caller: str, callee: str, now_ns: int) -> Hello:
        """The hello for one call at this time."""
        return Hello(self.run, caller, now_ns, self.proof(caller, callee, now_ns))

    def proof(self, caller: str, callee: str, called_ns: int) -> str:
        """The proof for one call, which only agents of this run can compute."""
        call = json.dumps([self.run, caller, callee, called_ns]).encode()
        return hmac.new(self.secret, call, hashlib.sha256).hexdigest()


@dataclass(slots=True)
class Gate:
    """Decides which callers may connect to the agent `me`, which listens since `opened_ns`.

    A caller has `hello_s` to send its hello. `on_refused` gets the reason and the number of
    refusals so far.
    """

    identity: Identity
    me: str
    opened_ns: int
    hello_s: float
    on_refused: Callable[[str, int], None]
    _refusals: int = 0
    _latest_ns: dict[str, int] = field(default_factory=dict)

    def admit(self, hello: Hello, expected: Collection[str]) -> None:
        """Raises ProtocolError unless this is a new call from an expected agent of this run."""
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
        """Count a refused call and report it."""
        self._refusals += 1
        if self._refusals <= SINGLY_TOLD or self._refusals.bit_count() == 1:
            text = " ".join(f"{address}: {reason}".split())
            self.on_refused(text[:MAX_REASON], self._refusals)
