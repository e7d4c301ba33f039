"""AUX data of a hardware tracer: their records, snapshots, and the record that describes them; a PMCU's list of events."""

from __future__ import annotations

import mmap
import struct
from errno import EACCES
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi import perf_records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.perf_records import HISI_PMCU, Auxtrace, AuxtraceInfo
from perfpy.auxtrace.itrace import aux_pieces
from perfpy.capture.aux_area import AuxTrace, TracedCounter, write_user_events
from perfpy.capture.sample_counters import Opened, SampleCounters
from perfpy.capture.session.output import DataFile, RecordOutput
from perfpy.capture.targets import ANY
from perfpy.capture.tracers import TracePlan
from perfpy.errors import KernelRefusedError
from perfpy.events.event import ARM_SPE, CS_ETM, HISI_PTT, INTEL_BTS, INTEL_PT, Event, EventTerms
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.ring import AuxArea, Ring
from perfpy.kernel.sysfs import Pmu
from perfpy.perfdata.reader import PerfData
from tests.builders import sysfs_tree
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

if TYPE_CHECKING:
    from pathlib import Path

PAGE = mmap.PAGESIZE
AUX_HEAD, AUX_TAIL = 1056, 1064
AREA = 1 << 14


def pmcu(name: str = "hisi_pmcu_sccl3", **terms: Any) -> Event:
    attr = EventAttr(type=53, config=8, exclude_guest=1)
    return Event(name, attr, pmu="hisi_pmcu_sccl3", cpus=(32,), requires_cpu=True, terms=EventTerms(**terms))


def test_the_events_to_count_are_written_to_the_pmu(tmp_path: Path) -> None:
    tree = sysfs_tree.hisi_pmcu(tmp_path)
    sysfs = tree.machine().sysfs
    pmu = sysfs.pmu("hisi_pmcu_sccl3")
    assert pmu is not None
    write_user_events(pmcu(), sysfs)
    with open(f"{pmu.path}/user_events") as file:
        assert file.read().strip() == ""
    write_user_events(pmcu(user_events=(0x10, 0x1F)), sysfs)
    with open(f"{pmu.path}/user_events") as file:
        assert file.read() == "0x0010 0x001f"


def test_events_that_cannot_be_written_are_an_error_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sysfs = sysfs_tree.hisi_pmcu(tmp_path).machine().sysfs

    def refused(path: str, mode: str) -> None:
        raise PermissionError(EACCES, "no", path)

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(KernelRefusedError, match="hisi_pmcu_sccl3") as caught:
        write_user_events(pmcu(user_events=(1,)), sysfs)
    assert caught.value.errno == EACCES


# Data are copied as AUXTRACE records.


class Output:
    """What was written, and how much there was before."""

    def __init__(self) -> None:
        self.data = bytearray(1000)

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, *slices: bytes | bytearray | memoryview) -> None:
        self.data += b"".join(slices)

    def pieces(self) -> list[tuple[Auxtrace, bytes]]:
        """Every record with its data."""
        offset, pieces = 1000, []
        while offset < len(self.data):
            record = decoded(bytes(self.data[offset:]))
            assert isinstance(record, Auxtrace)
            pieces.append((record, bytes(self.data[offset + 48 : offset + 48 + record.size])))
            offset += 48 + record.size
        return pieces


def decoded(data: bytes) -> object:
    kind, misc, size = struct.unpack_from("=IHH", data)
    return perf_records.decode(kind, misc, data[8:size], NATIVE_ENDIAN)


class OpenCounter:
    """A counter that remembers whether it is on."""

    fd = 9

    def __init__(self) -> None:
        self.calls: list[str] = []

    def enable(self) -> None:
        self.calls.append("on")

    def disable(self) -> None:
        self.calls.append("off")


class Traced:
    """A tracer's AUX area in memory, on CPU 3: `hardware` writes to it as the kernel's drivers do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tracer: str = INTEL_PT, *, threads: int = 1, **plan: Any) -> None:
        self.memory = bytearray(AREA)
        self.control = bytearray(2 * PAGE)
        self.head = 0
        self.overwrite: bool | None = None

        def mapped(fd: int, ring: Ring, pages: int, *, overwrite: bool = False) -> AuxArea:
            assert (fd, pages) == (9, 4)
            self.overwrite = overwrite
            return AuxArea(ring, self.memory)

        monkeypatch.setattr(AuxArea, "map", mapped)
        self.ring = Ring(self.control)
        self.counters = [OpenCounter() for _ in range(threads)]
        self.event: Any = SimpleNamespace(is_enabled=True)
        traced = [TracedCounter(counter, self.event, 3, 77, 0) for counter in self.counters]  # type: ignore[arg-type]
        self.warnings: list[str] = []
        self.output = Output()
        self.trace = AuxTrace(traced, [self.ring], (3,), TracePlan(tracer, Pmu(tracer, "/nowhere", 12), 4, **plan), self.warnings.append)

    def hardware(self, data: bytes, *, counts: bool = True) -> None:
        """Write data; counts: whether the head counts all bytes instead of being an offset."""
        for byte in data:
            self.memory[self.head % AREA] = byte
            self.head += 1
        struct.pack_into("=Q", self.control, AUX_HEAD, self.head if counts else self.head % AREA)

    def take(self) -> bytes:
        """Take the data once; return those of the new record."""
        before = len(self.output.pieces())
        size = self.trace.take(self.ring, self.output)
        return b"".join(data for _, data in self.output.pieces()[before:])[:size]

    def snapshot(self) -> bytes:
        before = len(self.output.pieces())
        size = self.trace.take_snapshot(self.output)
        return b"".join(data for _, data in self.output.pieces()[before:])[:size]


def pattern(size: int, start: int = 1) -> bytes:
    """Bytes that are never 0 and differ from those of other starts."""
    return bytes((start + number * 7) % 255 + 1 for number in range(size))


def test_pieces_are_records_padded_to_8_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the data wrap around: one record, in the order in which they were written."""
    traced = Traced(monkeypatch)
    whole = b""
    for size in (100, AREA - 200, 300, 0, AREA):
        data = pattern(size, start=size)
        traced.hardware(data)
        assert traced.take() == data
        whole += data
        assert struct.unpack_from("=Q", traced.control, AUX_TAIL) == (len(whole),)
    records = [record for record, _ in traced.output.pieces()]
    assert [record.size for record in records] == [104, AREA - 200, 304, AREA]
    assert [record.offset for record in records] == [0, 100, AREA - 100, AREA + 200]
    assert {(record.idx, record.cpu, record.tid) for record in records} == {(0, 3, 77)}
    assert [entry[0] for entry in traced.trace.index][:2] == [1000, 1000 + 48 + 104]
    assert {entry[1] for entry in traced.trace.index} == {48}  # perf compares them with the records' own sizes
    assert traced.overwrite is False


def test_a_full_area_is_read_whole_and_its_events_are_enabled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel stops them, and says so in the flag of an AUX record."""
    traced = Traced(monkeypatch, threads=2)
    traced.hardware(pattern(AREA))
    assert traced.take() == pattern(AREA)
    traced.trace.go_on(traced.ring)
    assert [counter.calls for counter in traced.counters] == [["on"], ["on"]]
    traced.event.is_enabled = False  # by --control
    traced.trace.go_on(traced.ring)
    assert [counter.calls for counter in traced.counters] == [["on"], ["on"]]


def test_a_ring_without_an_area_has_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch)
    other = Ring(bytearray(2 * PAGE))
    assert traced.trace.take(other, traced.output) == 0
    traced.trace.go_on(other)
    assert traced.counters[0].calls == []


def test_threads_on_any_cpu_are_named_by_their_tid(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, per_cpu=False)
    traced.hardware(b"abcdefgh")
    traced.take()
    assert [record.tid for record, _ in traced.output.pieces()] == [77]


def test_branches_are_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The area's size is no multiple of a branch's: the bytes before its end belong to none."""
    traced = Traced(monkeypatch, INTEL_BTS)
    traced.hardware(pattern(100))
    assert traced.take() == pattern(96)
    assert struct.unpack_from("=Q", traced.control, AUX_TAIL) == (100,)


# Snapshots: the hardware overwrites the oldest data.


@pytest.mark.parametrize("counts", [True, False])
def test_a_snapshot_has_the_data_since_the_last_one(monkeypatch: pytest.MonkeyPatch, *, counts: bool) -> None:
    traced = Traced(monkeypatch, snapshot_size=AREA)
    assert traced.overwrite
    for number, size in enumerate((5000, 100, 0, 6000, 8000, 3)):
        data = pattern(size, start=number)
        traced.hardware(data, counts=counts)
        assert traced.take() == b""
        assert traced.snapshot() == data


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("written", [(AREA + 5,), (AREA - 10, AREA + 20), (100, 3 * AREA - 50), (AREA - 1, 2 * AREA)])
def test_after_a_wrap_around_a_snapshot_is_the_whole_area(
    monkeypatch: pytest.MonkeyPatch, written: tuple[int, ...], *, counts: bool
) -> None:
    """Of a head that is an offset only the changed data before the last place tell it."""
    traced = Traced(monkeypatch, snapshot_size=AREA)
    whole = b""
    for number, size in enumerate(written):
        data = pattern(size, start=5 * number)
        traced.hardware(data, counts=counts)
        whole += data
        assert traced.snapshot() == (data if size <= AREA else whole[-AREA:])


def test_a_snapshot_has_at_most_the_requested_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, snapshot_size=1000)
    traced.hardware(pattern(5000))
    assert traced.snapshot() == pattern(5000)[-1000:]
    assert [(record.offset, record.size) for record, _ in traced.output.pieces()] == [(4000, 1000)]


def test_the_end_of_the_area_that_is_written_for_the_first_time_is_no_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, snapshot_size=AREA)
    traced.hardware(pattern(AREA - 100), counts=False)
    assert traced.snapshot() == pattern(AREA - 100)


def test_the_events_stop_for_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, snapshot_size=AREA)
    traced.trace.switch(False)
    traced.trace.switch(True)
    assert traced.counters[0].calls == ["off", "on"]


def test_data_that_the_kernel_copies_into_samples_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, is_sampled=True)
    traced.hardware(pattern(500))
    assert (traced.take(), traced.overwrite) == (b"", True)


# The file


@pytest.mark.parametrize("is_pipe", [False, True])
def test_each_file_has_the_positions_of_its_own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_pipe: bool) -> None:
    """--switch-output goes on in a new file. A pipe has no positions."""
    traced = Traced(monkeypatch)
    event = Event("intel_pt//u", EventAttr(type=12, sample_type=SampleType.IDENTIFIER, exclude_kernel=1), pmu="intel_pt")
    counters = SampleCounters(FakeKernel(), [event], (3,), (77,), tell=print)
    counters.open()
    counters.rings.append(traced.ring)
    counters.opened = [Opened(one, target, counter, 1, 0) for one in counters.events for target, counter in one.counters.items()]
    counters.aux = traced.trace
    path = str(tmp_path / "trace.data")
    output = RecordOutput(path)
    file = DataFile(
        output,
        counters,
        record_options(output="-" if is_pipe else path, synth=frozenset(), bpf_events=False, buildids=False),
        ProcFs(str(tmp_path)),
    )
    positions: list[list[tuple[int, int]]] = []
    for last in (False, True):
        file.begin(first=not last)
        positions.append([])
        for size in (100, 300):
            traced.hardware(pattern(size))
            positions[-1].append((output.size, 48))
            traced.trace.take(traced.ring, output)
        output.end_round()
        file.end(last=last)
        with PerfData(path) as data:
            assert data.features.get("auxtrace") == (None if is_pipe else tuple(positions[-1]))
            assert [info.type for info in aux_pieces(data).infos] == [1]
            assert [(piece.at_record, piece.record.size) for piece in aux_pieces(data).pieces] == [
                (position, size) for (position, _), size in zip(positions[-1], (104, 304), strict=True)
            ]
        if not last:
            output.reopen()


# AUXTRACE_INFO


def words(traced: Traced) -> tuple[int, tuple[int, ...]]:
    data = traced.trace.info_record()
    assert struct.unpack_from("=I", data)[0] == RecordType.AUXTRACE_INFO
    record = decoded(data)
    assert isinstance(record, AuxtraceInfo)
    return record.type, record.priv


@pytest.mark.parametrize(
    ("tracer", "expected"),
    [("hisi_pmcu", (HISI_PMCU, (12,))), (HISI_PTT, (6, (12,))), (ARM_SPE, (4, (12, 0))), (INTEL_BTS, (2, (12, 0, 0, 0, 0, 0)))],
)
def test_simple_tracers_are_described_by_their_pmu(
    monkeypatch: pytest.MonkeyPatch, tracer: str, expected: tuple[int, tuple[int, ...]]
) -> None:
    traced = Traced(monkeypatch, tracer)
    assert words(traced) == expected
    assert traced.warnings == (["Warning:\nIntel BTS: TSC not available"] if tracer == INTEL_BTS else [])


def test_intel_pt_is_described_by_its_bits_and_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = sysfs_tree.intel_trace(tmp_path)
    pmu = tree.machine().sysfs.pmu("intel_pt")
    assert pmu is not None
    traced = Traced(monkeypatch, snapshot_size=4096, switches=3, filter="filter 0x0/0x8@/a")
    traced.trace.plan = traced.trace.plan._replace(pmu=pmu)
    kind, values = words(traced)
    assert kind == 1
    head = (8, 0, 0, 0, 0, 0x400, 0x800, 3, 1, 1, 0x200, 0x3C000, 168, 2, 2, 20)
    text = b"filter 0x0/0x8@/a"
    assert values == (*head, len(text), *struct.unpack("=3Q", text.ljust(24, b"\0")), 1)
    assert traced.warnings == ["Warning:\nIntel Processor Trace: TSC not available"]


def test_intel_pt_counts_cycles_where_the_kernel_tells_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upper byte of the cycle counter is not in the data."""
    traced = Traced(monkeypatch)
    struct.pack_into("=Q", traced.control, 40, 1 << 4)  # cap_user_time_zero
    struct.pack_into("=HIQQ", traced.control, 50, 10, 512, 0, 1000)  # half a nanosecond a cycle
    assert words(traced)[1][1:5] == (10, 512, 1000, 1)
    assert traced.warnings == []
    monkeypatch.setattr("time.clock_gettime_ns", lambda clock: 51_000)
    traced.hardware(b"12345678")
    traced.take()
    assert [record.reference for record, _ in traced.output.pieces()] == [100_000]


def test_coresight_is_described_by_the_registers_of_each_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pmu = sysfs_tree.coresight(tmp_path).machine().sysfs.pmu("cs_etm")
    assert pmu is not None
    traced = Traced(monkeypatch, CS_ETM, config=1 << 28 | 1 << 14, snapshot_size=4096)
    traced.trace.plan = traced.trace.plan._replace(pmu=pmu)
    traced.trace._cpus = (0, 1, 2)
    kind, values = words(traced)
    etm4 = (0x4040404040404040, 0, 8, 1 << 11 | 1 << 6, 0x10, 0x28000EA1, 0x4100F403, 0x488, 0, 0xCC, 2**64 - 1)
    ete = (0x5050505050505050, 1, 9, 1 << 11 | 1 << 6, 0x12, 0x28000EA1, 0x4100FFF3, 0x488, 0, 0xCC, 0x47705A13, 1)
    etm3 = (0x3030303030303030, 2, 4, 1 << 28 | 1 << 14, 0x14, 0x34C01AC2, 0x411CF312)
    assert (kind, values) == (3, (2, 9 << 32 | 3, 1, *etm4, *ete, *etm3))
    assert ANY not in values
