"""Times the calls of `torch.distributed` in the program of this process, and reports them.

All of these calls pass PyTorch's dispatcher as operations `c10d::...`: those of Python, and those
that DistributedDataParallel makes in C++. A function before the operations reports when each one
began, and hands it on unchanged. A callback of its future reports when it ended. Gloo's sends and
receives have no future; their end is that of the program's `wait`.

Nothing here fails the program: what goes wrong is reported, or printed if it cannot be.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OPERATIONS: Mapping[str, str] = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather_coalesced",
    "_allgather_base_": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
    "barrier": "barrier",
    "monitored_barrier_": "monitored_barrier",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "scatter_": "scatter",
    "send": "send",
    "recv_": "recv",
    "recv_any_source_": "recv",
}
"""The operations of PyTorch's dispatcher, and the names of their calls in Python."""

WANTED = "TRUNKLINE_TIME_CALLS"
"""The environment variable of programs whose calls are timed."""

CALLS_LIMIT = 200_000
"""The most calls of a process that are timed."""

_BARRIERS = ("barrier", "monitored_barrier_")
_PAIRS = ("send", "recv_", "recv_any_source_")
_PEERS = ("root_rank", "dst", "src")
_PERIOD_S = 0.001


@dataclass(slots=True)
class Call:
    """A call that has begun: its process, and its number in it."""

    process: int
    number: int
    ended: bool = False


class State:
    """The calls of this process; a forked process begins anew.

    Attributes:
        numbers: gives each call its number.
        threads: the numbers of threads, by their identities, in the order of their first calls.
        works: the works of calls under way, by their identities, and the calls.
        ends: the callbacks that PyTorch still has.
        stopped: whether calls are not timed any more.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.threads: dict[int, int] = {}
        self.works: dict[int, tuple[Any, Call]] = {}
        self.ends: weakref.WeakSet[Ending] = weakref.WeakSet()
        self.stopped = False


_state = State()
_kept: list[Any] = []


class Ending:
    """The callback of a call's future."""

    def __init__(self, call: Call, work: int, future: Any) -> None:
        self.call, self.work, self.future = call, work, future

    def __call__(self, future: Any) -> None:
        """Report the end of the call."""
        at_ns, failed = time.monotonic_ns(), False
        try:
            future.value()
        except BaseException:
            failed = True
        _finish(self.call, failed, at_ns)
        _state.works.pop(self.work, None)


class Finder:
    """Finds `torch` as Python does without it, and calls `hook` with it after it is imported."""

    def __init__(self, hook: Callable[[Any], None]) -> None:
        self.hook = hook

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Find `torch` only."""
        if name != "torch":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_hook(module: Any) -> None:
                execute(module)
                self.hook(module)

            try:
                loader.exec_module = execute_and_hook
            except AttributeError as error:
                stop(f"torch's loader cannot be changed: {error}")
        return spec


def install() -> None:
    """Have all calls timed, from the import of torch on if it is still to come."""
    if "TRUNKLINE_REPORTS" not in os.environ:
        return
    await_torch(hook)


def await_torch(hook: Callable[[Any], None]) -> None:
    """Call `hook` with torch: now if it is imported, else as soon as it is."""
    if "torch" in sys.modules:
        hook(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, Finder(hook))


def hook(torch: Any) -> None:
    """Put our function before each operation of this PyTorch that communicates."""
    try:
        library = torch.library.Library("c10d", "IMPL")
        after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        for operation in OPERATIONS:
            if hasattr(torch.ops.c10d, operation):
                function = _make_function(torch, operation, after)
                library.impl(operation, function, "BackendSelect", with_keyset=True)
    except Exception as error:
        stop(f"this PyTorch's calls cannot be timed: {type(error).__name__}: {error}")
        return
    _kept.append(library)  # its end would take the functions away
    os.register_at_fork(after_in_child=_begin_anew)
    atexit.register(settle)


def stop(reason: str) -> None:
    """Time no further calls of this process, and say why."""
    if not _state.stopped:
        _report("timing_stopped", time.monotonic_ns(), process=os.getpid(), reason=reason)
        _state.stopped = True


def settle(exits_at_once: bool = False) -> None:
    """At the end of a program, wait until all calls under way have ended and are reported.

    A late callback would abort the process while Python ends. Without us, Gloo waits for these
    calls, too, a little later. A process that `exits_at_once` waits for no call that goes on.
    """
    while any(not exits_at_once or each.future.done() for each in list(_state.ends)):
        time.sleep(_PERIOD_S)


def _make_function(torch: Any, operation: str, after: Any) -> Callable[..., Any]:
    """What is called before an operation, which has the keys that come `after` ours."""
    overload = getattr(torch.ops.c10d, operation).default
    names = [argument.name for argument in overload._schema.arguments]

    def function(keys: Any, *values: Any, **named: Any) -> Any:
        call = _begin(torch, operation, {**dict(zip(names, values, strict=False)), **named})
        try:
            result = overload.redispatch(keys & after, *values, **named)
        except BaseException:
            _finish(call, True, time.monotonic_ns())
            raise
        _follow(torch, call, result)
        return result

    return function


def _begin(torch: Any, operation: str, given: Mapping[str, Any]) -> Call | None:
    """Report that a call has begun; None if it is not timed."""
    if _state.stopped:
        return None
    try:
        at_ns, number = time.monotonic_ns(), next(_state.numbers)
        if number >= CALLS_LIMIT:
            stop(f"only the first {CALLS_LIMIT} calls of a process are timed")
            return None
        if not _kept[1:]:
            _kept.append(_time_waits(torch.distributed.Work))
        group = torch.distributed.ProcessGroup.unbox(given["process_group"])
        ranks = _list_ranks(torch, group)
        peers = [given[name] for name in _PEERS if name in given]
        sizes = [0 if operation in _BARRIERS else _count(torch, each) for each in given.values()]
        thread = threading.get_ident()
        _report(
            "call_started",
            at_ns,
            process=os.getpid(),
            call=number,
            thread=_state.threads.setdefault(thread, len(_state.threads)),
            name=OPERATIONS[operation],
            bytes=max(sizes),
            group=str(group.group_name),
            ranks=ranks,
            rank=ranks[group.rank()],
            peer=ranks[peers[0]] if peers else None,
            blocks=_blocks(operation, given),
        )
        return Call(os.getpid(), number)
    except Exception as error:
        stop(f"{OPERATIONS[operation]} cannot be timed: {type(error).__name__}: {error}")
        return None


def _blocks(operation: str, given: Mapping[str, Any]) -> bool:
    """Whether the caller waits for this call before it does anything else.

    Sends and receives do not say; `send` and `recv`, which wait, are found among the callers.
    """
    if operation not in _PAIRS:
        return operation == "monitored_barrier_" or not given.get("async_op", True)
    frame = sys._getframe(3)
    for _ in range(6):
        if frame is None or "distributed" not in frame.f_code.co_filename:
            return False
        if frame.f_code.co_name in ("send", "recv"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _list_ranks(torch: Any, group: Any) -> list[int]:
    """The ranks of a group's members, in the default group."""
    try:
        return list(torch.distributed.get_process_group_ranks(group))
    except KeyError:  # it was not made by new_group
        return list(range(group.size()))


def _count(torch: Any, value: Any) -> int:
    """The bytes of all tensors in a value."""
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    if isinstance(value, list | tuple):
        return sum(_count(torch, each) for each in value)
    return 0


def _follow(torch: Any, call: Call | None, result: Any) -> None:
    """Have the end of a call reported that is under way."""
    if call is None:
        return
    try:
        work = result[-1] if isinstance(result, tuple | list) and result else result
        if work is None or isinstance(work, tuple | list):  # a monitored barrier has no work
            _finish(call, False, time.monotonic_ns())
            return
        work = torch.distributed.Work.unbox(work)
        _state.works[id(work)] = work, call
        try:
            future = work.get_future()
        except RuntimeError:
            return
        ending = Ending(call, id(work), future)
        _state.ends.add(ending)
        future.add_done_callback(ending)
    except Exception as error:
        stop(f"the end of a call cannot be timed: {type(error).__name__}: {error}")


def _time_waits(kind: Any) -> Any:
    """Have `wait` of a class of works report the end of the call that it waited for."""
    wait = kind.wait

    @functools.wraps(wait)
    def timed_wait(self: Any, *values: Any, **named: Any) -> Any:
        failed = True
        try:
            result = wait(self, *values, **named)
            failed = False
            return result
        finally:
            at_ns = time.monotonic_ns()
            _, call = _state.works.pop(id(self), (None, None))
            _finish(call, failed, at_ns)

    kind.wait = timed_wait
    return kind


def _finish(call: Call | None, failed: bool, at_ns: int) -> None:
    if call is not None and not call.ended:
        call.ended = True
        _report("call_finished", at_ns, process=call.process, call=call.number, failed=failed)


def _begin_anew() -> None:
    global _state
    _state = State()


def _report(event: str, at_ns: int, **fields: object) -> None:
    """Write one event of this site to the run's event log, or time no further calls."""
    try:
        write_report(event, at_ns, **fields)
    except (KeyError, OSError) as error:
        if not _state.stopped:
            _state.stopped = True
            print(f"trunkline: calls are not timed: {error}", file=sys.stderr)  # noqa: T201


def write_report(event: str, at_ns: int, **fields: object) -> None:
    """Write one event of this site to the run's event log. Raises KeyError and OSError."""
    line = json.dumps({"event": event, "monotonic_ns": at_ns, **fields}).encode() + b"\n"
    # The pipe is not kept open, because programs may close all descriptors.
    pipe = os.open(os.environ["TRUNKLINE_REPORTS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(pipe, line)
    finally:
        os.close(pipe)
