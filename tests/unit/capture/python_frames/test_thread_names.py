"""Names of threads in recordings: which replace the kernel's, when they are read again, and their COMM records."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from perfpy.capture.python_frames.thread_names import LONGEST_NAME, PendingNames, ReadNames

if TYPE_CHECKING:
    from perfpy.kernel.procfs import ProcFs


class Comms:
    """The kernel's names of tasks."""

    def __init__(self, **comms: str) -> None:
        self.comms = {int(tid.removeprefix("t")): comm for tid, comm in comms.items()}

    def status(self, tid: int) -> Comms | None:
        self.comm = self.comms.get(tid, "")
        return Comms(**{f"t{tid}": self.comm})._of(tid) if tid in self.comms else None

    def _of(self, tid: int) -> Comms:
        self.comm = self.comms[tid]
        return self


def names(**comms: str) -> ReadNames:
    return ReadNames(7, cast("ProcFs", Comms(**comms)))


@pytest.mark.parametrize(
    ("name", "comm", "expected"),
    [
        ("worker-1", "python", "worker-1"),
        ("worker-1", "own", "worker-1"),
        ("Thread-1 (work)", "python", "Thread-1 (work)"),
        ("Thread-1", "python", "Thread-1"),
        ("Thread-1 (work)", "own", ""),
        ("Dummy-3", "python", ""),
        ("MainThread", "python", ""),
        ("", "python", ""),
    ],
)
def test_names_that_say_more_than_the_kernels_replace_it(name: str, comm: str, expected: str) -> None:
    assert names(t7="python", t8=comm).new_name(8, 1.0, lambda: name) == expected


def test_the_main_thread_keeps_the_programs_name() -> None:
    assert names(t7="python").new_name(7, 1.0, lambda: "main") == ""


def test_a_name_is_read_again_ever_more_rarely_and_reported_once() -> None:
    read = names(t7="python", t8="python")
    reads: list[int] = []

    def name() -> str:
        reads.append(len(reads))
        return "first" if len(reads) < 3 else "second"

    messages = [read.new_name(8, number / 1000, name) for number in range(1000)]
    assert [one for one in messages if one] == ["first", "second"]
    assert len(reads) < 12


def test_a_thread_with_the_number_of_an_ended_one_is_read_at_once() -> None:
    read = names(t7="python", t8="python")
    assert read.new_name(8, 1.0, lambda: "first") == "first"
    read.forget(8)
    assert read.new_name(8, 1.001, lambda: "first") == "first"


def test_a_record_has_the_time_of_the_threads_first_sample() -> None:
    pending = PendingNames()
    pending.add(7, 8, "worker")
    pending.add(7, 9, "waits")
    (record,) = pending.take([(7, 8, 30), (7, 8, 20), (7, 7, 10)], 5)
    assert (record.pid, record.tid, record.comm, record.sample_id and record.sample_id.time) == (7, 8, "worker", 20)
    assert [comm.comm for comm in pending.take([(7, 8, 40), (7, 9, 41)], 5)] == ["waits"]


@pytest.mark.parametrize("name", ["x" * 5000, "ü" * 500, "a\0b", "\ud800" * 90])
def test_names_fit_into_a_record(name: str) -> None:
    pending = PendingNames()
    pending.add(7, 8, name)
    (record,) = pending.take([(7, 8, 1)], 5)
    assert len(record.comm.encode()) <= LONGEST_NAME
    assert "\0" not in record.comm
