"""What programs have written since a user looked last, for the prompt's command `output`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FIRST_LINES = 20
"""How many of the last lines the first look shows."""

MOST_BYTES = 1 << 16
"""The most bytes of a stream that one look shows: the last ones."""

STREAMS = ("out", "err")


@dataclass(slots=True)
class FollowedOutput:
    """The output of a run's programs in its folder `log`, as far as it was shown."""

    folder: Path
    _shown: dict[str, int] = field(default_factory=dict)

    def read_new(self, programs: Sequence[str]) -> str:
        """What these programs wrote since the last look: the last FIRST_LINES lines at first."""
        lines = [line for name in programs for line in self._list_new(name)]
        return "".join(f"{line}\n" for line in lines) or "nothing new\n"

    def _list_new(self, name: str) -> Iterator[str]:
        for stream in STREAMS:
            path = self.folder / f"{name}.{stream}"
            if not path.exists():
                continue
            is_first = path.name not in self._shown
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(self._shown.get(path.name, 0), size - MOST_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
            self._shown[path.name] = size
            shown = lines[-FIRST_LINES:] if is_first else lines
            yield from (f"{name} {stream}: {line}" for line in shown)
