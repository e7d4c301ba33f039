"""The tables of descriptors are bounded: a user may have a million descriptors, and as many processes with copies of them."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.tools.trace import descriptors
from perfpy.tools.trace import descriptors as module
from perfpy.tools.trace.calls import Pairing
from perfpy.tools.trace.descriptors import RULES, Call, DescriptorNames, Descriptors, DescriptorTable, NameChanges, NameIds, OpenFile
from tests.builders.call_events import CallEventList

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
