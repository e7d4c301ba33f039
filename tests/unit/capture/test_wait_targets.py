"""What sleeping threads wait for, in the words of this process's own descriptors and memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.system_calls import numbers_by_name
from perfpy.capture.sleeping_threads import Sleeper
from perfpy.capture.wait_targets import (
    AwaitedLock,
    Peer,
    WaitTarget,
    WaitTargets,
    awaited_lock,
    holders_of_file_locks,
    owner_of_mutex,
    peers_of_wait,
    sockets_of,
)
from perfpy.kernel.procfs import ProcFs

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = "x86_64"
OWN = os.getpid()
HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def targets() -> WaitTargets:
    return WaitTargets(OWN, {OWN: OWN, OWN + 1: 7, OWN + 2: 8}, MACHINE)


def waiting(call: str, *arguments: int) -> WaitTarget:
    """What a thread of this process would wait for in a call."""
    words = (numbers_by_name(MACHINE)[call], *arguments, *[0] * (6 - len(arguments)), 0x7F00, 0x5500)
    return targets().of(Sleeper(OWN, OWN, "S", 0, words, (), b""))


@pytest.mark.parametrize("words", [(), (-1, 0x7F00, 0x5500), (99999, *[0] * 8)])
def test_without_a_known_call_nothing_is_said(words):
    assert targets().of(Sleeper(OWN, OWN, "S", 0, words, (), b"")) == WaitTarget()


def test_descriptors_are_named(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    begin, end = os.pipe()
    try:
        assert waiting("read", descriptor) == WaitTarget("read", str(path))
        assert waiting("read", begin) == WaitTarget("read", "a pipe")
        assert waiting("clock_nanosleep", begin) == WaitTarget("clock_nanosleep")
        assert waiting("read", 1 << 20) == WaitTarget("read")
    finally:
        for one in (descriptor, begin, end):
            os.close(one)


def test_sockets_have_the_address_of_the_other_side():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, port = server.getsockname()
        with socket.create_connection((address, port)) as client:
            assert waiting("recvfrom", client.fileno()).of == f"127.0.0.1:{port}"
            assert waiting("accept4", server.fileno()).of == f"127.0.0.1:{port} (listening)"


def test_connections_to_others_are_told_from_those_of_clients():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, peer = server.accept()[0], Peer(f"127.0.0.1:{server.getsockname()[1]}", is_connected=True, pid=OWN)
        known: dict[str, Peer | None] = {}
        one_end, other_end = socket.socketpair()
        with accepted, select.epoll() as loop, one_end, other_end:
            for one in (server, accepted, one_end):
                loop.register(one.fileno())
            assert peers_of_wait(OWN, "epoll_wait", (loop.fileno(),), known) == set()
            loop.register(client.fileno())
            assert peers_of_wait(OWN, "epoll_pwait", (loop.fileno(),), known) == {peer}
            assert peers_of_wait(OWN, "recvfrom", (client.fileno(),), known) == {peer}
            assert peers_of_wait(OWN, "recvfrom", (accepted.fileno(),), known) == set()
    assert peers_of_wait(OWN, "futex", (0,), known) is None
    assert peers_of_wait(OWN, "read", (1 << 20,), known) == set()


def test_a_connection_that_does_not_exist_yet_is_told_apart():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        for _ in range(8):  # the queue of the server is full
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        known: dict[str, Peer | None] = {}
        peers = peers_of_wait(OWN, "connect", (client.fileno(),), known)
        assert peers == {Peer(f"127.0.0.1:{server.getsockname()[1]}", is_connected=False)}
        assert not known, "it may be connected at the next look"


def test_the_table_of_sockets_is_read_whole():
    """The kernel returns it page by page."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(200)]
        named = sockets_of(OWN)
        inodes = [os.readlink(f"/proc/self/fd/{server.fileno()}").removeprefix("socket:[").removesuffix("]") for server in servers]
        assert [named.get(inode) for inode in inodes] == [f"127.0.0.1:{server.getsockname()[1]} (listening)" for server in servers]


def test_polls_name_their_first_descriptors():
    pipes = [os.pipe() for _ in range(2)]
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as epoll:
        port = server.getsockname()[1]
        fds = [server.fileno(), pipes[0][0], -1, pipes[1][0]]
        array = ctypes.create_string_buffer(b"".join(struct.pack("=ihh", fd, 1, 0) for fd in fds))
        expected = f"127.0.0.1:{port} (listening), a pipe"
        assert waiting("poll", ctypes.addressof(array), len(fds)).of == expected
        epoll.register(server.fileno())
        epoll.register(pipes[0][0])
        assert sorted(waiting("epoll_wait", epoll.fileno()).of.split(", ")) == sorted(expected.split(", "))
    for one in (end for pipe in pipes for end in pipe):
        os.close(one)


def test_a_mutex_has_its_holder():
    mutex = ctypes.create_string_buffer(struct.pack("=iIiIi", 2, 1, 7, 1, 0))
    address = ctypes.addressof(mutex)
    assert waiting("futex", address, 0x80, 2) == WaitTarget("futex", lock=address, holder=OWN + 1)
    assert waiting("futex", address, 0x80, 0) == WaitTarget("futex")
    assert waiting("futex", address, 0x109, 8) == WaitTarget("futex", thread=OWN + 2)
    assert waiting("futex", 8, 0x80, 2) == WaitTarget("futex", lock=8)


def test_addresses_of_every_table(tmp_path: Path):
    folder = tmp_path / "1/net"
    folder.mkdir(parents=True)
    row = "   0: {} {} {} 00000000:00000000 00:00000000 00000000     0        0 {} 1\n"
    ipv6 = "B80D01200000000000000000010000A0"
    mapped = "0000000000000000FFFF00000100007F"
    (folder / "tcp").write_text(HEADING + row.format("0100007F:0050", "0200000A:1538", "01", "11") + row.format("x:1", "y:2", "01", "12"))
    (folder / "tcp6").write_text(
        HEADING + row.format(f"{ipv6}:0050", f"{'0' * 32}:0000", "0A", "21") + row.format(f"{mapped}:0050", f"{mapped}:0051", "01", "22")
    )
    (folder / "udp").write_text(HEADING + row.format("0100007F:0035", "00000000:0000", "07", "31") + "short\n")
    (folder / "unix").write_text("Num RefCount\n0: 2 0 0 1 1 41 /run/a socket\n0: 2 0 0 1 1 42\n")
    sockets = sockets_of(1, ProcFs(str(tmp_path)))
    assert sockets == {
        "11": "10.0.0.2:5432",
        "12": "",
        "21": "[2001:db8::a000:1]:80 (listening)",
        "22": "127.0.0.1:81",
        "31": "127.0.0.1:53",
        "41": "/run/a socket",
        "42": "a unix socket",
    }


def test_a_wait_for_a_lock_has_its_address_or_file(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        assert awaited_lock(OWN, "futex", (0x4000, 0x80, 2, 0, 0, 0)) == AwaitedLock(0x4000, "", has_limit=False)
        assert awaited_lock(OWN, "futex", (0x4000, 0x189, 2, 0x7000, 0, 0)) == AwaitedLock(0x4000, "", has_limit=True)
        assert awaited_lock(OWN, "futex", (0x4000, 0x80, 0, 0, 0, 0)) is None
        assert awaited_lock(OWN, "flock", (descriptor, 2, 0, 0)) == AwaitedLock(0, str(path), has_limit=False)
        assert awaited_lock(OWN, "fcntl", (descriptor, 7, 0, 0)) == AwaitedLock(0, str(path), has_limit=False)
        assert awaited_lock(OWN, "fcntl", (descriptor, 6, 0, 0)) is None
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("words", "owner"),
    [
        ((2, 1, 77, 1, 0), 77),
        ((2, 1, 77, 1, 1 | 0x80), 77),
        ((2, 0, 77, 0, 0), 0),
        ((2, 0, -1, 1, 0), 0),
        ((2, 0, 77, 1, 9), 0),
    ],
)
def test_only_a_held_mutex_has_an_owner(words: tuple[int, ...], owner: int) -> None:
    data = struct.pack("=iIiIi", *words)
    assert owner_of_mutex(data) == owner
    assert all(owner_of_mutex(data[:size]) == 0 for size in range(len(data)))


def test_the_holder_of_a_file_lock_stands_above_those_that_wait(tmp_path: Path) -> None:
    lines = (
        "1: FLOCK  ADVISORY  WRITE 10 fe:00:5 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 11 fe:00:5 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 12 fe:00:5 0 EOF",
        "2: OFDLCK ADVISORY  WRITE -1 fe:00:6 0 EOF",
        "2: -> OFDLCK ADVISORY  WRITE 13 fe:00:6 0 EOF",
        "3: POSIX",
        "3: -> POSIX",
    )
    (tmp_path / "locks").write_text("\n".join(lines))
    assert holders_of_file_locks(ProcFs(str(tmp_path))) == {11: 10, 12: 10}
    assert holders_of_file_locks(ProcFs(str(tmp_path / "absent"))) == {}


def test_the_process_at_the_other_end_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = "import socket, sys; one = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print(flush=True); sys.stdin.read()"
        words = [sys.executable, "-c", script, str(server.getsockname()[1])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            connection, _ = server.accept()
            with connection:
                (descriptor,) = (
                    name for name in os.listdir(f"/proc/{child.pid}/fd") if "socket:" in os.readlink(f"/proc/{child.pid}/fd/{name}")
                )
                peers, own = peers_of_wait(child.pid, "recvfrom", (int(descriptor),), {}), ProcFs().status(OWN)
                assert own is not None
                assert [(peer.pid, peer.comm) for peer in peers or ()] == [(OWN, own.comm)]
            child.communicate()
