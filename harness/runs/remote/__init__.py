"""Runs on other machines over SSH: `trunkline run FILE --on HOST` starts `trunkline remote` there.

The `client` connects (`ssh`) and sends requests; the `server` answers, one JSON object per line
(`protocol`). Each run there has its own process (`carrier`) and folder (`jobs`), so it survives the
connection that started it.
"""

PROTOCOL = 1
"""The version of the protocol. Increase it with every incompatible change."""


class RemoteError(Exception):
    """A failure on another machine; the text says where, what, and how to continue."""


class BrokenError(RemoteError):
    """The connection broke, or the other side sent something wrong."""
