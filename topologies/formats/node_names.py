"""From what a file calls its nodes to the names of sites (pure)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from trunkline.topologies.links import TopologyError
from trunkline.topologies.model import check_site_name

_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ŧ": "t",
     "ŋ": "n", "\u0131": "i", "ĸ": "k", "ə": "e", "ƶ": "z", "ɛ": "e", "ɔ": "o"}
)  # fmt: skip
"""Latin letters that are no letter with an accent, in lower case -> how they are written without
them."""

_MAX_NAME = 32


def name_site(label: str) -> str:
    """The name of the site with a label: `São Paulo (GRU)` becomes `sao-paulo-gru`.

    A name that a site may have stays as it is. Words that are not names get `node-` in front:
    `7` becomes `node-7`.
    """
    if _is_name(label):
        return label
    name = _join_words(label)[:_MAX_NAME].rstrip("-")
    return name if _is_name(name) else f"node-{name}"[:_MAX_NAME].rstrip("-")


def spell(label: str) -> str:
    """A label in lower case and ASCII; letters that Latin script does not have are left out."""
    latin = label.casefold().translate(_LETTERS)
    return unicodedata.normalize("NFKD", latin).encode("ascii", "ignore").decode()


def _join_words(label: str) -> str:
    """The words of a label, as far as they are Latin, with `-` between them."""
    return re.sub(r"[^a-z0-9]+", "-", spell(label)).strip("-")


def keeps_letters(name: str, label: str) -> bool:
    """Whether a name has all letters of its label, apart from case, accents and `-` for others."""
    is_latin = all(spell(char) for char in label if char.isalnum())
    return not label or (is_latin and name in (label, _join_words(label)))


def name_sites(labels: Sequence[str]) -> list[str]:
    """The names of sites with these labels. Equal names are numbered: `oslo`, `oslo-2`."""
    wanted = [name_site(label) for label in labels]
    taken, seen = set(wanted), set[str]()
    counts: Counter[str] = Counter()
    names: list[str] = []
    for name in wanted:
        chosen = name
        while chosen in seen or (chosen != name and chosen in taken):
            counts[name] += 1
            chosen = _number(name, counts[name] + 1)
        seen.add(chosen)
        names.append(chosen)
    return names


def _number(name: str, number: int) -> str:
    kept = _MAX_NAME - len(f"-{number}")
    numbered = f"{name[:kept]}-{number}"  # `1e` would become the number 1e-2
    return numbered if _is_name(numbered) else f"{f'node-{name}'[:kept]}-{number}"


def _is_name(name: str) -> bool:
    try:
        check_site_name(name)
    except TopologyError:
        return False
    return True
