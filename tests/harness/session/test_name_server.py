"""What a site's name server answers: packets in, packets out."""

import struct

import pytest

from trunkline.harness.session.name_server import answer, read_hosts

HOSTS = """127.0.0.1 localhost
10.0.0.1 n1
10.0.0.2 n2 n2.example
fd00::2 n2
"""
NAMES = read_hosts(HOSTS)
A, PTR, TXT, AAAA = 1, 12, 16, 28


def ask(name, kind, *, flags=0x0100, family=1, count=1):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return (
        struct.pack("!6H", 77, flags, count, 0, 0, 0)
        + labels
        + struct.pack("!B2H", 0, kind, family)
    )


def parse(reply, question):
    """(code, data of each record); the reply repeats the number and the question."""
    number, flags, questions, records, _, _ = struct.unpack_from("!6H", reply)
    assert (number, questions, flags & 0xFFF0) == (77, 1, 0x8580)
    assert reply[12 : len(question)] == question[12:]
    at, found = len(question), []
    for _ in range(records):
        assert reply[at : at + 2] == b"\xc0\x0c"
        size = struct.unpack_from("!H", reply, at + 10)[0]
        found.append(reply[at + 12 : at + 12 + size])
        at += 12 + size
    assert at == len(reply)
    return flags & 0xF, found


@pytest.mark.parametrize(
    ("name", "kind", "code", "records"),
    [
        ("n1", A, 0, [bytes([10, 0, 0, 1])]),
        ("N2", A, 0, [bytes([10, 0, 0, 2])]),
        ("n2.example", A, 0, [bytes([10, 0, 0, 2])]),
        ("n2", AAAA, 0, [bytes.fromhex("fd000000000000000000000000000002")]),
        ("n1", AAAA, 0, []),
        ("n1", TXT, 0, []),
        ("n9", A, 3, []),
        ("n9", AAAA, 3, []),
        ("1.0.0.10.in-addr.arpa", PTR, 0, [b"\2n1\0"]),
        ("9.0.0.10.in-addr.arpa", PTR, 3, []),
    ],
)
def test_a_question_has_the_answer_of_the_hosts_file(name, kind, code, records):
    question = ask(name, kind)
    reply = answer(question, NAMES)
    assert reply is not None
    assert parse(reply, question) == (code, records)


def test_questions_of_another_class_are_not_answered():
    question = ask("n1", A, family=3)
    reply = answer(question, NAMES)
    assert reply is not None
    assert parse(reply, question) == (4, [])


@pytest.mark.parametrize(
    "packet",
    [b"", b"short", ask("n1", A)[:-3], ask("n1", A, flags=0x8100), ask("n1", A, count=2)],
)
def test_what_is_no_question_has_no_answer(packet):
    assert answer(packet, NAMES) is None
