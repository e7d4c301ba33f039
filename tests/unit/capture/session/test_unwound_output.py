"""The output of record --unwind, with processes that unwind, fail, end or are not waited for."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import RecordType, SampleType
from perfpy.capture import off_cpu_events
from perfpy.capture.sample_attrs import SWITCH
from perfpy.capture.session import unwound_output
from perfpy.capture.session.unwound_output import UnwoundOutput
from perfpy.capture.unwinding import process
from perfpy.errors import OutputFailedError
from tests.builders.perfdata import usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.capture.unwinding.process import Extent


RECORD = struct.pack("=IHHQ", RecordType.SAMPLE, 0, 16, 7)
ROUND = struct.pack("=IHH", RecordType.FINISHED_ROUND, 0, 8)


class Stacks:
    """A StackFile in memory."""

    def __init__(self) -> None:
        self.known: bytes | None = b""
        self.records = b""
        self.ended = False

    def begin(self, known: Iterable[bytes] | None) -> None:
        self.known = None if known is None else b"".join(known)

    def write_ring(self, slices: Sequence[bytes]) -> None:
        self.records += b"".join(map(bytes, slices))

    def end_round(self) -> None:
        pass

    def end(self) -> None:
        self.ended = True


def served(requests: int) -> Iterator[tuple[int, list[Extent]]]:
    incoming = process.Incoming()
    while data := os.read(requests, 1 << 16):
        incoming.add(data)
        yield from incoming.requests()


def bytes_of(stores: tuple[int, int, int], extents: list[Extent]) -> bytes:
    return b"".join(os.pread(stores[store], size, offset) for store, offset, size in extents)


def echo(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    """Returns every piece unchanged but in lower case."""
    for kind, extents in served(requests):
        if kind == process.KNOWN:
            os.write(answers, process.answer(process.READY))
        elif kind == process.PIECE:
            data = bytes_of(stores, extents).lower()
            os.write(answers, process.answer(process.SIDE_BAND, b"sideband"))
            os.write(answers, process.answer(process.RECORDS, data[:5]) + process.answer(process.RECORDS, data[5:]))
            os.write(answers, process.answer(process.PIECE_DONE))
        elif kind == process.END:
            os.write(answers, process.answer(process.NOTE, b"a note") + process.answer(process.FINISHED))
            return


def never_ready(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    raise ImportError("numpy")


def never_answers(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    time.sleep(60)


def is_late(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    """Ready after a while."""
    time.sleep(1.0)
    echo(requests, answers, stores)


def dies_at_once(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    """Ends at the first piece."""
    for kind, _ in served(requests):
        if kind == process.KNOWN:
            os.write(answers, process.answer(process.READY))
        elif kind == process.PIECE:
            return


def is_slow(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
    """Never finishes a piece."""
    for kind, _ in served(requests):
        if kind == process.KNOWN:
            os.write(answers, process.answer(process.READY))
        elif kind == process.PIECE:
            time.sleep(60)


class Recording:
    """An output that is used as the recorder uses it."""

    def __init__(
        self,
        folder: Path,
        serve: Callable[[int, int, tuple[int, int, int]], None],
        *,
        keep_stacks: bool = False,
        unwinds_late: bool = False,
        called: int = -1,
    ) -> None:
        self.said: list[str] = []
        self.stacks = Stacks()
        self.path = folder / "perf.data"
        self.output = UnwoundOutput(str(self.path), None, serve, tell=self.said.append, keep_stacks=keep_stacks)
        self.output.unwinds_late = unwinds_late
        self.output.stack_file = lambda: self.stacks  # type: ignore[assignment]
        self.output.expect([(usual_attr(), (1,))])
        self.output.write(b"KNOWN")
        self.output.start(called)

    def ring(self, data: bytes) -> None:
        self.output.write_ring([data])
        self.output.end_round()

    def send(self) -> None:
        """As if a piece were full."""
        self.output._send_piece()

    def end(self, *, hurried: bool = False) -> None:
        self.output.complete(-1, lambda: hurried)

    @property
    def written(self) -> bytes:
        return self.path.read_bytes()


def test_unwound_records_are_written_in_rounds(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.ring(b"FIRST")
    recording.send()
    recording.ring(b"SECOND")
    recording.end()
    assert recording.written == b"KNOWN" + b"first" + ROUND + b"second" + ROUND
    assert recording.said == ["a note"]
    assert not recording.stacks.ended


def test_the_rest_is_unwound_at_the_recorders_own_priority(tmp_path, monkeypatch):
    """On a busy machine a process of the lowest priority would take minutes (record --unwind-late)."""
    priorities: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "setpriority", lambda *values: priorities.append(values))
    recording = Recording(tmp_path, echo)
    recording.ring(b"FIRST")
    recording.end()
    assert priorities == [(os.PRIO_PROCESS, recording.output.others[0], os.getpriority(os.PRIO_PROCESS, 0))]


def test_unwinding_starts_at_the_recorders_own_priority(tmp_path):
    """The recorder waits for the start, which would take a minute with the lowest priority on a busy machine."""

    def tell_priority(requests: int, answers: int, stores: tuple[int, int, int]) -> None:
        for kind, _ in served(requests):
            if kind == process.KNOWN:
                priority = str(os.getpriority(os.PRIO_PROCESS, 0)).encode()
                os.write(answers, process.answer(process.NOTE, priority) + process.answer(process.READY))
            elif kind == process.END:
                os.write(answers, process.answer(process.FINISHED))
                return

    recording = Recording(tmp_path, tell_priority, unwinds_late=True)
    assert recording.said == [str(os.getpriority(os.PRIO_PROCESS, 0))]
    assert os.getpriority(os.PRIO_PROCESS, recording.output.others[0]) == 19
    recording.end()


def test_stacks_are_kept_on_request(tmp_path):
    recording = Recording(tmp_path, echo, keep_stacks=True)
    recording.ring(b"FIRST")
    recording.end()
    assert recording.stacks.known is None
    assert recording.stacks.records == b"FIRST"
    assert b"first" in recording.written


def test_a_process_that_does_not_start_leaves_stacks(tmp_path):
    recording = Recording(tmp_path, never_ready)
    recording.ring(b"FIRST")
    recording.end()
    assert recording.stacks.records == b"FIRST"
    assert "are stored with their stacks in " in recording.said[0]


def test_a_signal_ends_the_wait_for_a_process_that_does_not_start(tmp_path):
    """As with a target of very many mappings."""
    readable, writable = os.pipe()
    os.write(writable, b".")
    began = time.monotonic()
    recording = Recording(tmp_path, never_answers, called=readable)
    assert time.monotonic() - began < 10
    recording.ring(b"FIRST")
    recording.end()
    assert recording.stacks.records == b"FIRST"
    os.close(readable)
    os.close(writable)


def test_a_process_that_starts_late_is_waited_for(tmp_path, monkeypatch):
    """On a busy machine it may take long to load what it needs: nothing is lost for it, and the user knows what goes on."""
    monkeypatch.setattr(unwound_output, "_LATE", 0.1)
    recording = Recording(tmp_path, is_late)
    recording.ring(b"FIRST")
    recording.end()
    assert b"first" in recording.written
    assert recording.said[0] == "[ perf record: waiting for the unwinding process to start ]"
    assert not recording.stacks.records


def test_records_of_a_dead_unwinder_are_not_lost(tmp_path):
    recording = Recording(tmp_path, dies_at_once)
    recording.ring(b"FIRST")
    recording.send()
    recording.ring(b"SECOND")
    for _ in range(100):
        if not recording.output.take():
            break
        time.sleep(0.05)
    recording.ring(b"THIRD")
    recording.end()
    assert recording.stacks.known == b"KNOWN"
    assert recording.stacks.records == b"FIRSTSECONDTHIRD"
    assert recording.written == b"KNOWN"
    assert [line.split(";")[0] for line in recording.said] == ["warning: the unwinding process has ended"]


def test_records_unwound_before_a_death_are_written_once(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.ring(b"FIRST")
    recording.send()
    while b"first" not in recording.written:  # in as many calls as it takes
        recording.output.take()
    os.kill(recording.output.others[0], signal.SIGKILL)
    recording.ring(b"SECOND")
    recording.end()
    assert recording.stacks.known == b"KNOWNsideband"
    assert recording.stacks.records == b"SECOND"
    assert recording.written.startswith(b"KNOWNfirst")


def test_a_hurried_end_keeps_the_stacks(tmp_path):
    recording = Recording(tmp_path, is_slow)
    recording.ring(b"FIRST")
    begun = time.monotonic()
    recording.end(hurried=True)
    assert time.monotonic() - begun < 10
    assert recording.stacks.records == b"FIRST"
    assert "unwinding was interrupted" in recording.said[-1]


def test_a_file_of_the_requested_size_stops_growing(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.output.most = len(b"KNOWN" + b"first" + ROUND)
    recording.ring(b"FIRST")
    recording.send()
    while b"first" not in recording.written:
        recording.output.take()
    recording.ring(b"SECOND")
    recording.send()
    recording.ring(b"THIRD")
    recording.end()
    assert recording.written == b"KNOWN" + b"first" + ROUND
    assert recording.said == ["a note"]
    assert not recording.stacks.records


def test_a_file_that_is_too_large_before_anything_ran_has_a_round(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.output.most = 1
    recording.ring(b"FIRST AND")
    recording.send()
    recording.ring(b"SECOND")
    recording.end()
    assert recording.written == b"KNOWN" + b"first and" + ROUND


def test_nothing_is_left_of_a_recording_that_did_not_begin(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.output.abandon()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(recording.output.others[0], 0)


def test_a_full_disk_ends_unwinding_and_is_reported(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.ring(b"FIRST")
    os.dup2(full := os.open("/dev/full", os.O_RDWR), recording.output.writer.fd)  # type: ignore[attr-defined]
    os.close(full)
    with pytest.raises(OutputFailedError, match="No space left"):
        recording.end()
    with pytest.raises(ProcessLookupError):
        os.kill(recording.output.others[0], 0)


def test_read_bytes_equal_the_rings_content(tmp_path):
    recording = Recording(tmp_path, echo)
    recording.ring(RECORD * 3)
    assert recording.output.bytes_read == 48
    recording.end()


# The parts of a recording whose records another process rewrites.


_LOAD = """
import os, sys
from perfpy.capture.session import unwound_output
unwound_output._load_shared_modules()
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"), "numpy" in sys.modules)
"""


def test_modules_of_both_processes_are_loaded_once_and_without_threads() -> None:
    """A fork copies one thread only. The workload gets the environment as it was."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    process = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert process.stdout.split() == ["1", "None", "True"]


# The stacks of switches that are copied for a recording of all tasks.


def test_stacks_of_chosen_tasks_and_of_all_have_limits_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm of other tasks' switches does not cost the chosen ones their stacks, nor the other way round."""
    clock = [100.0]
    monkeypatch.setattr(off_cpu_events, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with_stack = EventAttr(sample_type=SampleType.STACK_USER)

    def opened(*, of_chosen: bool, attr: EventAttr = with_stack) -> Any:
        return SimpleNamespace(event=SimpleNamespace(tracepoint=SWITCH, of_chosen=of_chosen), attr=attr)

    of_chosen, of_all = opened(of_chosen=True), opened(of_chosen=False)
    limited_by_kernel = opened(of_chosen=False, attr=with_stack.copy(freq=1))
    without_stacks = opened(of_chosen=False, attr=EventAttr())

    rates = {id(of_chosen): 0, id(of_all): 0}
    counts = dict.fromkeys(rates, 0.0)
    disabled: set[int] = set()
    counters = SimpleNamespace(
        events=[of_chosen, of_all, limited_by_kernel, without_stacks],
        cpus=[0, 1],
        count=lambda event: int(counts[id(event)]),
        switch=lambda event, on: (disabled.discard if on else disabled.add)(id(event)),
    )
    check = unwound_output._limit_stacks(cast("SampleCounters", counters))
    for busy in (of_chosen, of_all):
        rates[id(busy)] = 100_000
        ever: set[int] = set()
        for _ in range(100):
            clock[0] += 0.01
            for event, rate in rates.items():
                counts[event] += 0.01 * rate * (event not in disabled)
            check()
            ever |= disabled
        assert ever == {id(busy)}
        rates[id(busy)] = 0
        clock[0] += 1000
        check()
        assert not disabled
