"""The embedded kernel: User-Mode Linux with the host's file system as root.

`build` builds it once from the distribution's kernel source. `boot` runs a program inside it.
`guest` is the first process inside.
"""

__all__ = ["KernelError"]


class KernelError(RuntimeError):
    """The embedded kernel cannot be built or booted, or it ended before its program did.

    The message says what happened and, if possible, gives a remedy.
    """
