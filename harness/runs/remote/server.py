"""The server of `trunkline run --on`: it answers the requests of the `client`.

Its first message is `{"trunkline": VERSION, "protocol": ..., "code": ..., "runs": [...]}`. Then it
answers each `{"ask": ...}`:

- `start` with a request, followed by files up to `{"end": true}`: `{"run": NAME}`
- `request` of a run: `{"request": ...}`
- `follow` a run: several `{"progress": ...}`, at last `{"over": ...}`; the next request ends it
- `fetch` a run: the files of its run folder
- `remove` a run, after ending it if necessary: `{"removed": NAME}`

Any answer may be `{"refused": TEXT}` instead. A run continues until it ends or is removed, even if
the connection breaks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime

from trunkline.harness.record import run_folder
from trunkline.harness.runs import provenance
from trunkline.harness.runs.remote import PROTOCOL, BrokenError, RemoteError, jobs
from trunkline.harness.runs.remote.jobs import Job, Request, Tail
from trunkline.harness.runs.remote.protocol import Message, Wire, check_name, list_files

POLL_S = 0.2
ALIVE_PERIOD = 25
"""The number of polls without news after which the client gets a sign of life."""

LAST = ("environment.json", "verdict.json")
"""Files to send last: they mark a run folder as complete. A broken transfer must not look so."""


def serve(wire: Wire, has_input: Callable[[float], bool]) -> None:
    """Answer requests until the connection ends.

    `has_input(timeout_s)` waits up to that time for input, and returns whether there is any.
    """
    jobs.remove_stale_drafts()
    try:
        wire.send(make_greeting())
        while True:
            message, _ = wire.receive()
            try:
                _answer(message, wire, has_input)
            except BrokenError:
                raise
            except RemoteError as error:
                wire.send({"refused": str(error)})
            except OSError as error:
                wire.send({"refused": f"{error.filename or ''}: {error.strerror or error}"})
    except BrokenError:  # the client has disconnected: the normal end
        return


def make_greeting() -> Message:
    """The first message."""
    return {
        "trunkline": run_folder.version("trunkline"),
        "protocol": PROTOCOL,
        "code": provenance.hash_code(provenance.SESSION),
        "runs": [job.name for job in jobs.list_jobs()],
    }


def _answer(message: Message, wire: Wire, has_input: Callable[[float], bool]) -> None:
    ask = message.get("ask")
    if ask == "start":
        wire.send({"run": _start(Request.of_json(message.get("request")), wire)})
    elif ask == "request":
        wire.send({"request": jobs.find(str(message.get("run"))).request().to_json()})
    elif ask == "follow":
        _follow(jobs.find(str(message.get("run"))), wire, has_input)
    elif ask == "fetch":
        folder = check_name(message.get("run_dir"))
        job = jobs.find(str(message.get("run")))
        wire.send_files(list_files(job.path / jobs.RUNS / folder, LAST))
    elif ask == "remove":
        job = jobs.find(str(message.get("run")))
        job.end()
        job.remove()
        wire.send({"removed": job.name})
    else:
        raise RemoteError(f"{ask!r} is not a request")


def _start(request: Request, wire: Wire) -> str:
    job = jobs.create_draft()
    try:
        wire.receive_files(job.path)
        job = jobs.finish_draft(job, request, datetime.now())
        job.start()
    except BaseException:
        with contextlib.suppress(OSError):
            job.remove()
        raise
    return job.name


def _follow(job: Job, wire: Wire, has_input: Callable[[float], bool]) -> None:
    tail, silent = Tail(job.path / jobs.SAID), 0
    while True:
        alive = job.alive()
        said = tail.read()  # read after `alive`, so that its last lines are included
        if said:
            wire.send(said[-1])
            silent = 0
        if said and "over" in said[-1]:
            return
        if not alive:
            words = job.read_log_end()
            reason = "the run's process ended without a result: was the machine restarted?"
            wire.send({"over": {"refused": f"{reason}\n{words}".strip()}})
            return
        if has_input(POLL_S):
            return
        silent += 1
        if silent % ALIVE_PERIOD == 0:
            wire.send({"alive": True})
