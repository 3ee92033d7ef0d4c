"""A stand-in for ssh between sites: `trunkline-rsh SITE COMMAND` and `trunkline-rshd`.

Launchers such as mpirun start processes on other machines by ssh. At each such site the program is
`trunkline-rshd`, which waits for commands. Both talk over the emulated network, and this file uses
the standard library only. There are no users and no encryption: all sites are one user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

PORT = 29400
"""Where `trunkline-rshd` listens; TRUNKLINE_RSH_PORT names another port."""

PATIENCE_S = 10.0
"""For so long `trunkline-rsh` tries to reach a site whose program has just begun."""

PERIOD_S = 0.05
UNREACHABLE = 255
"""The exit code of ssh, too, if it cannot reach the other machine."""

WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
"""The options of ssh that are followed by a value. All options are read and ignored."""

INPUT, OUTPUT, ERRORS, EXIT = range(4)
_HEAD = struct.Struct("!BI")
_READ_BYTES = 1 << 16


def call(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command at another site, as ssh would; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if words and len(option) == 2 and option[1] in WITH_VALUE:
            words.pop(0)
    if len(words) < 2:
        sys.stderr.write("usage: trunkline-rsh [options of ssh] [USER@]SITE COMMAND ...\n")
        return UNREACHABLE
    site = words[0].rpartition("@")[2]
    try:
        connection = _connect(site)
    except OSError as error:
        reason = f"cannot reach {site}: {error.strerror or error}"
        sys.stderr.write(f"trunkline-rsh: {reason}; is trunkline-rshd its program?\n")
        return UNREACHABLE
    with connection:
        request = json.dumps({"command": " ".join(words[1:])}).encode()
        connection.sendall(_HEAD.pack(EXIT, len(request)) + request)
        threading.Thread(target=_pass_input, args=(connection,), daemon=True).start()
        return _pass_output(connection, site)


def serve() -> int:
    """Carry out the commands of other sites until this process is told to end; 0 then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.create_server(("", _port()), backlog=1000) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_carry_out, args=(connection,), daemon=True).start()


def _port() -> int:
    return int(os.environ.get("TRUNKLINE_RSH_PORT", PORT))


def _connect(site: str) -> socket.socket:
    """Connect to a site; it may still be starting. Raises OSError."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = socket.create_connection((site, _port()), timeout=PATIENCE_S)
            connection.settimeout(None)
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > until_s:
                raise
            time.sleep(PERIOD_S)


def _pass_input(connection: socket.socket) -> None:
    """Send our standard input until it ends."""
    with contextlib.suppress(OSError, ValueError):
        while data := os.read(0, _READ_BYTES):
            connection.sendall(_HEAD.pack(INPUT, len(data)) + data)
        connection.sendall(_HEAD.pack(INPUT, 0))


def _pass_output(connection: socket.socket, site: str) -> int:
    """Write what the command writes; returns its exit code."""
    while (frame := _receive(connection)) is not None:
        kind, data = frame
        if kind == EXIT:
            return int(json.loads(data)["code"]) % 256  # as a shell has it
        os.write(1 if kind == OUTPUT else 2, data)
    sys.stderr.write(f"trunkline-rsh: {site} closed the connection\n")
    return UNREACHABLE


def _carry_out(connection: socket.socket) -> None:
    """Carry out the command of one connection; it is killed when the other side goes away."""
    with connection, contextlib.suppress(OSError):
        frame = _receive(connection)
        if frame is None or frame[0] != EXIT:
            return
        process = subprocess.Popen(
            json.loads(frame[1])["command"],
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        feeder = threading.Thread(target=_feed, args=(connection, process), daemon=True)
        feeder.start()
        code = _copy_output(process, connection.sendall)
        answer = json.dumps({"code": code}).encode()
        connection.sendall(_HEAD.pack(EXIT, len(answer)) + answer)


def _feed(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Write what the other side sends to the command; kill the command when it goes away."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        while (frame := _receive(connection)) is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                if frame[1]:
                    process.stdin.write(frame[1])
                    process.stdin.flush()
                else:
                    process.stdin.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _copy_output(process: subprocess.Popen[bytes], send: Callable[[bytes], None]) -> int:
    """Send what the command writes until it ends; a daemon that it leaves may keep its output."""
    ended_read, ended = os.pipe()
    threading.Thread(target=_close_after, args=(process, ended), daemon=True).start()
    streams: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        for kind, stream in ((OUTPUT, process.stdout), (ERRORS, process.stderr)):
            assert stream is not None
            streams[stream.fileno()] = kind
            selector.register(stream, selectors.EVENT_READ)
        selector.register(ended_read, selectors.EVENT_READ)
        is_over = False
        while not is_over or streams:
            found = [key.fd for key, _ in selector.select(0 if is_over else None)]
            if is_over and not found:
                break
            for fd in found:
                if fd == ended_read:
                    is_over = True
                    selector.unregister(fd)
                elif data := os.read(fd, _READ_BYTES):
                    send(_HEAD.pack(streams[fd], len(data)) + data)
                else:
                    selector.unregister(fd)
                    del streams[fd]
    os.close(ended_read)
    for stream in (process.stdout, process.stderr):
        _close(stream)
    return process.wait()


def _close_after(process: subprocess.Popen[bytes], descriptor: int) -> None:
    process.wait()
    os.close(descriptor)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        stream.close()


def _receive(connection: socket.socket) -> tuple[int, bytes] | None:
    """The kind and the content of the next frame; None if the other side has closed."""
    head = _receive_bytes(connection, _HEAD.size)
    if head is None:
        return None
    kind, size = _HEAD.unpack(head)
    data = _receive_bytes(connection, size)
    return None if data is None else (kind, data)


def _receive_bytes(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


if __name__ == "__main__":
    sys.exit(serve())
