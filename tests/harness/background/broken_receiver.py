"""A run whose receiver of background traffic is broken, inside the embedded kernel."""

from __future__ import annotations

from inside import run_all

from trunkline.harness.background.sink import Sink


def run_with_a_broken_receiver(home: str) -> dict:
    def fail(self: Sink) -> None:
        raise RuntimeError("planted")

    Sink._receive_packets = fail  # type: ignore[method-assign]
    return run_all(home, ["broken"])["codes"]


def run_also_broken(home: str) -> dict:
    """Inside: a good run, and then one with a broken receiver."""
    done = run_all(home, ["first"])
    return {**done, "codes": done["codes"] | run_with_a_broken_receiver(home)}
