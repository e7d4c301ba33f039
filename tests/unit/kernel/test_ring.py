"""Ring buffers, and the page from which user space reads a counter."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import subprocess
from errno import ENOMEM, EPERM
from pathlib import Path

import pytest

from perfpy.abi.attr import EventAttr, Reading, UserReading
from perfpy.abi.flags import SampleType
from perfpy.abi.ring_records import RingSample
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.kernel.ring import AuxArea, Ring, capability
from perfpy.kernel.user_page import CODE, CodeReader, CounterUnreadableError, PageCode, UserPage
from tests.builders.user_page import LOCK, RDPMC, page
from tests.builders.user_page import capability as page_capability

# The ring's arithmetic on fake memory: head, tail, wrap, and the backward mode.


PAGE = 4096
HEAD, TAIL = 1024, 1032


def memory(data_size: int = PAGE) -> bytearray:
    return bytearray(PAGE + data_size)


def record(size: int, fill: int) -> bytes:
    return struct.pack("=IHH", 9, 0, size) + bytes([fill]) * (size - 8)


def set_head(buffer: bytearray, value: int, at: int = HEAD) -> None:
    struct.pack_into("=Q", buffer, at, value)


def tail(buffer: bytearray, at: int = TAIL) -> int:
    return int(struct.unpack_from("=Q", buffer, at)[0])


def joined(slices: tuple[memoryview, ...]) -> bytes:
    return b"".join(slices)


@pytest.mark.parametrize(("errno", "cause"), [(ENOMEM, "no memory for a ring of 8 pages"), (EPERM, "more memory than this user may lock")])
def test_a_ring_that_cannot_be_mapped_names_the_reason(monkeypatch: pytest.MonkeyPatch, errno: int, cause: str) -> None:
    def refuse(*_arguments: int) -> None:
        raise OSError(errno, os.strerror(errno))

    monkeypatch.setattr("perfpy.kernel.ring.mmap.mmap", refuse)
    with pytest.raises(KernelRefusedError, match=cause):
        Ring.map(3, 8)


def test_empty_ring_hands_out_nothing() -> None:
    assert Ring(memory(), page_size=PAGE).pending() == ()


def test_records_are_one_slice_of_the_ring_itself() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    buffer[PAGE : PAGE + 16] = record(16, 1)
    set_head(buffer, 16)
    (piece,) = ring.pending()
    assert bytes(piece) == record(16, 1)
    buffer[PAGE + 8] = 77
    assert piece[8] == 77


def test_wrapped_records_are_two_slices() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    start = 5 * PAGE - 24
    struct.pack_into("=Q", buffer, TAIL, start)
    data = record(40, 3)
    buffer[2 * PAGE - 24 :] = data[:24]
    buffer[PAGE : PAGE + 16] = data[24:]
    set_head(buffer, start + 40)
    pieces = ring.pending()
    assert [len(piece) for piece in pieces] == [24, 16]
    assert joined(pieces) == data


def test_records_up_to_the_very_end_are_one_slice() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    struct.pack_into("=Q", buffer, TAIL, PAGE - 32)
    set_head(buffer, PAGE)
    assert [len(piece) for piece in ring.pending()] == [32]


def test_full_ring_is_handed_out_whole() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    struct.pack_into("=Q", buffer, TAIL, 64)
    set_head(buffer, PAGE + 64)
    assert [len(piece) for piece in ring.pending()] == [PAGE - 64, 64]


def test_consume_returns_only_bytes_that_were_read() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    set_head(buffer, 48)
    ring.pending()
    set_head(buffer, 96)  # written after pending()
    ring.consume()
    assert tail(buffer) == 48
    assert sum(len(piece) for piece in ring.pending()) == 48


def test_backward_ring_reads_from_the_newest_to_the_oldest_whole_record() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    head = (1 << 64) - 40
    buffer[2 * PAGE - 40 : 2 * PAGE - 24] = record(16, 2)
    buffer[2 * PAGE - 24 :] = record(24, 1)
    set_head(buffer, head)
    assert joined(ring.pending()) == record(16, 2) + record(24, 1)
    assert ring.pending() == ()


def test_backward_ring_never_writes_its_tail() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    buffer[2 * PAGE - 16 :] = record(16, 1)
    set_head(buffer, (1 << 64) - 16)
    ring.pending()
    ring.consume()
    assert tail(buffer) == 0


def test_backward_ring_that_was_run_over_omits_the_torn_record() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    size = 1000  # four whole records and 96 bytes of a fifth fit
    for i in range(4):
        buffer[PAGE + i * size : PAGE + (i + 1) * size] = record(size, i)
    buffer[PAGE + 4 * size :] = record(size, 9)[:96]
    set_head(buffer, (1 << 64) - 20 * PAGE)
    data = joined(ring.pending())
    assert data == b"".join(record(size, i) for i in range(4))


def test_size_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(ValueError, match="power of two"):
        Ring(memory(3 * PAGE), page_size=PAGE)


def test_clock_is_read_from_the_control_page() -> None:
    buffer = memory()
    struct.pack_into("=Q", buffer, 40, 1 << 4)
    struct.pack_into("=HIQQ", buffer, 50, 31, 1234, 0, 99)
    struct.pack_into("=QQ", buffer, 80, 7, 8)
    clock = Ring(buffer, page_size=PAGE).clock()
    assert clock == (31, 1234, 99, 7, 8, True, False)


def test_aux_area_wraps_like_the_ring() -> None:
    buffer = memory()
    area = AuxArea(Ring(buffer, page_size=PAGE), bytearray(range(64)))
    struct.pack_into("=QQ", buffer, 1056, 80, 48)
    pieces = area.pending()
    assert joined(pieces) == bytes(range(48, 64)) + bytes(range(16))
    area.consume()
    assert tail(buffer, 1064) == 80


@pytest.mark.parametrize(("order", "bit"), [("little", 1 << 4), ("big", 1 << 59)])
def test_capabilities_are_counted_from_where_the_compiler_begins(order, bit, monkeypatch):
    monkeypatch.setattr("sys.byteorder", order)
    assert capability(4) == bit


def test_iterating_consumes_the_records() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    ring.set_writers(lambda: {1: EventAttr(sample_type=SampleType.IP)})
    for number in range(3):
        buffer[PAGE + number * 16 : PAGE + number * 16 + 16] = struct.pack("=IHHQ", 9, 2, 16, number)
    set_head(buffer, 48)
    for sample in ring:
        assert isinstance(sample, RingSample)
        assert sample.ip == 0
        break
    assert tail(buffer) == 48
    assert [sample.ip for sample in ring if isinstance(sample, RingSample)] == [1, 2]  # the loop that was left had one
    assert list(ring) == []


def test_a_ring_of_unknown_writers_hands_out_bytes_alone() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    assert list(ring) == []
    set_head(buffer, 16)
    with pytest.raises(UsageError, match=r"Counter\.ring"):
        list(ring)


def test_a_backward_ring_has_no_aux_area() -> None:
    with pytest.raises(UsageError, match="backward"):
        AuxArea.map(-1, Ring(memory(), page_size=PAGE, backward=True), 1)


# The count in a counter's control page: the sum, the times, the seqlock, and every reason to give up.


def test_the_count_is_offset_and_register() -> None:
    """The register is index - 1; its bits are a signed number."""
    numbers: list[int] = []

    def register(number: int) -> int:
        numbers.append(number)
        return 23

    assert UserPage(page()).read(register) == Reading(123, 50, 50)
    assert numbers == [2]
    assert UserPage(page(offset=1 << 47)).read(lambda _: -5 & (1 << 48) - 1).value == (1 << 47) - 5


def test_times_go_on_from_the_page_s_last_update() -> None:
    """A counter that shares the PMU: both times grow by what the clock says."""
    buffer = page(times=(90, 50), can=RDPMC | page_capability(3))
    assert UserPage(buffer).read(lambda _: 0, lambda: 10) == Reading(100, 90 + 22, 50 + 22)


def test_a_short_clock_is_extended() -> None:
    """Of a clock with few bits, the page tells the others."""
    buffer = page(times=(90, 50), can=RDPMC | page_capability(3, 5))
    cycles = 1000 + 20
    assert UserPage(buffer).read(lambda _: 0, lambda: cycles & 0xFF).enabled == 90 + 7 + (cycles * 3 >> 1)


def test_data_that_change_during_reading_are_read_again() -> None:
    """The kernel writes between the lock's two reads: the second try counts."""
    buffer = page()

    def register(_: int) -> int:
        if struct.unpack_from("=I", buffer, LOCK) == (2,):
            buffer[:] = page(lock=4, offset=500)
        return 1

    assert UserPage(buffer).read(register).value == 501


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (page(can=page_capability(1)), "cap_user_rdpmc"),
        (page(can=page_capability(2)), "cap_user_rdpmc"),  # a kernel before 3.12, whose bits mean something else
        (page(index=0), "index is 0"),
        (page(times=(90, 50)), "multiplexed"),
        (page(lock=3), "keeps changing"),
    ],
)
def test_reasons_for_pages_without_counts(buffer: bytearray, reason: str) -> None:
    with pytest.raises(CounterUnreadableError, match=reason):
        UserPage(buffer).read(lambda _: 0)


def test_python_cannot_read_registers() -> None:
    with pytest.raises(CounterUnreadableError, match="has no instruction"):
        UserPage(page()).read()


# The machine code that reads a counter's page, with a register that always has 6.


SOURCES = Path(__file__).parents[2] / "builders" / "user_code"
#: what reads the register of the pages below -> what has 6 there (x86-64: edx = 0, and eax has 6 from before)
INSTEAD = {"x86_64": (b"\x0f\x33", b"\x31\xd2"), "aarch64": (bytes.fromhex("46e83bd5"), bytes.fromhex("c60080d2"))}
MACHINE = os.uname().machine
ASSEMBLERS = {"x86_64": ("as", "objcopy"), "aarch64": ("aarch64-linux-gnu-as", "aarch64-linux-gnu-objcopy")}

runs_here = pytest.mark.skipif(MACHINE not in CODE, reason=f"there is no code for {MACHINE}")


@pytest.mark.parametrize("machine", CODE)
def test_the_code_is_that_of_its_source(machine: str, tmp_path: Path):
    assembler, copier = (tool if machine != MACHINE else tool.removeprefix(f"{machine}-linux-gnu-") for tool in ASSEMBLERS[machine])
    if not shutil.which(assembler) or not shutil.which(copier) or (machine == "x86_64" != MACHINE):
        pytest.skip(f"there is no assembler for {machine} here")
    subprocess.run([assembler, SOURCES / f"{machine}.s", "-o", tmp_path / "code.o"], check=True)
    subprocess.run([copier, "-O", "binary", "-j", ".text", tmp_path / "code.o", tmp_path / "code"], check=True)
    assert (tmp_path / "code").read_bytes() == CODE[machine]


def test_arm64_s_code_reads_each_register():
    """32 instructions in a table, by the encoding of MRS: PMEVCNTR0 to 30, then PMCCNTR."""
    words = struct.unpack(f"<{len(CODE['aarch64']) // 4}I", CODE["aarch64"])
    read = [word for word in words if word & 0xFFF8F01F == 0xD538E006 or word == 0xD53B9D06]
    assert [(word >> 8 & 3) * 8 + (word >> 5 & 7) for word in read[:31]] == list(range(31))
    assert read[31:] == [0xD53B9D06]


def code() -> bytes:
    before, after = INSTEAD[MACHINE]
    assert CODE[MACHINE].count(before) == 1
    return CODE[MACHINE].replace(before, after)


def reader(buffer: bytearray, value: int = 0) -> CodeReader:
    return CodeReader(UserPage(buffer), lambda: Reading(value, 1, 1), code())


def with_width(width: int, buffer: bytearray) -> bytearray:
    struct.pack_into("=H", buffer, 48, width)
    return buffer


@runs_here
def test_the_count_is_offset_and_register_of_user_code():
    assert reader(page()).read() == UserReading(106, 50, 50)
    assert reader(page(offset=(1 << 40) - 6)).read().value == 1 << 40
    assert reader(with_width(64, page())).read().value == 106


@runs_here
def test_a_register_is_signed_by_its_width():
    assert reader(with_width(3, page())).read().value == 98  # 0b110 is -2
    assert reader(with_width(2, page())).read().value == 98
    assert reader(with_width(4, page())).read().value == 106


@runs_here
def test_times_go_on_from_the_page_s_last_update_of_user_code():
    buffer = page(times=(90, 50), can=RDPMC | page_capability(3, 5))
    struct.pack_into("=Q", buffer, 88, 0)  # of the clock's bits none counts: it stands at 1000
    expected = 7 + (1000 * 3 >> 1)
    assert reader(buffer).read() == UserReading(106, 90 + expected, 50 + expected)
    struct.pack_into("=HI", buffer, 50, 40, 0xFFFFFFFF)  # in two parts, so that nothing is lost at the top
    struct.pack_into("=Q", buffer, 80, 1 << 50)
    assert reader(buffer).read().enabled == 90 + 7 + ((1 << 50) * 0xFFFFFFFF >> 40)


@runs_here
def test_the_cpu_clock_is_read():
    buffer = page(times=(90, 50), can=RDPMC | page_capability(3))
    one, other = (reader(buffer).read() for _ in range(2))
    assert (other.enabled or 0) > (one.enabled or 0) > 90
    assert (one.enabled or 0) - (one.running or 0) == 40


@runs_here
@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (page(can=page_capability(1)), "cap_user_rdpmc"),
        (page(can=page_capability(2)), "cap_user_rdpmc"),
        (page(index=0), "index is 0"),
        (page(times=(90, 50)), "multiplexed"),
        (page(lock=3), "keeps changing"),
    ],
)
def test_without_a_count_in_the_page_read_is_used(buffer: bytearray, reason: str):
    reading = reader(buffer, value=77).read()
    assert (reading.value, reading.from_page) == (77, False)
    assert reason in reading.why_read


@runs_here
def test_a_page_of_an_unsigned_register_is_recognized_by_read():
    """After a read() the kernel may write offset = count - register without a sign; the code's sum is 2^width too low."""
    buffer = with_width(32, page(offset=5000 - (1 << 32)))
    counts = iter([4000, 5006])
    page_reader = CodeReader(UserPage(buffer), lambda: Reading(next(counts)), code())
    assert [page_reader.read().value for _ in range(3)] == [5006] * 3  # read() is asked once
    buffer[:] = with_width(32, page(offset=9000, lock=4))
    assert page_reader.read().value == 9006


@runs_here
def test_a_counter_that_was_set_to_0_may_have_less_than_before():
    counts = iter([1000, 107])
    buffer = page()
    page_reader = CodeReader(UserPage(buffer), lambda: Reading(next(counts)), code())
    assert [page_reader.read().value for _ in range(3)] == [106] * 3


@runs_here
def test_a_forked_child_has_no_page():
    page_reader = reader(page(), value=77)
    page_reader.read()
    receiving, sending = os.pipe()
    if (child := os.fork()) == 0:
        os.write(sending, repr(page_reader.read().why_read).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert "forked" in os.read(receiving, 200).decode()
    os.close(receiving)
    os.close(sending)
    assert page_reader.read().from_page


def written_and_run() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[0] for line in lines if re.search(r" rwxp ", line)}


@runs_here
def test_no_memory_is_written_and_run():
    before = written_and_run()
    held = PageCode(page(), code())
    assert held.read()
    assert not written_and_run() - before  # some libraries have such memory


def memory_with_code() -> int:
    """Bytes of code that are of no file."""
    matches = re.findall(r"^(\w+)-(\w+) r-xp 00000000 00:00 0 *$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    return sum(int(end, 16) - int(start, 16) for start, end in matches)


@runs_here
def test_a_closed_reader_reads_no_page_and_keeps_no_memory():
    page_reader = reader(page(), value=77)
    mapped = memory_with_code()
    page_reader.close()
    assert memory_with_code() == mapped - mmap.PAGESIZE
    assert not page_reader.read().from_page


def test_another_machine_has_no_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfpy.kernel.user_page.CODE", {})
    with pytest.raises(CounterUnreadableError, match="no machine code"):
        CodeReader(UserPage(page()), lambda: Reading(0))
