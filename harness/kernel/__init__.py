"""The embedded kernel: User-Mode Linux with the host's file system as root.

`build` makes it once from the distribution's kernel source, `boot` runs a program inside it, and
`guest` is the first process of the guest.
"""

__all__ = ["KernelError"]


class KernelError(RuntimeError):
    """The embedded kernel cannot be built or booted, or it ended before its program did.

    The message says what happened and what to do about it.
    """
