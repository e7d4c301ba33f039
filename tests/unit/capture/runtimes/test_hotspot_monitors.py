"""The monitors of a JVM that is built in memory: threads, owners by address and by lock on the stack, and classes of objects."""

from __future__ import annotations

import pytest

from perfpy.capture.runtimes.hotspot_code import StructField
from perfpy.capture.runtimes.hotspot_monitors import Monitors, MonitorWait

LIST, THREADS, ARRAY, BASE, SHIFT, HANDLE, OBJECT, KLASS, SYMBOL = (0x1000 * number for number in range(1, 10))
FIELDS = {
    ("ThreadsSMRSupport", "_java_thread_list"): (LIST, 8),
    ("ThreadsList", "_length"): (4, 4),
    ("ThreadsList", "_threads"): (16, 4),
    ("JavaThread", "_osthread"): (0x10, 8),
    ("JavaThread", "_stack_base"): (0x18, 8),
    ("JavaThread", "_stack_size"): (0x20, 8),
    ("JavaThread", "_current_pending_monitor"): (0x28, 8),
    ("OSThread", "_thread_id"): (8, 4),
    ("ObjectMonitor", "_owner"): (0x40, 4),
    ("ObjectMonitor", "_object"): (8, 4),
    ("oopDesc", "_metadata._compressed_klass"): (8, 4),
    ("CompressedKlassPointers", "_narrow_klass._base"): (BASE, 8),
    ("CompressedKlassPointers", "_narrow_klass._shift"): (SHIFT, 4),
    ("Klass", "_name"): (0x18, 8),
    ("Symbol", "_length"): (0, 2),
    ("Symbol", "_body[0]"): (6, 1),
}


class Vm:
    """The tables of structures; without: a field that this version does not have."""

    def __init__(self, without: tuple[str, str] = ("", "")) -> None:
        self._fields = {name: StructField(*values, is_signed=False) for name, values in FIELDS.items() if name != without}

    def field(self, *names: tuple[str, str]) -> StructField:
        for name in names:
            if name in self._fields:
                return self._fields[name]
        raise LookupError(names[0])


class Memory:
    """Words by address; others are not readable."""

    def __init__(self, words: dict[int, int], name: bytes = b"java/lang/Object") -> None:
        self.words, self.name = words, name

    def number(self, address: int, size: int = 8) -> int:
        if address not in self.words:
            raise OSError(address)
        return self.words[address] & ((1 << 8 * size) - 1)

    def read(self, address: int, size: int) -> bytes:
        assert address == SYMBOL + 6
        return self.name[:size]


def jvm(*threads: tuple[int, int], owners: dict[int, int] | None = None, length: int = 16, count: int | None = None) -> dict[int, int]:
    """The words of a JVM with threads, given by their numbers and monitors; owners: by monitor."""
    words = {
        LIST: THREADS, THREADS + 4: len(threads) if count is None else count, THREADS + 16: ARRAY, BASE: 0x4000, SHIFT: 3, HANDLE: OBJECT,
        OBJECT + 8: (KLASS - 0x4000) >> 3, KLASS + 0x18: SYMBOL, SYMBOL: length,
    }  # fmt: skip
    for number, (tid, monitor) in enumerate(threads):
        address, os_thread = thread_at(number), 0x20000 + 0x100 * number
        words |= {ARRAY + 8 * number: address, address + 0x10: os_thread, os_thread + 8: tid, address + 0x28: monitor}
        words |= {address + 0x18: stack_of(number) + 0x1000, address + 0x20: 0x1000}
    for monitor, owner in (owners or {}).items():
        words |= {monitor + 0x40: owner, monitor + 8: HANDLE}
    return words


def thread_at(number: int) -> int:
    return 0x30000 + 0x100 * number


def stack_of(number: int) -> int:
    return 0x700000 + 0x10000 * number


def waits(words: dict[int, int], **memory: bytes) -> dict[int, MonitorWait]:
    return Monitors(Memory(words, **memory), Vm()).waits({5: 105, 6: 106})  # type: ignore[arg-type]


def test_the_owner_is_a_thread_or_a_lock_on_its_stack():
    deadlock = jvm((5, 0x50000), (6, 0x51000), owners={0x50000: thread_at(1), 0x51000: stack_of(0) + 8})
    expected = {105: MonitorWait(0x50000, "java.lang.Object", 106), 106: MonitorWait(0x51000, "java.lang.Object", 105)}
    assert waits(deadlock) == expected


@pytest.mark.parametrize("owner", [0, 0x999999])
def test_unknown_owners(owner: int):
    assert waits(jvm((5, 0x50000), (6, 0), owners={0x50000: owner})) == {105: MonitorWait(0x50000, "java.lang.Object", 0)}


def test_names_that_are_none_and_classes_that_are_not_readable():
    words = jvm((5, 0x50000), owners={0x50000: 0})
    assert waits(words, name=b"evil\x1b[2Jxxxxxxx")[105].of_class == ""
    assert waits({**words, SYMBOL: 60_000})[105].of_class == ""
    del words[OBJECT + 8]
    assert waits(words) == {105: MonitorWait(0x50000, "", 0)}


def test_damaged_lists():
    assert waits(jvm((5, 0x50000), owners={0x50000: 0}, count=1 << 30)) == {}
    assert waits(jvm((7, 0x50000), owners={0x50000: 0})) == {}
    with pytest.raises(OSError, match="327744"):
        waits(jvm((5, 0x50000)))


def test_versions_without_the_structures():
    with pytest.raises(LookupError):
        Monitors(Memory({}), Vm(without=("JavaThread", "_current_pending_monitor")))  # type: ignore[arg-type]
