"""Connections with several lanes: one order of frames, whichever lane carries them."""

import asyncio
import contextlib
import socket
import time
from dataclasses import dataclass, field

import pytest

from trunkline.agents.planning.disciplines import DISCIPLINES, Flow
from trunkline.agents.wire.failover import Failover
from trunkline.agents.wire.framing import (
    BEAT,
    ChunkHeader,
    FrameReader,
    encode,
    encode_chunk,
    encode_number,
    no_chunks,
)
from trunkline.agents.wire.lane import ConnectionLostError, Outgoing, lane_name, split_name
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.messages import FinishedNotice, ProtocolError, SiteReady
from trunkline.agents.wire.neighbours import Neighbours

SIZE = 1_000_000


class End:
    """One end of a connection, and everything that it has heard."""

    def __init__(self, sock: socket.socket) -> None:
        self.heard: list[object] = []
        self.lost: list[str] = []
        self.link = Connection(
            sock,
            "peer",
            lambda _, frame: self.heard.append(frame),
            lambda _, error: self.lost.append(str(error)),
            lambda header: memoryview(bytearray(header.size)),
            time.monotonic_ns,
            numbered=True,
        )


def chunk(number: int, log: list[int] | None = None) -> Outgoing:
    header = ChunkHeader(True, 0, 0, number, 0, (), True, SIZE)
    payload = memoryview(bytes([number % 256]) * SIZE)
    sent = None if log is None else lambda start, end: log.append(number)
    return Outgoing(encode_chunk(header), payload, header, Flow(0, True), sent)


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def test_frames_of_all_lanes_are_delivered_in_the_order_in_which_they_began():
    async def scene() -> None:
        pairs = [socket.socketpair() for _ in range(3)]
        left, right = End(pairs[0][0]), End(pairs[0][1])
        finished: list[int] = []
        for number in range(40):
            left.link.put(chunk(number, finished))
            left.link.tell(SiteReady(number, number))
            if number in (5, 15):
                ours, theirs = pairs[1 + (number == 15)]
                left.link.join(ours)
                right.link.join(theirs)
        await asyncio.gather(left.link.drain(), until(lambda: len(right.heard) == 80))
        chunks = [frame for frame in right.heard if isinstance(frame, tuple)]
        assert [header.chunk for header, _ in chunks] == list(range(40))
        assert all(bytes(payload) == bytes([h.chunk]) * SIZE for h, payload in chunks)
        told = [frame for frame in right.heard if not isinstance(frame, tuple)]
        assert told == [SiteReady(number, number) for number in range(40)]
        assert sorted(finished) == list(range(40))
        left.link.close()
        await until(lambda: right.lost)

    asyncio.run(scene())


def test_a_lane_that_is_stuck_holds_back_what_began_after_its_frame_and_nothing_is_lost():
    async def scene() -> None:
        ours = socket.socketpair(), socket.socketpair()
        left = End(ours[0][0])
        left.link.join(ours[1][0])
        left.link.put(chunk(0))
        left.link.put(chunk(1))
        left.link.tell(FinishedNotice(1, 1))
        first, second = ours[0][1], ours[1][1]
        silent, other = socket.socketpair()
        right = End(silent)
        right.link.join(second)
        await asyncio.sleep(0.2)
        assert right.heard == []  # the second chunk is there, the first one is not
        right.link.join(first)
        await until(lambda: len(right.heard) == 3)
        order = [frame[0].chunk if isinstance(frame, tuple) else frame for frame in right.heard]
        assert order == [0, 1, FinishedNotice(1, 1)]
        left.link.close()
        right.link.close()
        other.close()

    asyncio.run(scene())


def test_the_end_of_one_lane_is_the_end_of_the_connection():
    async def scene() -> None:
        pairs = [socket.socketpair() for _ in range(3)]
        left, right = End(pairs[0][0]), End(pairs[0][1])
        for ours, theirs in pairs[1:]:
            left.link.join(ours)
            right.link.join(theirs)
        dropped: list[int] = []
        frames = [chunk(number) for number in range(6)]
        for number, frame in enumerate(frames):
            frame.dropped = lambda number=number: dropped.append(number)
            left.link.put(frame)
        pairs[2][1].shutdown(socket.SHUT_RDWR)
        await until(lambda: left.lost and right.lost)
        assert sorted(dropped) == list(range(6))
        for pair in pairs:
            for sock in pair:
                assert sock.fileno() == -1
        extra = socket.socketpair()
        left.link.join(extra[0])
        assert extra[0].fileno() == -1
        extra[1].close()

    asyncio.run(scene())


def test_a_beat_is_alive_on_any_lane_and_has_no_number():
    async def scene() -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        left, right = End(pairs[0][0]), End(pairs[0][1])
        left.link.join(pairs[1][0])
        right.link.join(pairs[1][1])
        assert not right.link.poll_alive()
        pairs[1][0].send(BEAT)
        await until(right.link.poll_alive)
        left.link.beat()
        await until(right.link.poll_alive)
        left.link.tell(SiteReady(1, 1))
        await until(lambda: right.heard)
        assert right.heard == [SiteReady(1, 1)]
        left.link.close()
        right.link.close()

    asyncio.run(scene())


def test_only_open_tcp_connections_count_the_packets_that_were_sent_again():
    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = [socket.create_connection(server.getsockname()) for _ in range(2)]
            theirs = [server.accept()[0] for _ in ours]
        left, right = End(ours[0]), End(theirs[0])
        left.link.join(ours[1])
        assert left.link.resent_packets == 0
        theirs[1].close()
        left.link.close()
        right.link.close()
        assert left.link.resent_packets is None
        pair = socket.socketpair()
        local = End(pair[0])
        assert local.link.resent_packets is None
        local.link.close()
        pair[1].close()

    asyncio.run(scene())


@dataclass
class Pair:
    """Two neighbours; a calls b, and `calls` has the lanes for which it called."""

    calls: list[int] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    heard: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.a, self.b = self.make(("b",)), self.make(())

    def make(self, callees: tuple[str, ...]) -> Neighbours:
        return Neighbours(
            callees,
            self,
            Failover(beat_s=0.01, timeout_s=1.0),
            lambda _, frame: self.heard.append(frame),
            lambda peer, error: None,
            self.found.append,
            no_chunks,
            time.monotonic_ns,
            DISCIPLINES["fcfs"],
            SIZE,
            lanes=3,
        )

    async def call(self, name: str, lane: int = 0) -> socket.socket:
        assert name == "b"
        self.calls.append(lane)
        ours, theirs = socket.socketpair()
        self.b.accept(lane_name("a", lane), theirs)
        return ours


def test_the_neighbour_that_dials_does_so_once_for_each_lane_after_every_loss():
    async def scene() -> None:
        pair = Pair()
        pair.a.start({})
        await until(lambda: "a" in pair.b.links)
        await asyncio.sleep(0.05)
        assert pair.calls == [0]  # nothing was heard yet
        pair.b.beat()
        await until(lambda: len(pair.calls) == 3)
        pair.b.tell("a", SiteReady(1, 1))
        pair.b.links["a"].lose(ConnectionLostError("a test"))
        await until(lambda: len(pair.calls) == 4)
        pair.b.tell("a", SiteReady(2, 2))
        await until(lambda: len(pair.calls) == 6)
        assert pair.calls == [0, 1, 2, 0, 1, 2]
        assert sorted(pair.found) == ["a", "a", "b", "b"]
        assert pair.heard == [SiteReady(1, 1), SiteReady(2, 2)]
        pair.a.close()
        pair.b.close()

    asyncio.run(scene())


def test_a_lane_without_a_connection_is_closed():
    async def scene() -> None:
        pair = Pair()
        ours, theirs = socket.socketpair()
        pair.b.accept(lane_name("a", 1), theirs)
        assert theirs.fileno() == -1
        assert pair.b.links == {}
        ours.close()

    asyncio.run(scene())


READY = encode(SiteReady(1, 1))


@pytest.mark.parametrize(
    ("numbered", "frames"),
    [
        (False, encode_number(1) + READY),
        (True, READY),
        (True, encode_number(1) + encode_number(2) + READY),
        (True, encode_number(1) + BEAT + READY),
    ],
)
def test_numbers_precede_frames_where_they_are_agreed_on_and_nowhere_else(numbered, frames):
    reader = FrameReader(no_chunks, numbered=numbered)
    with pytest.raises(ProtocolError, match="of kind"):
        feed(reader, frames)


def test_a_number_belongs_to_the_frame_that_follows_it():
    reader = FrameReader(no_chunks, numbered=True)
    frames = encode_number(7) + READY + BEAT + encode_number(9) + READY
    assert feed(reader, frames) == [(7, SiteReady(1, 1)), (9, SiteReady(1, 1))]


def feed(reader: FrameReader, data: bytes) -> list[tuple[int | None, object]]:
    """Give as many bytes at once as the reader takes."""
    found = []
    while data:
        count = 0
        for buffer in reader.buffers():
            part = data[count : count + len(buffer)]
            buffer[: len(part)] = part
            count += len(part)
        data = data[count:]
        frame = reader.advance(count)
        if frame is not None:
            found.append((reader.number, frame))
    return found


def test_a_number_that_comes_again_loses_the_connection():
    async def scene() -> None:
        ours, theirs = socket.socketpair()
        right = End(theirs)
        with contextlib.closing(ours):
            ours.send((encode_number(1) + READY) * 2)
            await until(lambda: right.lost)
        assert right.heard == [SiteReady(1, 1)]
        assert right.lost == ["peer sent garbage: frame 1 again"]

    asyncio.run(scene())


def test_a_site_calls_for_a_lane_in_a_name_that_tells_both():
    assert [split_name(lane_name("n1", lane)) for lane in range(3)] == [
        (("n1"), n) for n in range(3)
    ]
    assert lane_name("n1", 0) == "n1"
