"""What is wrong in a line or a file, collected so that all of it is refused at once (pure)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trunkline.harness.faults.fault_types import FaultError

MOST_ERRORS = 5
"""The most problems of one line or file that an error lists."""


@dataclass(slots=True)
class FaultProblems:
    """Collects errors; `refuse` raises one error that lists them, each text once."""

    errors: list[FaultError] = field(default_factory=list)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Collect the error of one part."""
        try:
            yield
        except FaultError as error:
            self.errors.append(error)

    def note(self, texts: Iterable[str]) -> None:
        """Collect these texts as errors."""
        self.errors += map(FaultError, texts)

    def refuse(self) -> None:
        """Raises FaultError if there are errors; it has the candidates of the first one."""
        if not self.errors:
            return
        texts = [*dict.fromkeys(map(str, self.errors))]
        more = f"; and {len(texts) - MOST_ERRORS} more" if len(texts) > MOST_ERRORS else ""
        raise FaultError("; ".join(texts[:MOST_ERRORS]) + more, self.errors[0].candidates)
