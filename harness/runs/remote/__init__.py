"""Runs on other machines, over SSH: `trunkline run FILE --on HOST` here, `trunkline remote` there.

The side here (`driving`) connects (`ssh`) and asks; the side there (`serving`) answers, one JSON
object per line over the connection (`wire`). A run there is a process of its own (`carrier`) with a
folder of its own (`jobs`), so it does not need the connection that started it.
"""

PROTOCOL = 1
"""Raised when the two sides would no longer understand each other."""


class RemoteError(Exception):
    """Something that another machine does not do: which one, what, and how to go on."""


class BrokenError(RemoteError):
    """The connection ended where it should not have."""
