"""The count in a counter's control page: the sum, the times, the seqlock, and every reason to give up."""

from __future__ import annotations

import struct

import pytest

from perfpy.abi.readings import Reading
from perfpy.kernel.user_page import CounterUnreadableError, UserPage
from tests.builders.user_page import LOCK, RDPMC, capability, page


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
    buffer = page(times=(90, 50), can=RDPMC | capability(3))
    assert UserPage(buffer).read(lambda _: 0, lambda: 10) == Reading(100, 90 + 22, 50 + 22)


def test_a_short_clock_is_extended() -> None:
    """Of a clock with few bits, the page tells the others."""
    buffer = page(times=(90, 50), can=RDPMC | capability(3, 5))
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
        (page(can=capability(1)), "cap_user_rdpmc"),
        (page(can=capability(2)), "cap_user_rdpmc"),  # a kernel before 3.12, whose bits mean something else
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
