"""Structures that arguments of system calls point to, as text."""

from __future__ import annotations

import os
import random
import socket
import struct

import pytest

from perfpy.abi.system_calls import RESULT, names_by_number, structures_of
from perfpy.tools.trace.argument_text import structure_text

MACHINE = "x86_64"
ADDRESS6 = struct.pack("=H", socket.AF_INET6) + b"\x01\xbb" + bytes(4) + socket.inet_pton(socket.AF_INET6, "2001:db8::1")


@pytest.mark.parametrize(
    ("structure", "data", "text"),
    [
        ("timespec", struct.pack("=qq", 1, 5), "{ .tv_sec: 1, .tv_nsec: 5 }"),
        ("timeval_pair", struct.pack("=4q", 1, 2, 3, 4), "[{ .tv_sec: 1, .tv_usec: 2 }, { .tv_sec: 3, .tv_usec: 4 }]"),
        ("timespec_pair", struct.pack("=2q", 0, (1 << 30) - 2), "[{ .tv_sec: 0, .tv_nsec: UTIME_OMIT }]"),
        ("sockaddr", b"", ""),
        ("sockaddr", struct.pack("=H", 1), "{ .family: LOCAL }"),
        ("sockaddr", struct.pack("=H", 1) + b"/run/a.sock\0rest", "{ .family: LOCAL, path: /run/a.sock }"),
        ("sockaddr", struct.pack("=H", 1) + b"\0hidden", "{ .family: LOCAL, path: @hidden }"),
        ("sockaddr", struct.pack("=H", 1) + b"a\x1b[2J\nb", "{ .family: LOCAL, path: a\x1b[2J^Jb }"),
        ("sockaddr", struct.pack("=H", 2) + b"\0\x50\x7f\0\0\1", "{ .family: INET, port: 80, addr: 127.0.0.1 }"),
        ("sockaddr", ADDRESS6 + struct.pack("=I", 3), "{ .family: INET6, port: 443, addr: 2001:db8::1, scope_id: 3 }"),
        ("sockaddr", struct.pack("=H", 999), "{ .family: 999 }"),
        ("pollfd", struct.pack("=ihhihh", 3, 1, 0, 4, 5, 4), "[{ .fd: 3, .events: IN }, { .fd: 4, .events: IN|OUT, .revents: OUT }]"),
        ("epoll_event", struct.pack("=IQ", 1 | 1 << 31, 7), "{ .events: IN|ET, .data: 0x7 }"),
        ("iovec", struct.pack("=QQ", 0x10, 2) * 17, f"[{'{ .iov_base: 0x10, .iov_len: 2 }, ' * 16}...]"),
        ("rlimit", struct.pack("=QQ", 1024, (1 << 64) - 1), "{ .rlim_cur: 1024, .rlim_max: INFINITY }"),
        ("descriptor_pair", struct.pack("=ii", 3, 4), "[3, 4]"),
        ("clone_args", struct.pack("=8Q", 0x100, 0, 0, 0, 17, 0, 4096, 0), "{ .flags: VM, .exit_signal: CHLD, .stack_size: 4096 }"),
        ("clone_args", b"123", ""),
        ("sigset", struct.pack("=Q", 0), "[]"),
        ("sigset", struct.pack("=Q", 1 << 1 | 1 << 14 | 1 << 31 | 1 << 63), "[INT TERM RTMIN RT_32]"),
        ("sigset", struct.pack("=Q", (1 << 64) - 1 - (1 << 8)), "~[KILL]"),
        ("sigset", b"1234", ""),
        ("sigaction", struct.pack("=4Q", 0, 0, 0, 0), "{ .sa_handler: DFL, .sa_mask: [], .sa_flags: 0 }"),
        (
            "sigaction",
            struct.pack("=4Q", 0x401000, 0x14000000, 0x7F00, 1 << 1),
            "{ .sa_handler: 0x401000, .sa_mask: [INT], .sa_flags: RESTORER|RESTART, .sa_restorer: 0x7f00 }",
        ),
        (
            "mmsghdr",
            (struct.pack("=QI4xQQQQI4x", 0, 0, 0x20, 2, 0, 0, 0) + struct.pack("=I4x", 5)) * 2,
            f"[{', '.join(['{ .msg_hdr: { .msg_iov: 0x20, .msg_iovlen: 2 }, .msg_len: 5 }'] * 2)}]",
        ),
        ("fd_set", struct.pack("=QQ", 1 | 1 << 5, 1 << 63), "[0 5 127]"),
        ("fd_set", struct.pack("=QQ", (1 << 64) - 1, 1), f"[{' '.join(map(str, range(64)))} ...]"),
        ("fd_set", b"1234", ""),
        ("sigset_pointer", struct.pack("=Q", 1 << 1), "[INT]"),
        ("siginfo", bytes(48), "{}"),
        (
            "siginfo",
            struct.pack("=iii4xiIi20x", 17, 0, 1, 70, 1000, 3),
            "{ .si_signo: CHLD, .si_code: EXITED, .si_pid: 70, .si_uid: 1000, .si_status: 3 }",
        ),
        (
            "siginfo",
            struct.pack("=iii4xiIi20x", 17, 0, 2, 70, 1000, 9),
            "{ .si_signo: CHLD, .si_code: KILLED, .si_pid: 70, .si_uid: 1000, .si_status: KILL }",
        ),
        ("siginfo", struct.pack("=iii4xQ24x", 11, 0, 1, 0x10), "{ .si_signo: SEGV, .si_code: 1, .si_addr: 0x10 }"),
        (
            "siginfo",
            struct.pack("=iii4xiIi20x", 10, 4, -1, 70, 0, 9),
            "{ .si_signo: USR1, .si_errno: 4, .si_code: QUEUE, .si_pid: 70, .si_uid: 0, .si_int: 9 }",
        ),
        ("siginfo", struct.pack("=iii4xiI24x", 14, 0, -2, 1, 2), "{ .si_signo: ALRM, .si_code: TIMER, .si_timerid: 1, .si_overrun: 2 }"),
        ("msghdr", struct.pack("=QI4xQQQQI4x", 0, 0, 0x20, 2, 0, 0, 0), "{ .msg_iov: 0x20, .msg_iovlen: 2 }"),
        (
            "msghdr",
            struct.pack("=QI4xQQQQI4x", 1, 16, 2, 1, 0, 0, 0),
            "{ .msg_name: 0x1, .msg_namelen: 16, .msg_iov: 0x2, .msg_iovlen: 1 }",
        ),
        (
            "msghdr",
            struct.pack("=QI4xQQQQI4x", 0, 16, 0x20, 1, 0x30, 24, 0x20),
            "{ .msg_iov: 0x20, .msg_iovlen: 1, .msg_control: 0x30, .msg_controllen: 24, .msg_flags: TRUNC }",
        ),
        ("open_how", struct.pack("=3Q", 0o2000000, 0, 8), "{ .flags: RDONLY|CLOEXEC, .resolve: 0x8 }"),
    ],
)
def test_structures_are_printed_in_the_form_of_perf(structure, data, text):
    assert structure_text(structure, MACHINE)(data) == text


@pytest.mark.skipif(os.uname().machine != MACHINE, reason="struct stat is that of x86-64")
def test_files_have_their_mode_and_size():
    data = struct.pack("=QQQI12xQQ", 1, 2, 1, 0o100640, 0, 1234) + bytes(8)

    assert structure_text("stat", MACHINE)(data) == "{ .st_mode: IFREG|0640, .st_size: 1234 }"


def test_any_bytes_become_one_line_or_nothing():
    """The bytes are chosen by the traced program, and may be cut."""
    structures = {pointed.structure for name in names_by_number(MACHINE).values() for pointed in structures_of(name, MACHINE)}
    draw = random.Random(5)

    for structure in structures:
        text_of = structure_text(structure, MACHINE)
        texts = [text_of(draw.randbytes(draw.randrange(257))) for _ in range(100)]
        assert not any("\n" in text or "\r" in text for text in texts)


def test_each_row_of_the_table_names_an_argument_and_its_count():
    for machine in ("x86_64", "aarch64", "s390x"):
        pointed = {name: structures_of(name, machine) for name in names_by_number(machine).values()}
        assert pointed["epoll_pwait"][0].length_from == RESULT
        assert pointed["sendto"][0].argument == 4
    assert structures_of("nanosleep", "i686") == ()
