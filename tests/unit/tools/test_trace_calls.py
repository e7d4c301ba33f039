"""`perfpy trace`: system calls, their arguments, strings and stacks as text."""

from __future__ import annotations

import os
import random
import socket
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Columns
from perfpy.abi.system_calls import RESULT, names_by_number, structures_of
from perfpy.tools.trace import call_strings
from perfpy.tools.trace.argument_text import structure_text
from perfpy.tools.trace.call_strings import HEAD, CopiedTexts, WaitingTexts, wanted_calls
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import (
    ENTER,
    EXIT,
    NO_CALL,
    NO_ROW,
    OTHER,
    CallColumns,
    CallEvents,
    FollowedComms,
    GroupedValues,
    Pairing,
    call_events,
)
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile
from perfpy.tools.trace.lines import StackLimits, StackTexts
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from collections.abc import Mapping


# Entries and returns of system calls are paired by thread, also across batches.


EXIT_GROUP = 231


def pairing() -> Pairing:
    return Pairing(np.array([EXIT_GROUP]))


def test_a_return_finds_the_entry_of_its_thread():
    events = CallEventList().enter(1, 0).enter(2, 1).exit(1, 0).exit(2, 1).events()

    assert pairing().pair(events).entry.tolist() == [NO_ROW, NO_ROW, 0, 1]


def test_the_next_entry_of_any_thread_interrupts_an_entry():
    events = CallEventList().enter(1, 0).enter(2, 1).exit(1, 0).exit(2, 1).events()

    assert pairing().pair(events).interrupter.tolist() == [1, NO_ROW, NO_ROW, NO_ROW]


def test_a_return_before_the_next_entry_leaves_an_entry_whole():
    paired = pairing().pair(CallEventList().call(1, 0).call(2, 1).events())

    assert not paired.was_interrupted.any()


def test_another_event_interrupts_an_entry():
    events = CallEventList().enter(1, 0).other(1).exit(1, 0).events()

    assert pairing().pair(events).interrupter.tolist() == [1, NO_ROW, NO_ROW]


def test_a_return_without_entry_has_none():
    assert pairing().pair(CallEventList().exit(1, 0).events()).entry.tolist() == [NO_ROW]


def test_an_entry_waits_for_its_return_in_the_next_batch():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, 0, 7).events())

    paired = pairs.pair(calls.exit(1, 0).events())

    assert (paired.carried, paired.entry.tolist(), paired.events.arguments[0, 0]) == (1, [NO_ROW, 0], 7)


def test_an_entry_of_the_last_batch_is_interrupted_once():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, 0).events())

    second = pairs.pair(calls.call(2, 1).events())
    third = pairs.pair(calls.call(2, 1).exit(1, 0).events())

    assert second.interrupter.tolist() == [1, NO_ROW, NO_ROW]
    assert third.interrupter.tolist() == [NO_ROW] * 4
    assert third.was_interrupted.tolist() == [True, False, False, False]


def test_a_call_that_does_not_return_is_not_kept():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, EXIT_GROUP).events())

    assert pairs.pair(calls.exit(1, 0).events()).carried == 0


def test_batches_of_any_size_give_the_same_pairs():
    calls = CallEventList()
    for number in range(60):
        calls.enter(number % 7, number)
        calls.exit((number * 3) % 7, number)
    events = calls.events()
    whole = pairing().pair(events)

    for size in (1, 2, 5, 13):
        pairs, durations, interrupted = pairing(), [], 0
        for start in range(0, events.size, size):
            paired = pairs.pair(events.take(slice(start, start + size)))
            rows = np.flatnonzero(paired.entry != NO_ROW)
            durations += (paired.events.time[rows] - paired.events.time[paired.entry[rows]]).tolist()
            interrupted += int(np.count_nonzero(paired.interrupter != NO_ROW))
        rows = np.flatnonzero(whole.entry != NO_ROW)
        assert durations == (events.time[rows] - events.time[whole.entry[rows]]).tolist()
        assert interrupted == np.count_nonzero(whole.interrupter != NO_ROW)


# Tests of samples of system calls as columns.


def test_samples_without_a_thread_are_of_none() -> None:
    """Damaged attributes may leave an instruction's address alone."""
    columns = CallColumns({}, "<").extend(Columns(2, {"ip": np.array([1, 2], np.uint64)}), np.zeros(2, np.int32), np.zeros(2, np.uint64))
    events = call_events(columns, np.zeros(2, np.uint64))
    assert (events.tid.tolist(), events.pid.tolist(), events.cpu.tolist()) == ([-1, -1],) * 3
    assert (events.kind.tolist(), events.number.tolist()) == ([OTHER] * 2, [NO_CALL] * 2)


# Comms of threads are followed over time.


def comms_of(names: FollowedComms, *rows: tuple[int, int]) -> list[str]:
    tids, keys = zip(*rows, strict=True)
    return [names.comms[number] for number in names.comm_ids(np.array(tids, np.int32), np.array(keys, np.uint64)).tolist()]


def test_a_comm_holds_from_its_key_on():
    names = FollowedComms()
    names.name(1, "sh")
    names.name(1, "ls", key=100)

    assert comms_of(names, (1, 99), (1, 100), (1, 101)) == ["sh", "ls", "ls"]


def test_a_new_thread_has_the_comm_of_its_parent():
    names = FollowedComms()
    names.name(1, "sh")
    names.fork(1, 2, key=10)

    assert comms_of(names, (2, 11)) == ["sh"]


def test_a_thread_loses_its_comm_at_its_end():
    names = FollowedComms()
    names.name(1, "sh")
    names.end(1, key=10)

    assert comms_of(names, (1, 9), (1, 10)) == ["sh", ":1"]


def test_the_comm_of_an_unknown_thread_is_read_once():
    tids_read: list[int] = []

    def read_comm(tid: int) -> str:
        tids_read.append(tid)
        return "cat"

    names = FollowedComms(read_comm)

    assert comms_of(names, (7, 1), (7, 2), (7, 3)) == ["cat"] * 3
    assert tids_read == [7]


def test_changes_are_forgotten_with_their_batch():
    names = FollowedComms()
    names.name(1, "sh", key=10)
    names.begin_batch()

    assert comms_of(names, (1, 5)) == ["sh"]


def test_many_threads_that_change_are_as_quick_as_one():
    names = FollowedComms()
    names.name(1, "init")
    for tid in range(2, 3000):
        names.fork(1, tid, key=tid)
        names.name(tid, "sh", key=tid + 5)
    rows = [(tid, tid + 4 + tid % 2) for tid in range(2, 3000)]

    assert comms_of(names, *rows) == [("init", "sh")[tid % 2] for tid in range(2, 3000)]


# Places of values within groups, beside a search of each group alone.


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_are_those_of_each_group_alone(side):
    random = np.random.default_rng(1)
    groups, values = random.integers(0, 20, 500) * 7, random.integers(0, 50, 500)
    wanted_groups, wanted = random.integers(-1, 25, 400) * 7, random.integers(-5, 60, 400)
    grouped = GroupedValues(groups, values)
    found = grouped.find(wanted_groups, wanted, side)

    for index, (group, value) in enumerate(zip(wanted_groups.tolist(), wanted.tolist(), strict=True)):
        own = np.sort(values[groups == group])
        begin, end, position = int(found.begin[index]), int(found.end[index]), int(found.position[index])
        assert end - begin == len(own)
        if len(own):
            assert values[grouped.order[begin:end]].tolist() == own.tolist()
            assert position - begin == np.searchsorted(own, value, side)


def test_equal_values_keep_their_order_and_large_keys_are_exact():
    keys = np.array([2**63 + 1, 2**63, 2**63 + 1], np.uint64)
    grouped = GroupedValues(np.array([4, 4, 4]), keys)

    assert grouped.order.tolist() == [1, 0, 2]
    assert grouped.find(np.array([4]), keys[:1]).position.tolist() == [1]


def test_nothing_is_found_among_no_values():
    found = GroupedValues(np.zeros(0, np.int64), np.zeros(0, np.int64)).find(np.array([1]), np.array([1]))

    assert (found.begin.tolist(), found.end.tolist()) == ([0], [0])


# Structures that arguments of system calls point to, as text.


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


# System calls as text, beside perf's text of the same calls (trace_calls.tsv, made by perf 7.3 from a synthetic recording).


CASES = [line.split("\t") for line in (Path(__file__).with_name("trace_calls.tsv")).read_text().splitlines()[1:]]


def texts_of(
    *calls: tuple[int, tuple[int, ...], int],
    machine: str = "x86_64",
    strings: Mapping[int, Mapping[int, str]] | None = None,
    is_recorded: bool = True,
) -> tuple[list[str], list[str]]:
    """Return the texts of calls of the thread 500 (prog), and those of their results."""
    names, events, texts = FollowedComms(), CallEventList(), CallTexts(machine, is_recorded=is_recorded)
    names.name(500, "prog")
    for number, arguments, result in calls:
        events.call(500, number, *arguments, result=result)
    paired = Pairing(np.zeros(0, np.int64)).pair(events.events())
    texts.strings = strings or {}
    entries, exits = (np.flatnonzero(paired.events.kind == kind) for kind in (ENTER, EXIT))
    return texts.texts(paired.events, entries, names), texts.results(paired, exits, names)


def test_all_calls_are_perfs_text():
    calls = [(int(number), tuple(int(word, 16) for word in arguments.split(",")), 0) for number, arguments, _ in CASES]

    texts, _ = texts_of(*calls)

    assert texts == [text for _, _, text in CASES]


@pytest.mark.parametrize(
    ("is_recorded", "texts", "results"),
    [
        (False, ["fcntl(fd: 3, cmd: SETFD, arg: CLOEXEC)", "fcntl(fd: 3, cmd: GETFD)"], ["0", "CLOEXEC"]),
        (True, ["fcntl(fd: 3, cmd: SETFD, arg: 0)", "fcntl(fd: 3, cmd: GETFD)"], ["0", "0"]),
    ],
)
def test_only_recordings_have_perfs_wrong_text_of_the_descriptor_flag(is_recorded, texts, results):
    calls = ((72, (3, 2, 1), 0), (72, (3, 1), 1))

    assert texts_of(*calls, is_recorded=is_recorded) == (texts, results)


@pytest.mark.parametrize(
    ("number", "arguments", "text"),
    [
        (20, (5, 0x10, 1), "writev(fd: 5</file>, vec: 0x10, vlen: 1)"),
        (32, (5,), "dup(fildes: 5</file>)"),
        (9, (0, 4096, 1, 2, 5, 0), "mmap(len: 4096, prot: READ, flags: PRIVATE, fd: 5</file>)"),
        (275, (5, 0, 6, 0, 1, 0), "splice(fd_in: 5</file>, fd_out: 6, len: 1)"),
        (20, (1 << 32, 0x10, 1), "writev(fd: 4294967296, vec: 0x10, vlen: 1)"),
    ],
)
def test_descriptors_that_tracepoints_declare_as_long_have_names(number, arguments, text):
    names, events, texts = FollowedComms(), CallEventList().call(500, number, *arguments).events(), CallTexts("x86_64")
    followed = Descriptors("x86_64")
    followed.add_process(500, DescriptorTable({5: OpenFile("/file")}))
    texts.descriptors = followed.names_at(events)

    assert texts.texts(events, np.array([0]), names) == [text]


@pytest.mark.parametrize(
    ("number", "arguments", "result", "text"),
    [
        (0, (), 139638264181572, "139638264181572"),
        (0, (), -2, "-1 ENOENT (No such file or directory)"),
        (0, (), -4096, "-4096"),
        (9, (), 0x7F0011223344, "0x7f0011223344"),
        (12, (), 0, "0"),
        (7, (), 0, "0 (Timeout)"),
        (61, (), 500, "500 (prog)"),
        (61, (), 7, "7"),
        (110, (), 2**31, "2147483648"),
        (72, (3, 3), 0x8002, "RDWR|LARGEFILE"),
        (72, (3, 1025), 1, "WRLCK"),
    ],
)
def test_results(number, arguments, result, text):
    assert texts_of((number, arguments, result))[1] == [text]


def test_a_known_string_stands_for_its_address():
    (text,), _ = texts_of((257, (0xFFFFFF9C, 0x1000), 3), strings={0: {1: "/etc/passwd"}})

    assert text == 'openat(dfd: CWD, filename: "/etc/passwd")'


def test_a_string_cannot_break_its_line():
    (text,), _ = texts_of((257, (0xFFFFFF9C, 0x1000), 3), strings={0: {1: "a\nb\x1b[2J"}})

    assert "\n" not in text


def test_an_unknown_call_has_its_number_and_six_arguments():
    (text,), _ = texts_of((5000, (1, 0, 3), 0))

    assert text == "syscall_5000(arg0: 1, arg2: 3)"


def test_open_flags_have_the_values_of_the_machine():
    (arm,), _ = texts_of((56, (0xFFFFFF9C, 0x1000, 0x4000), 3), machine="aarch64")
    (x86,), _ = texts_of((257, (0xFFFFFF9C, 0x1000, 0x4000), 3))

    assert "RDONLY|DIRECTORY" in arm
    assert "RDONLY|DIRECT)" in x86


# Each copied string or structure is matched with its call; those without a call yet take bounded memory.


OPENAT, STAT = 257, 4
DISCARDED = 1 << 30


def ring(*texts: tuple[int, int, int, int, int, bytes], flags: int = 0) -> bytes:
    """Return records of a ring buffer: time, thread, number, argument, whether at return, data."""
    records = [HEAD.pack(time, tid, tid, *rest) + data for time, tid, *rest, data in texts]
    return b"".join(struct.pack("=II", len(one) | flags, 0) + one + bytes(-len(one) % 8) for one in records)


def events(*rows: tuple[int, int, int, int]) -> CallEvents:
    """Return events: time, thread, kind, number."""
    times, tids, kinds, numbers = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    columns: list[Any] = [kinds.astype(np.uint8), tids.astype(np.int32), tids.astype(np.int32), np.zeros(count, np.int32)]
    columns += [times.astype(np.int64), times.astype(np.uint64), numbers.astype(np.int64), np.zeros((count, 6), np.uint64)]
    columns += [np.zeros(count, np.int64), np.arange(count)]
    return CallEvents(*columns)


def test_records_become_columns_and_their_own_bytes_again():
    data = ring((10, 7, OPENAT, 1, 0, b"/etc/passwd\0")) + ring((11, 7, 0, 0, 0, b"x"), flags=DISCARDED)
    data += ring((2**40, 2**22, 299, 5, 1, b"")) + struct.pack("=II8x", 8, 0)  # too short for a head
    texts = CopiedTexts.decode(data)

    assert (texts.size, texts.time.tolist(), texts.tid.tolist()) == (2, [10, 2**40], [7, 2**22])
    assert (texts.number.tolist(), texts.argument.tolist(), texts.at_return.tolist()) == ([OPENAT, 299], [1, 5], [0, 1])
    assert list(texts.pieces()) == [(OPENAT, 1, b"/etc/passwd\0"), (299, 5, b"")]
    assert CopiedTexts.decode(b"").size == 0


def test_a_text_belongs_to_the_next_entry_of_its_thread_or_at_the_return_to_the_last_one():
    waiting = WaitingTexts("x86_64")
    waiting.add(
        ring(
            (9, 7, OPENAT, 1, 0, b"a\0"),
            (10, 8, OPENAT, 1, 0, b"b\0rest"),
            (29, 7, OPENAT, 1, 1, b"late\0"),  # unreadable at the entry of row 3
            (35, 7, OPENAT, 1, 0, b"other call\0"),
            (40, 9, OPENAT, 1, 0, b"no entry\0"),
            (90, 7, OPENAT, 1, 0, b"next batch\0"),
        )
    )
    batch = events(
        (10, 7, ENTER, OPENAT),
        (11, 8, ENTER, OPENAT),
        (20, 7, EXIT, OPENAT),
        (25, 7, ENTER, OPENAT),
        (30, 7, EXIT, OPENAT),
        (36, 7, ENTER, 3),
    )

    assert waiting.of(batch) == {0: {1: "a"}, 1: {1: "b"}, 3: {1: "late"}}
    assert waiting.of(events((91, 7, ENTER, OPENAT))) == {0: {1: "next batch"}}
    assert waiting.of(events((99, 7, ENTER, OPENAT))) == {}


def test_waiting_texts_are_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_strings, "_MOST_BYTES", 1000)
    waiting = WaitingTexts("x86_64")
    for time in range(10):
        waiting.add(ring((time, 7, OPENAT, 1, 0, b"x" * 400)))
    assert [texts.time.tolist() for texts in waiting._waiting] == [[8], [9]]


def test_only_strings_of_calls_that_count_are_copied():
    assert {OPENAT, STAT} <= set(wanted_calls("x86_64"))
    assert set(wanted_calls("x86_64", frozenset((OPENAT, 39)))) == {OPENAT}


# Callchains below the lines of `perfpy trace`.


@pytest.mark.parametrize(("least", "is_deep"), [(0, True), (1, False)])
def test_a_batch_of_events_without_callchains_has_none(least: int, is_deep: bool) -> None:
    """Another event of the recording has them."""
    source = SimpleNamespace(has=lambda bit: True)
    texts = StackTexts(source, StackLimits(most=127, least=least, has_kernel=True))
    texts._symbolizer = SimpleNamespace()  # type: ignore[assignment]
    texts.begin_batch(SimpleNamespace(columns=Columns(3, {"pid": np.zeros(3, np.int32)})))  # type: ignore[arg-type]
    stacks, deep = texts.stacks(np.array([0, 2]), are_calls=True)
    assert (stacks.tolist(), deep.tolist()) == ([b"", b""], [is_deep] * 2)
