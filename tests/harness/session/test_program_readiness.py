"""How a session learns that a program is ready, and does things when their times have come."""

import functools
import os
import re
import select
import socket
import time

from trunkline.harness.session.program_readiness import LineSearch, listens
from trunkline.harness.session.run_schedule import Schedule


def test_a_line_is_found_wherever_its_pieces_end():
    search = LineSearch(re.compile("listening on [0-9]+$"))
    assert not search.finds(b"starting\nlisten")
    assert not search.finds(b"ing on ")
    assert search.finds(b"29")
    assert LineSearch(re.compile("^b")).finds(b"a\nb\nc\n")
    assert not LineSearch(re.compile("a.b")).finds(b"a\nb\n")


def test_a_port_listens_from_listen_to_close():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert not listens(os.getpid(), port)
        sock.listen()
        assert listens(os.getpid(), port)
        with socket.create_connection(("127.0.0.1", port)):
            pass
    assert not listens(os.getpid(), port)
    assert not listens(2**22, port)


def test_a_schedule_performs_what_is_due_in_order_also_what_that_plans():
    schedule, done = Schedule(), []
    now_ns = time.monotonic_ns()

    def act(name, *more):
        done.append(name)
        for at_ns, other in more:
            schedule.add(at_ns, functools.partial(act, other))
        return ()

    schedule.add(now_ns + 2, lambda: act("second", (0, "at once"), (now_ns + 10**12, "never")))
    schedule.add(now_ns + 1, lambda: act("first"))
    schedule.add(now_ns + 2, lambda: act("third"))
    assert select.select([schedule.fd], [], [], 1)[0]
    assert list(schedule.perform_due()) == []
    assert done == ["first", "second", "at once", "third"]
    assert not select.select([schedule.fd], [], [], 0)[0]
    schedule.close()
