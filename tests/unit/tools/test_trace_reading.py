"""`perfpy trace`: the records in order, the files of descriptors, and totals."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import SoftwareId
from perfpy.abi.system_calls import numbers_by_name
from perfpy.cli import run
from perfpy.tools.trace import call_sums, descriptors, record_queue
from perfpy.tools.trace import descriptors as module
from perfpy.tools.trace import record_queue as waiting_files
from perfpy.tools.trace.call_sums import PATH, PEER, CallTotals, NamedTotals, ThreadRows, Totals
from perfpy.tools.trace.calls import ENTER, EXIT, CallEvents, PairedEvents, Pairing
from perfpy.tools.trace.descriptors import (
    RULES,
    Call,
    DescriptorNames,
    Descriptors,
    DescriptorTable,
    NameChanges,
    NameIds,
    OpenFile,
    peer_address,
)
from perfpy.tools.trace.record_queue import DrainingThread, ReadRecords, RecordQueue, WaitingFiles
from tests.builders.call_events import CallEventList
from tests.builders.traced import traced_recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


# The tables of descriptors are bounded: a user may have a million descriptors, and as many processes with copies of them.


CLOSE, EPOLL_CREATE, CLOSE_RANGE = 3, 213, 436  # of x86-64
OTHER_FILES = ["/etc/passwd", "pipe:[7]", "socket:[7]", "anon_inode:[timerfd]", ""]


def table(count: int) -> DescriptorTable:
    return DescriptorTable({number: OpenFile(f"/file{number}") for number in range(count)})


def test_tables_of_children_are_dropped_if_all_together_are_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_FILES", 1000)
    followed = Descriptors("x86_64")
    followed.add_process(1, table(300))
    for child in range(2, 50):
        followed.fork(child - 1, child)
    assert list(followed._tables) == [47, 48, 49]
    assert followed._count == sum(len(one.files) for one in followed._tables.values()) == 900


def test_descriptors_are_counted_when_they_close(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_FILES", 1000)
    followed = Descriptors("x86_64")
    followed.add_process(1, table(300))
    followed.add_process(1, table(200))
    followed.table(1).files[5] = OpenFile("/file5", closes_on_exec=True)
    followed.execute(1, 0)
    assert followed._count == 199
    followed.forget([1, 2])
    assert followed._count == 0


def test_both_ends_of_a_pipe_have_its_number_whatever_is_at_these_descriptors_now():
    followed = Descriptors("x86_64", read_name=lambda _pid, _number: "pipe:[7]")
    for pair in ("[3, 4]", "[5, 6]"):
        RULES["pipe2"](followed, Call(0, 1, 1, (0x7F00, 0o2000000), 0, {0: pair}))

    names = {number: file.name for number, file in followed.table(1).files.items()}
    assert names == {3: "pipe:#1", 4: "pipe:#1", 5: "pipe:#2", 6: "pipe:#2"}


@pytest.mark.parametrize(
    ("call", "arguments", "texts", "name"),
    [
        ("openat", (-100, 1, 0o20200002, 0o600), {1: "/tmp"}, "/tmp/(O_TMPFILE)"),
        ("openat", (-100, 1, 0o200000, 0), {1: "/tmp"}, "/tmp"),
        ("open", (1, 0o20200002, 0o600), {}, ""),
        ("memfd_create", (1, 1), {0: "name"}, "/memfd:name (deleted)"),
        ("memfd_create", (1, 1), {}, "memfd"),
    ],
)
def test_files_without_a_name_are_not_called_like_their_folder(call, arguments, texts, name):
    followed = Descriptors("x86_64")
    words = tuple(argument & (1 << 64) - 1 for argument in arguments)
    RULES[call](followed, Call(0, 1, 1, words, 3, texts))

    assert followed.table(1).files[3].name == name
    assert followed.table(1).files[3].closes_on_exec == (call == "memfd_create")


@pytest.mark.parametrize(("present", "name"), [("anon_inode:kvm-vcpu:0", "anon_inode:kvm-vcpu:0")] + [(text, "") for text in OTHER_FILES])
def test_a_descriptor_of_no_followed_call_has_no_name_that_a_followed_call_can_give(present, name):
    followed = Descriptors("x86_64", read_name=lambda _pid, _number: present)
    names = DescriptorNames(np.array([1]), np.array([5], np.uint64), {}, followed._changes, followed._read_name)

    assert names.names(np.array([0]), np.array([3])) == [name]


def test_a_relative_path_begins_with_the_folder_at_its_moment():
    followed = Descriptors("x86_64")
    followed.add_process(1, DescriptorTable(folder="/first"))
    RULES["chdir"](followed, Call(10, 1, 1, (1,), 0, {0: "second"}))
    names = DescriptorNames(np.array([1, 1]), np.array([5, 15], np.uint64), followed._tables, followed._changes)

    assert [names.path(row, -100, "file") for row in (0, 1)] == ["/first/file", "/first/second/file"]


def test_a_pipe_whose_descriptors_are_unreadable_has_no_name():
    followed = Descriptors("x86_64")
    RULES["socketpair"](followed, Call(0, 1, 1, (1, 1, 0, 0x7F00), 0, {}))

    assert followed.table(1).files == {}


class Threads:
    """Two threads of one process that begins with a file at descriptor 3."""

    def __init__(self) -> None:
        self._pairing = Pairing(np.zeros(0, np.int64))
        self._followed = Descriptors("x86_64")
        self._followed.add_process(1, DescriptorTable({3: OpenFile("/old")}))

    def names(self, calls: CallEventList) -> list[str]:
        """Return the name of descriptor 3 at each event of a batch, after the entries of earlier batches."""
        events = calls.events()
        paired = self._pairing.pair(events._replace(pid=np.ones_like(events.pid)))
        self._followed.follow(paired, {})
        rows = np.arange(paired.events.size)
        return self._followed.names_at(paired.events).names(rows, np.full(len(rows), 3))


@pytest.mark.parametrize("closing", [(CLOSE, 3), (CLOSE_RANGE, 3, 10, 0)])
def test_a_file_that_another_thread_opens_during_a_close_keeps_its_name(closing: tuple[int, ...]):
    calls = CallEventList().enter(1, *closing).enter(2, EPOLL_CREATE, 1).exit(2, EPOLL_CREATE, result=3).exit(1, closing[0]).other(1)

    assert Threads().names(calls) == ["/old", "", "", "anon_inode:[eventpoll]", "anon_inode:[eventpoll]"]


def test_a_closed_descriptor_has_no_name_in_this_batch_and_the_next():
    threads, calls = Threads(), CallEventList()

    assert threads.names(calls.enter(1, CLOSE, 3).other(2)) == ["/old", ""]
    assert threads.names(calls.call(2, EPOLL_CREATE, 1, result=3).exit(1, CLOSE).other(1))[-1] == "anon_inode:[eventpoll]"


# Names of descriptors at the moments of events.


def names_of(changes: NameChanges, rows: list[tuple[int, int, int]], tables: dict[int, DescriptorTable]) -> list[str]:
    """Return the names of (process, descriptor, key)."""
    pids, numbers, keys = (np.array(column) for column in zip(*rows, strict=True))
    names = DescriptorNames(
        pids.astype(np.int32), keys.astype(np.uint64), tables, changes, lambda pid, number: f"anon_inode:{pid * number}"
    )
    return names.names(np.arange(len(rows)), numbers.astype(np.int32))


def test_a_name_holds_until_the_return_that_changes_it():
    changes = NameChanges(NameIds())
    changes.note(7, 3, 10, "", "/a")
    changes.note(7, 4, 15, "/x", "")
    changes.note(7, 3, 20, "/a", "")
    changes.note(7, 3, 30, "", "/b")

    keys = (5, 10, 11, 20, 21, 30, 31)
    assert names_of(changes, [(7, 3, key) for key in keys], {}) == ["", "", "/a", "/a", "", "", "/b"]
    assert names_of(changes, [(7, 4, 15), (7, 4, 16), (8, 4, 16)], {}) == ["/x", "", "anon_inode:32"]


def test_unchanged_descriptors_have_the_name_in_their_table_or_their_present_one():
    tables = {7: DescriptorTable({0: OpenFile("/dev/null"), 5: OpenFile("/f")})}
    rows = [(7, 0, 1), (7, 5, 1), (7, 6, 1), (9, 0, 1), (7, -100, 1)]

    assert names_of(NameChanges(NameIds()), rows, tables) == ["/dev/null", "/f", "anon_inode:42", "anon_inode:0", ""]


def test_many_changes_of_one_descriptor_are_found_without_a_walk_over_all():
    changes = NameChanges(NameIds())
    for key in range(1, 20_000):
        changes.note(7, 3, key, "/a" if key & 1 else "/b", "/b" if key & 1 else "/a")
    rows = [(7, 3, key) for key in range(1, 20_000)]

    assert names_of(changes, rows, {}) == [("/a", "/b")[key + 1 & 1] for key in range(1, 20_000)]


def test_a_number_never_gets_another_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(descriptors, "_MOST_NAMES", 3)
    ids = NameIds()
    first = [ids.id(name) for name in ("", "/a", "/b", "/a", "/c", "/d")]
    assert first == [0, 1, 2, 1, 3, 4]
    ids.limit()
    assert [ids.id(name) for name in ("/d", "")] == [5, 0]
    assert ids.name(5) == "/d"


# Records that wait to be printed: compressed, in their order, bounded in memory, and on disk beyond that.


def pieces(count: int) -> list[ReadRecords]:
    made = random.Random(7)
    return [ReadRecords(made.randbytes(made.randrange(3000)), bytes(made.randrange(900)), number) for number in range(count)]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[WaitingFiles]:
    files = WaitingFiles((str(tmp_path),))
    yield files
    files.close()


def is_full(queue: RecordQueue) -> bool:
    """Return the property anew, which mypy takes for a constant."""
    return queue.is_full


def test_records_come_out_as_they_went_in():
    read = [ReadRecords(b"first" * 100, b"", 0), ReadRecords(b"second" * 1000, b"text" * 9, 1), ReadRecords(b"", b"", 2), *pieces(5)]
    queue = RecordQueue()
    for one in read:
        queue.append(one)

    assert len(queue) == 8
    assert [queue.pop() for _ in read] == read
    assert (queue._kept, queue._waiting, queue.taken) == (0, 0, 8)


def test_short_readings_are_taken_together():
    queue = RecordQueue()
    for number in range(5):
        queue.append(ReadRecords(b"%d" % number * 100, b"t%d" % number, number))

    assert queue.pop_some(250) == ReadRecords(b"0" * 100 + b"1" * 100, b"t0t1", 1)
    assert queue.pop_some(1) == ReadRecords(b"2" * 100, b"t2", 2)
    assert queue.pop_some(1 << 20).until == 4


def test_records_beyond_the_memory_wait_on_disk_in_their_order(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles, tmp_path: Path):
    monkeypatch.setattr(record_queue, "_MOST_KEPT", 10_000)
    monkeypatch.setattr(waiting_files, "_FILE_SIZE", 20_000)
    queue, read = RecordQueue(files), pieces(120)
    for one in read[:80]:
        queue.append(one)
    assert queue._kept <= 10_000
    assert len(files._files) > 2
    taken = [queue.pop() for _ in range(40)]
    for one in read[80:]:
        queue.append(one)
        taken.append(queue.pop())

    assert taken + [queue.pop() for _ in range(40)] == read
    assert (queue._kept, queue._waiting, files.size, len(files._files)) == (0, 0, 0, 0)
    assert not list(tmp_path.iterdir())
    assert not queue.is_full


@pytest.mark.parametrize("limit", ["no folder", "the limit", "a full disk"])
def test_without_room_on_disk_the_queue_is_full(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles, limit: str):
    monkeypatch.setattr(record_queue, "_MOST_KEPT", 10_000)
    if limit == "no folder":
        files._folders = ("/proc/none", "")
    elif limit == "the limit":
        monkeypatch.setattr(waiting_files, "_MOST", 20_000)
    else:
        monkeypatch.setattr(os, "pwrite", lambda _fd, data, _offset: len(data) // 2)
    queue, read = RecordQueue(files), list[ReadRecords]()
    while not is_full(queue):
        read.append(ReadRecords(os.urandom(3000), b"", len(read)))
        queue.append(read[-1])

    assert len(read) == (10 if limit == "the limit" else 4)
    assert queue.was_full
    assert [queue.pop() for _ in read] == read
    assert not is_full(queue)
    assert queue.was_full


def test_the_files_take_a_share_of_the_free_space_only(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles):
    monkeypatch.setattr(waiting_files, "_SHARE", 1 << 60)
    assert files.append(b"x") is None
    files.close()
    monkeypatch.setattr(waiting_files, "_SHARE", 4)
    assert files.append(b"x") is not None


def test_a_queue_is_full_if_printing_would_take_too_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_queue, "_MOST_WAITING", 1_000_000)
    queue = RecordQueue()
    queue.append(ReadRecords(b"", b"", 0))
    queue.append(ReadRecords(b"x" * 1_100_000, b"", 1))
    assert is_full(queue)


# The thread that empties ring buffers: while it is resumed, and with errors for the other thread.


def wait_for(reached: threading.Event) -> None:
    assert reached.wait(10)


def test_it_reads_only_while_it_is_resumed() -> None:
    threads: list[int] = []
    reached = threading.Event()

    def read() -> float:
        threads.append(threading.get_native_id())
        reached.set()
        return 0.0

    with DrainingThread(read) as thread:
        time.sleep(0.06)
        assert not threads
        thread.resume()
        wait_for(reached)
        thread.pause()
        time.sleep(0.04)
        count = len(threads)
        time.sleep(0.06)
        assert len(threads) == count
        reached.clear()
        thread.resume()
        wait_for(reached)
    assert threading.get_native_id() not in threads


def test_it_reads_on_in_a_pause_while_the_ring_buffers_are_busy() -> None:
    fullness = [0.5]
    reached = threading.Event()

    def read() -> float:
        reached.set()
        return fullness[0]

    with DrainingThread(read) as thread:
        thread.resume()
        for _ in range(2):
            reached.clear()
            wait_for(reached)
            thread.pause()
        assert not thread._paused.is_set()
        fullness[0] = 0.0
        reached.clear()
        wait_for(reached)
        while thread._fullness:
            time.sleep(0.001)
        thread.pause()
        assert thread._paused.is_set()


def test_an_error_of_a_reading_is_raised_by_the_other_thread() -> None:
    failed = threading.Event()

    def read() -> float:
        failed.set()
        raise OSError("gone")

    with DrainingThread(read) as thread:
        thread.resume()
        wait_for(failed)
        thread._thread.join(10)
        with pytest.raises(OSError, match="gone"):
            thread.pause()


def test_full_ring_buffers_raise_the_priority_of_the_printing_thread_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    priorities: list[tuple[int, int]] = []
    monkeypatch.setattr(record_queue, "_set_priority", lambda thread, priority: priorities.append((thread, priority)))
    monkeypatch.setattr(record_queue, "_LONG", 0.0)
    fullness = iter((0.05, 0.9, 0.8, 0.05))
    done = threading.Event()

    def read() -> float:
        number = next(fullness, None)
        if number is None:
            done.set()
            return 0.0
        return number

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with DrainingThread(read) as thread:
        thread.resume()
        wait_for(done)
    own = threading.get_native_id()
    assert [priority for number, priority in priorities if number == own] == [-20, usual]


# Calls, errors and times are added up by thread and call.


def totals_of(calls: CallEventList, *, batch: int = 1000) -> Totals:
    totals, pairs, events = Totals(), Pairing(np.zeros(0, np.int64)), calls.events()
    for start in range(0, events.size, batch):
        totals.add(pairs.pair(events.take(slice(start, start + batch))))
    return totals


def durations(*times: int, result: int = 0) -> CallEventList:
    calls = CallEventList()
    for moment in times:
        calls.enter(1, 0).exit(1, 0, result, after=moment)
    return calls


def test_times_of_a_call_are_added():
    (call,) = totals_of(durations(1000, 3000)).by_thread()[1]

    assert (call.calls, call.total, call.least, call.most, call.mean) == (2, 4000, 1000, 3000, 2000)


def test_calls_with_equal_times_are_in_the_order_of_their_numbers():
    totals, pairs = Totals(), Pairing(np.zeros(0, np.int64))
    for number in (9, 3, 7):  # in batches of their own, which number them in this order
        totals.add(pairs.pair(CallEventList().enter(1, number).exit(1, number, 0, after=1000).events()))

    assert totals.thread_rows().number.tolist() == [3, 7, 9]
    assert [call.number for call in totals.by_thread()[1]] == [call.number for call in totals.of_all()] == [3, 7, 9]


def test_the_relative_error_is_that_of_the_mean():
    totals = totals_of(durations(1000, 3000))

    for rows in (totals.thread_rows(), ThreadRows.of_all_threads(totals.of_all())):
        assert rows.relative_errors().tolist() == pytest.approx([50.0])


def test_single_calls_and_calls_without_time_have_no_relative_error():
    for calls in (durations(1000), durations(0, 0)):
        assert totals_of(calls).thread_rows().relative_errors().tolist() == [0]


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
def test_batches_of_any_size_give_the_same_sums(batch):
    times = [100 * (number * 37 % 101 + 1) for number in range(50)]
    (call,) = totals_of(durations(*times), batch=batch).by_thread()[1]

    assert (call.calls, call.total) == (50, sum(times))
    assert call.squares == pytest.approx(np.var(times) * 50)


def test_negative_error_numbers_are_errors():
    (call,) = totals_of(durations(1000, 1000, result=-2)).by_thread()[1]

    assert (call.errors, call.errnos) == (2, {2: 2})


def test_large_negative_results_are_no_errors():
    (call,) = totals_of(durations(1000, result=-4096)).by_thread()[1]

    assert call.errors == 0


def test_a_return_without_entry_counts_with_no_time():
    (call,) = totals_of(CallEventList().exit(1, 59)).by_thread()[1]

    assert (call.number, call.calls, call.total) == (59, 1, 0)


def test_calls_of_all_threads_are_added():
    calls = CallEventList().call(1, 0).call(2, 0).call(2, 1)

    assert [(call.number, call.calls) for call in sorted(totals_of(calls).of_all(), key=lambda call: call.number)] == [(0, 2), (1, 1)]


def test_percentiles_are_within_three_percent():
    times = np.random.default_rng(1).lognormal(10, 2, 2000).astype(int) + 1
    (call,) = totals_of(durations(*times.tolist())).by_thread()[1]

    for share in (0.5, 0.9, 0.99):
        assert call.percentile(share) == pytest.approx(np.quantile(times, share, method="inverted_cdf"), rel=0.03)


def test_sums_of_two_parts_equal_the_whole():
    one, two = (totals_of(durations(*times)).by_thread()[1][0] for times in ((100, 200, 900), (50, 4000)))
    whole = totals_of(durations(100, 200, 900, 50, 4000)).by_thread()[1][0]
    joined: CallTotals = one.plus(two)

    assert joined._replace(squares=0.0) == whole._replace(squares=0.0)
    assert joined.squares == pytest.approx(whole.squares)


# Calls added up by file and by peer.


NUMBERS = numbers_by_name("x86_64")
SERVER = "{ .family: INET, port: 80, addr: 10.0.0.1 }"


def paired(calls: Sequence[tuple[str, tuple[int, ...], int]]) -> PairedEvents:
    """Return calls of process 1, one after the other: name, arguments, result. Each takes 10 ns."""
    count = 2 * len(calls)
    arguments = np.zeros((count, 6), np.uint64)
    for index, (_, values, _) in enumerate(calls):
        arguments[2 * index, : len(values)] = np.array(values, np.int64).view(np.uint64)
    ones = np.ones(count, np.int32)
    events = CallEvents(
        kind=np.tile(np.array([ENTER, EXIT], np.uint8), len(calls)),
        tid=ones,
        pid=ones,
        cpu=ones,
        time=10 * np.arange(1, count + 1),
        key=np.arange(1, count + 1).astype(np.uint64),
        number=np.repeat([NUMBERS[name] for name, _, _ in calls], 2),
        arguments=arguments,
        result=np.repeat([result for _, _, result in calls], 2),
        row=np.arange(count),
    )
    return Pairing(np.zeros(0, np.int64)).pair(events)


def totals_table(
    kind: str, calls: Sequence[tuple[str, tuple[int, ...], int]], texts: dict[int, dict[int, str]]
) -> dict[str, tuple[int, int, int]]:
    """Return name -> calls, errors, bytes."""
    sums, batch, descriptors = NamedTotals(kind, "x86_64"), paired(calls), Descriptors("x86_64")
    descriptors.add_process(1, DescriptorTable({0: OpenFile("/dev/null"), 7: OpenFile("socket:[99]")}, "/home"))
    descriptors.follow(batch, texts)
    sums.add(batch, texts, descriptors.names_at(batch.events))
    return {sums.names[call.number]: (call.calls, call.errors, sums.bytes[call.number]) for call in sums.totals.of_all()}


def test_files_come_from_paths_and_descriptors():
    calls = [("openat", (-100, 1, 0), 3), ("read", (3,), 100), ("read", (3,), -5), ("read", (0,), 0), ("getpid", (), 1)]
    texts = {0: {1: "notes"}}

    assert totals_table(PATH, calls, texts) == {"/home/notes": (3, 1, 100), "/dev/null": (1, 0, 0)}


def test_a_call_whose_path_is_unknown_has_no_file():
    """Without permission for BPF programs; the current folder would be an invention. "" is the folder itself (AT_EMPTY_PATH)."""
    calls = [("openat", (-100, 1, 0), 3), ("newfstatat", (-100, 1, 0), 0)]

    assert totals_table(PATH, calls, {2: {1: ""}}) == {"/home": (1, 0, 0)}


def test_peers_come_from_connections_and_addresses():
    calls = [
        ("socket", (2, 1), 3),
        ("connect", (3, 1, 16), -115),
        ("sendto", (3, 1, 9), 9),
        ("accept4", (7, 1, 1), 4),
        ("read", (4,), 5),
        ("read", (0,), 6),
    ]
    texts = {2: {1: SERVER}, 6: {1: "{ .family: INET6, port: 9, addr: ::1, scope_id: 1 }"}}

    assert totals_table(PEER, calls, texts) == {"TCP:10.0.0.1:80": (2, 1, 9), "[::1]:9": (1, 0, 0), "TCPv6:[::1]:9": (1, 0, 5)}


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A program may open any number of files."""
    monkeypatch.setattr(call_sums, "_MOST_NAMES", 2)
    calls = [("unlink", (1,), 0)] * 5

    assert totals_table(PATH, calls, {2 * index: {0: f"/{index}"} for index in range(5)}) == {
        "/0": (1, 0, 0),
        "/1": (1, 0, 0),
        "(others)": (3, 0, 0),
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (SERVER, "10.0.0.1:80"),
        ("{ .family: LOCAL, path: /a }, b }", "/a }, b"),
        ("{ .family: LOCAL, path: { .family: INET, port: 1, addr: 1.1.1.1 } }", "{ .family: INET, port: 1, addr: 1.1.1.1 }"),
        ("{ .family: NETLINK }", ""),
        ("0x7f00", ""),
    ],
)
def test_an_address_is_that_of_its_family(text, address):
    assert peer_address(text) == address


@pytest.mark.parametrize(("event", "name"), [(SoftwareId.PAGE_FAULTS, "minfault"), (SoftwareId.PAGE_FAULTS_MAJ, "majfault")])
def test_page_faults_of_a_recording_have_lines_and_are_counted(
    event: int, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "perf.data").write_bytes(traced_recording(6, software=event))
    assert run(["trace", "-i", str(tmp_path / "perf.data")]) == 0
    lines = [line for line in capfd.readouterr().err.splitlines() if name in line]
    assert len(lines) == 6
    assert all(f"{name} [0x" in line and line.endswith("] => 0x0 (?.)") for line in lines)  # the samples have no address
    assert run(["trace", "-s", "-i", str(tmp_path / "perf.data")]) == 0
    assert capfd.readouterr().err.count(f" events, 50.0%, 3 {name}s") == 2
