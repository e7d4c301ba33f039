"""The monitors of a JVM that is built in memory: threads, owners by address and by lock on the stack, and classes of objects."""

from __future__ import annotations

import random
import struct
import time

import pytest

from perfpy.capture.runtimes.hotspot_code import StructField
from perfpy.capture.runtimes.hotspot_monitors import Collections, JavaFrame, Monitors, MonitorWait, collections_of, java_stacks

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


DUMP = """1234:
2026-01-01 00:00:00
Full thread dump OpenJDK 64-Bit Server VM (17.0.15 mixed mode, sharing):

"main" #1 prio=5 os_prio=0 cpu=31.85ms elapsed=2.35s tid=0x00007f5d14017ed0 nid=0x45f2 waiting on condition  [0x00007f5d1a3fe000]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\t- parking to wait for  <0x000000069ec19450> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
\tat java.util.concurrent.locks.LockSupport.park(java.base@17.0.15/LockSupport.java:211)
\tat Shop$$Lambda$1/0x00007f5c94000a08.run(Unknown Source)

   Locked ownable synchronizers:
\t- <0x000000069ec19480> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)

"say "hi" nid=0x5 #9" #12 daemon prio=5 os_prio=0 cpu=1ms elapsed=2s tid=0x00007f5d14017ed1 nid=17906 waiting for monitor entry  [0x0]
   java.lang.Thread.State: BLOCKED (on object monitor)
\tat Shop.cancel(Shop.java:4)
\t- waiting to lock <0x000000069ec194a0> (a java.lang.Object)
\t- locked <0x000000069ec19490> (a java.lang.Object)

   Locked ownable synchronizers:
\t- None

"idle" #13 prio=5 os_prio=0 cpu=1ms elapsed=2s tid=0x00007f5d14017ed2 nid=0x7 in Object.wait()  [0x0]
\tat java.lang.Object.wait(java.base@17.0.15/Native Method)
\t- waiting on <0x000000069ec02f40> (a Shop)
\tat Shop.take(Shop.java:8)
\t- locked <0x000000069ec02f40> (a Shop)

"G1 Conc#0" os_prio=0 cpu=0.1ms elapsed=2s tid=0x00007f5d14085c80 nid=0x8 runnable

JNI global refs: 15, weak refs: 0


Found one Java-level deadlock:
=============================
"main":
  waiting for ownable synchronizer 0x000000069ec19450, (a java.util.concurrent.locks.ReentrantLock$NonfairSync),
  which is held by "idle"

"main" #1 prio=5 os_prio=0 cpu=31.85ms elapsed=2.35s tid=0x00007f5d14017ed0 nid=0x45f2 waiting on condition  [0x00007f5d1a3fe000]
"""


def test_threads_are_read_from_their_description():
    main, blocked, idle, native = java_stacks(DUMP)
    assert (main.tid, main.name, main.lock, main.enters, main.holds) == (0x45F2, "main", 0x69EC19450, False, {0x69EC19480})
    assert main.of_class == "java.util.concurrent.locks.ReentrantLock$NonfairSync"
    assert main.frames == [
        JavaFrame("jdk.internal.misc.Unsafe.park", "", 0),
        JavaFrame("java.util.concurrent.locks.LockSupport.park", "LockSupport.java", 211),
        JavaFrame("Shop$$Lambda$1/0x00007f5c94000a08.run", "", 0),
    ]
    assert blocked[:2] == (17906, 'say "hi" nid=0x5 #9')
    assert (blocked.lock, blocked.of_class, blocked.enters, blocked.holds) == (0x69EC194A0, "java.lang.Object", True, {0x69EC19490})
    # Object.wait() has given up the monitor that its callers have locked
    assert (idle.tid, idle.lock, idle.enters, idle.holds) == (7, 0x69EC02F40, False, set())
    assert (native.tid, native.name, native.frames) == (8, "G1 Conc#0", [])


@pytest.mark.parametrize("text", ["", "\n" * 1000, '"' * 100_000, '"a" nid=1 ' + "x" * 100_000, "\tat " + "a" * 100_000 + "(", DUMP[:700]])
def test_other_texts_and_parts_have_the_threads_that_are_in_them(text):
    assert len(java_stacks(text)) <= 1


COUNTERS: dict[str, int | str] = {
    "sun.os.hrt.frequency": 1000,
    "sun.gc.collector.0.name": "Serial young collection pauses",
    "sun.gc.collector.0.invocations": 357,
    "sun.gc.collector.0.time": 1500,
    "sun.gc.collector.1.name": "MSC",
    "sun.gc.collector.1.invocations": 2,
    "sun.gc.collector.1.time": 250,
    "sun.gc.generation.0.maxCapacity": 3 << 20,
    "sun.gc.generation.1.maxCapacity": 1021 << 20,
    "java.rt.vmArgs": "-Dpassword=-Xmx1m -XX:+UseSerialGC -Xmn9m -Xmn3m -Xmx1g",
}


def counters(values: dict[str, int | str]) -> bytes:
    """Return what a JVM publishes."""
    data = b""
    for name, value in values.items():
        text = name.encode() + b"\0"
        text += b"\0" * (-(20 + len(text)) % 8)
        body = struct.pack("<q", value) if isinstance(value, int) else value.encode().ljust(8, b"\0") + b"\0"
        kind = "J" if isinstance(value, int) else "B"
        body += b"\0" * (-len(body) % 4)
        length = 0 if kind == "J" else len(body)
        data += struct.pack("<3i4Bi", 20 + len(text) + len(body), 20, length, ord(kind), 0, 0, 0, 20 + len(text)) + text + body
    return b"\xca\xfe\xc0\xc0\x01\x02\0\x01" + struct.pack("<2iq2i", 32 + len(data), 0, 0, 32, len(values)) + data


def test_collections_and_the_options_that_limit_them_are_in_the_counters() -> None:
    assert collections_of(counters(COUNTERS)) == Collections(357, 2, 1.5, 0.25, 1024, 3, "-Xmx1g", "-Xmn3m")
    assert collections_of(counters({**COUNTERS, "sun.gc.collector.1.name": "Shenandoah"})) == Collections(
        357, 0, 1.5, 0.0, 1024, 3, "-Xmx1g", "-Xmn3m"
    )


@pytest.mark.parametrize("lacking", ["sun.os.hrt.frequency", "sun.gc.collector.0.invocations"])
def test_counters_of_a_jvm_that_is_not_ready_tell_nothing(lacking: str) -> None:
    assert collections_of(counters({name: value for name, value in COUNTERS.items() if name != lacking})) is None
    assert collections_of(counters({**COUNTERS, lacking: "text"})) is None
    assert collections_of(counters({})) is None
    assert collections_of(b"") is None


def test_damaged_counters_are_read_in_bounded_time() -> None:
    """Each beginning of them, 2,000 with some other bytes, and 2 billion entries that are the same one."""
    data, rng, began = counters(COUNTERS), random.Random(7), time.process_time()
    for end in range(0, len(data), 3):
        collections_of(data[:end])
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 9)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        found = collections_of(bytes(damaged))
        assert found is None or min(found[:6]) >= 0
    for size in (0, -20, 1, 20, 1 << 30):
        lie = bytearray(data)
        lie[28:32], lie[32:36] = struct.pack("<i", (1 << 31) - 1), struct.pack("<i", size)
        collections_of(bytes(lie))
    assert time.process_time() - began < 10
