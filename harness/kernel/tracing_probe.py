"""Tries what the embedded kernel does when it boots: trace a process as a debugger does.

On hosts without Syscall User Dispatch (before Linux 5.11) it does this with every process.

`probes` starts this file as a program of its own. It prints one JSON object: the bytes of extended
registers that the host gives and takes (`registers`), the bits of the features that a process may
use without asking (`permitted`, null before Linux 5.16), and the step that failed with its error
number (`step`, `errno`; null if none did). The number is 0 if the call succeeded without effect,
and minus a signal if that ended the child.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal

TRACE_ME, CONTINUE_TO_CALL, GET_REGISTERS, SET_REGISTERS = 0, 31, 0x4204, 0x4205
GET_OLD_REGISTERS, SET_OLD_REGISTERS, OLD_BYTES = 14, 15, 512
EXTENDED = 0x202
"""NT_X86_XSTATE: floating point, vector and later registers, in the layout of XSAVE."""

ARCH_PRCTL, GET_PERMITTED = 158, 0x1022
MOST_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class Memory(ctypes.Structure):
    """A piece of memory, as ptrace takes it (struct iovec)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class FailedError(Exception):
    """A step failed; the arguments are its name and its error number."""


def main() -> None:
    """Traces a child and prints what was found."""
    found: dict[str, object] = {"registers": 0, "permitted": None, "step": None, "errno": None}
    permitted = ctypes.c_ulong()
    if _libc.syscall(ARCH_PRCTL, GET_PERMITTED, ctypes.byref(permitted)) == 0:
        found["permitted"] = permitted.value
    child = os.fork()
    if child == 0:
        _be_traced()
    try:
        found["registers"] = _trace(child)
    except FailedError as failed:
        found["step"], found["errno"] = failed.args
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.kill(child, signal.SIGKILL)
    print(json.dumps(found))  # noqa: T201


def _be_traced() -> None:
    """Stops as a traced process, or ends with the error number; then makes one system call."""
    if _libc.ptrace(TRACE_ME, 0, None, None) != 0:
        os._exit(ctypes.get_errno())
    os.kill(os.getpid(), signal.SIGSTOP)
    os.getppid()
    os._exit(0)


def _trace(child: int) -> int:
    """Reads and sets the child's registers, and catches its next system call; the bytes read."""
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        raise FailedError("PTRACE_TRACEME", os.waitstatus_to_exitcode(status))
    length = _copy_registers(child)
    if length == 0:  # gVisor says so
        raise FailedError("PTRACE_GETREGSET", 0)
    _ask("PTRACE_SYSEMU", CONTINUE_TO_CALL, child, 0, None)
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
        raise FailedError("PTRACE_SYSEMU", 0)
    return length


def _copy_registers(child: int) -> int:
    """Reads the child's extended registers and sets them to the same values; their bytes."""
    buffer = ctypes.create_string_buffer(MOST_BYTES)
    memory = Memory(ctypes.addressof(buffer), MOST_BYTES)
    try:
        _ask("PTRACE_GETREGSET", GET_REGISTERS, child, EXTENDED, memory)
    except FailedError as failed:
        if failed.args[1] != errno.ENODEV:
            raise
        memory.length = OLD_BYTES  # a processor without XSAVE: floating point and SSE only
        _ask("PTRACE_GETFPREGS", GET_OLD_REGISTERS, child, 0, memory.base)
        _ask("PTRACE_SETFPREGS", SET_OLD_REGISTERS, child, 0, memory.base)
        return OLD_BYTES
    _ask("PTRACE_SETREGSET", SET_REGISTERS, child, EXTENDED, memory)
    return int(memory.length)


def _ask(step: str, request: int, child: int, what: int, data: Memory | int | None) -> None:
    where = ctypes.byref(data) if isinstance(data, Memory) else ctypes.c_void_p(data)
    if _libc.ptrace(request, child, ctypes.c_void_p(what), where) != 0:
        raise FailedError(step, ctypes.get_errno())


if __name__ == "__main__":
    main()
