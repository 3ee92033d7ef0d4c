"""Every site but the first sends it so many bytes, and waits until the first has them.

python3 upload.py BYTES
"""

import os
import selectors
import socket
import sys
import time

PORT = 7000


def serve(clients: int, size: int) -> None:
    """Take all of each client's bytes, and answer with one."""
    missing = dict[socket.socket, int]()
    with (
        selectors.DefaultSelector() as ready,
        socket.create_server(("", PORT), backlog=4096) as door,
    ):
        ready.register(door, selectors.EVENT_READ)
        while clients:
            for key, _ in ready.select():
                if key.fileobj is door:
                    connection, _ = door.accept()
                    ready.register(connection, selectors.EVENT_READ, connection)
                    missing[connection] = size
                    continue
                connection = key.data
                missing[connection] -= len(connection.recv(1 << 18))
                if not missing[connection]:
                    connection.sendall(b"!")
                    ready.unregister(connection)
                    connection.close()
                    clients -= 1


def send(address: str, size: int) -> None:
    """Send so many bytes, as soon as the server listens, and wait for its answer."""
    while True:
        try:
            connection = socket.create_connection((address, PORT))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    with connection:
        connection.sendall(bytes(size))
        if not connection.recv(1):
            raise SystemExit("the server went without an answer")


if __name__ == "__main__":
    first, *others = os.environ["TRUNKLINE_ADDRESSES"].split(",")
    if os.environ["TRUNKLINE_RANK"] == "0":
        serve(len(others), int(sys.argv[1]))
    else:
        send(first, int(sys.argv[1]))
