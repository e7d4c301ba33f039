"""An event with AUX data: its attr, its position among the events, its records."""

from __future__ import annotations

import mmap
import struct
from errno import EACCES
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi import perf_records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType, SoftwareId
from perfpy.abi.perf_records import HISI_PMCU, Auxtrace
from perfpy.capture import aux_area
from perfpy.capture.aux_area import AuxOutput, info_record, write_user_events
from perfpy.capture.sample_attrs import configure_sampling
from perfpy.capture.targets import ANY, Target
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.events.event import Event, EventTerms
from perfpy.kernel.ring import AuxArea, Ring
from tests.builders import sysfs_tree
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

if TYPE_CHECKING:
    from pathlib import Path

PAGE = mmap.PAGESIZE
AUX_HEAD, AUX_TAIL = 1056, 1064
COMMAND = Target("command", (), (0, 1))


def pmcu(name: str = "hisi_pmcu_sccl3", **terms: Any) -> Event:
    attr = EventAttr(type=53, config=8, exclude_guest=1)
    return Event(name, attr, pmu="hisi_pmcu_sccl3", cpus=(32,), requires_cpu=True, terms=EventTerms(**terms))


def clock() -> Event:
    return Event("cpu-clock", EventAttr(type=1, config=SoftwareId.CPU_CLOCK))


def configured(*events: Event, **options: Any) -> list[Event]:
    return configure_sampling(list(events), record_options(**options), COMMAND, FakeKernel())


def test_it_comes_first_with_period_1_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aux_area, "may_count_cpus", lambda: True)
    event, other, dummy = configured(clock(), pmcu(), freq=100)
    assert event.name == "hisi_pmcu_sccl3"
    assert (event.attr.sample_period, event.attr.freq, event.attr.disabled, event.attr.enable_on_exec) == (1, 0, 1, 0)
    assert event.attr.sample_type & SampleType.TIME
    assert (event.attr.exclude_guest, event.attr.inherit) == (0, 0)
    assert (other.attr.sample_freq, other.attr.mmap) == (100, 0)
    assert (dummy.attr.config, dummy.attr.mmap2, dummy.attr.enable_on_exec) == (SoftwareId.DUMMY, 1, 1)


@pytest.mark.parametrize("option", ["unwind", "off_cpu", "overwrite", "per_thread"])
def test_excluded_options_are_named(option: str) -> None:
    with pytest.raises(UsageError, match="drop --" + option.replace("_", "-")):
        configured(pmcu(), **{option: True})


def test_one_a_recording() -> None:
    with pytest.raises(UsageError, match="record 'one' and 'two' separately"):
        configured(pmcu("one"), pmcu("two"))


def test_counting_cpus_without_permission_suggests_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aux_area, "may_count_cpus", lambda: False)
    with pytest.raises(UsageError, match="run as root"):
        configured(pmcu())


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


class Output:
    """What was written, and how much there was before."""

    def __init__(self) -> None:
        self.data = bytearray(1000)

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, *slices: bytes | bytearray | memoryview) -> None:
        self.data += b"".join(slices)


class OpenCounter:
    """A counter on CPU 32 and all tasks."""

    attr, fd, cpu, pid = EventAttr(type=53), 9, 32, ANY

    def __init__(self) -> None:
        self.enabled = 0

    def enable(self) -> None:
        self.enabled += 1


def test_pieces_are_auxtrace_records_padded_to_8_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the data wrap around: one record, in the order in which it was written."""
    control = bytearray(2 * PAGE)
    memory = bytearray(range(256)) * 2
    monkeypatch.setattr(AuxArea, "map", lambda fd, ring, pages: AuxArea(ring, memory))
    output, counter = Output(), OpenCounter()
    aux = AuxOutput(counter, Ring(control), 0, 0)  # type: ignore[arg-type]  # as far as it is used
    for head, size in ((100, 100), (600, 500), (600, 0)):
        struct.pack_into("=Q", control, AUX_HEAD, head)
        assert aux.take(output) == size
        assert struct.unpack_from("=Q", control, AUX_TAIL) == (head,)
    assert [entry[1] for entry in aux.index] == [48 + 104, 48 + 504]
    first, second = (entry[0] for entry in aux.index)
    assert (first, second, output.size) == (1000, 1000 + 48 + 104, 1000 + 48 + 104 + 48 + 504)
    kind, misc, size = struct.unpack_from("=IHH", output.data, second)
    record = perf_records.decode(kind, misc, bytes(output.data[second + 8 : second + size]), NATIVE_ENDIAN)
    assert isinstance(record, Auxtrace)
    assert (kind, record.size, record.offset, record.idx, record.cpu, record.tid) == (RecordType.AUXTRACE, 504, 100, 0, 32, 0xFFFFFFFF)
    assert output.data[second + 48 : second + 48 + 500] == (memory * 2)[100:600]
    aux.go_on()
    assert counter.enabled == 1


def test_info_names_the_pmu() -> None:
    data = info_record(53)
    assert struct.unpack_from("=I", data)[0] == RecordType.AUXTRACE_INFO
    assert perf_records.decode(RecordType.AUXTRACE_INFO, 0, data[8:], NATIVE_ENDIAN)[1:] == (HISI_PMCU, (53,))
