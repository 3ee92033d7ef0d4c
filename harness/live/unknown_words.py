"""What is said about a line at the prompt that begins with an unknown word (pure)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from trunkline.harness.faults.fault_types import VERBS
from trunkline.harness.network import mininet_cli

OWN_VERBS = ("step", "status", "links", "output", "watch", "save", "link", "source", "exit", "help")
"""The shell's own verbs, for guesses."""


AFTERWARDS = ("explain", "report", "export")
"""Commands of `trunkline` for a run that is over."""


def explain_unknown(word: str, sites: Sequence[str]) -> str:
    """The refusal of a line that begins with neither a verb nor a site, with a guess.

    Mininet's hosts are often called h1, h2 and so on; here the rank decides.
    """
    if word in AFTERWARDS:
        return f"{word}: not at this prompt: after the run, in a shell: trunkline {word} RUN"
    rank = re.fullmatch(r"h(\d+)", word)
    if rank and 0 < int(rank[1]) <= len(sites):
        near = [sites[int(rank[1]) - 1]]
    else:
        known = [*VERBS, *OWN_VERBS, *mininet_cli.verbs(), *sites]
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{word}: unknown: {hint}expected a verb (see: help) or a site: {', '.join(sites)}"
