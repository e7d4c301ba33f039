"""Tests of records of the other byte order in dumps: which numbers perf swaps, and which it does not."""

from __future__ import annotations

import pytest

from perfpy.abi import perf_records, records
from perfpy.abi.flags import MISC_MMAP_BUILD_ID
from perfpy.abi.framing import HEADER
from perfpy.abi.records import SampleId
from perfpy.views.dump.recording import user_record_text
from perfpy.views.record_text import as_perf_reads, record_text, swap_record
from tests.builders.specimens import USER

EXECUTABLE = 5


@pytest.mark.parametrize("record", [one for one in USER if isinstance(one, (perf_records.AuxtraceError, perf_records.Stat))])
def test_numbers_are_swapped_one_by_one(record: perf_records.UserRecord) -> None:
    written, meant = perf_records.encode(record, ">"), perf_records.encode(record, "<")
    kind, misc, _ = HEADER[">"].unpack_from(written)
    guest = 8 if isinstance(record, perf_records.AuxtraceError) else 0  # perf does not swap the numbers of a guest at the end
    assert swap_record(kind, misc, written) == meant[: len(meant) - guest] + written[len(written) - guest :]


def test_the_flags_after_a_time_conversion_are_bytes() -> None:
    record = perf_records.TimeConv(0, 1, 2, 3, 4, 5, 1, 0)
    written = perf_records.encode(record, ">")
    kind, misc, _ = HEADER[">"].unpack_from(written)
    assert swap_record(kind, misc, written) == perf_records.encode(record, "<")


@pytest.mark.parametrize("misc", [0, MISC_MMAP_BUILD_ID])
def test_the_protection_of_a_mapping_is_not_swapped(misc: int) -> None:
    record = records.Mmap2(misc, 1, 1, 0x10, 0x10, 0, 0, 0, 0, 0, EXECUTABLE, 2, "/x", b"")
    assert (as_perf_reads(record).prot, as_perf_reads(record).flags) == (EXECUTABLE << 24, 2 << 24)


def test_the_task_of_a_switch_is_swapped_as_one_number() -> None:
    sample_id = as_perf_reads(records.Switch(0, SampleId(pid=1, tid=2, time=3))).sample_id
    assert (sample_id.pid, sample_id.tid, sample_id.time) == (2 << 24, 1 << 24, 3)


@pytest.mark.parametrize(
    ("guest", "text"), [((None, None), ""), ((0, 0), "  machine_pid: 0  vcpu: 0"), ((9, 10), "  machine_pid: 9  vcpu: 10")]
)
def test_ids_of_guests_are_shown_if_present(guest: tuple[int | None, int | None], text: str) -> None:
    data = perf_records.encode(perf_records.IdIndex(0, (perf_records.IdIndexEntry(1, 2, 3, 4, *guest),)), "<")
    kind, misc, _ = HEADER["<"].unpack_from(data)
    assert f" ... id: 1  idx: 2  cpu: 3  tid: 4{text}\n" in user_record_text(kind, misc, data[8:], "<", foreign=False)


def test_a_namespace_of_number_0_has_no_base() -> None:
    text = record_text(records.Namespaces(0, 1, 2, ((0, 0), (4, 0xEFFFFFFC))))
    assert text.endswith("0/net: 0/0, 1/uts: 4/0xeffffffc]\n")
