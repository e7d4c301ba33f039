"""Callchains tell the reason of a wait, the function, the kind of lock and the system call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.analysis.verdict import waits as reasons
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.tools.why import activities
from perfpy.tools.why.activities import Meaning, PythonLines, StackMeanings, chains_of_locks, name_locks
from perfpy.tools.why.tasks import PAGE_FAULT, ROW_LOCK

if TYPE_CHECKING:
    from collections.abc import Sequence


PROGRAM, LIBC, KERNEL = Dso("/opt/app/app"), Dso("/usr/lib/libc.so.6"), Dso("[kernel.kallsyms]", DsoKind.KERNEL)
FILES = {"app": 0, "libc": 1, "kernel": 2, "python": 3}


def meaning(*frames: str) -> Meaning:
    """Return the meaning of a callchain, innermost first; frames: FILE:FUNCTION."""
    return meanings_of(*frames).meanings[0]


def function_of(*frames: str) -> str:
    """Return the function that the meaning of a callchain names."""
    meanings = meanings_of(*frames)
    return meanings.functions[meanings.meanings[0].function]


def meanings_of(*frames: str) -> StackMeanings:
    """Return the meanings of one callchain."""
    parts = [frame.partition(":") for frame in frames]
    names = [name for _, _, name in parts]
    table = SimpleNamespace(
        symbol=np.arange(len(frames)), dso=np.array([FILES[file] for file, _, _ in parts]), ip=np.arange(len(frames), dtype=np.uint64)
    )
    symbolizer = SimpleNamespace(
        frames=table,
        symbols=SimpleNamespace(name=lambda symbol: names[symbol]),
        dsos=[PROGRAM, LIBC, KERNEL, Dso("/usr/bin/python3.11")],
        resolve=lambda: None,
        frame_ids=lambda pid, ip, key, modes, counts: np.arange(len(frames), dtype=np.int32),
        fold_interpreters=lambda ids, counts: (ids, counts),
    )
    meanings = StackMeanings(symbolizer)  # type: ignore[arg-type]
    chain = Ragged(np.arange(1, len(frames) + 1, dtype=np.uint64), np.array([0, len(frames)]))
    meanings.add(chain, np.array([1]), np.array([1], np.uint64))
    meanings.resolve()
    return meanings


FUTEX = ("kernel:schedule", "kernel:futex_wait", "kernel:do_futex", "kernel:__x64_sys_futex")


@pytest.mark.parametrize(
    ("frames", "reason", "lock", "call"),
    [
        ((*FUTEX, "libc:__GI___lll_lock_wait", "libc:pthread_mutex_lock@@GLIBC_2.2.5", "app:push"), reasons.LOCK, "mutex", "futex"),
        (
            (*FUTEX, "libc:pthread_cond_timedwait", "python:", "python:_PyEval_EvalFrameDefault", "app:main"),
            reasons.GIL,
            "condition",
            "futex",
        ),
        ((*FUTEX, "libc:__new_sem_wait_slow64", "python:", "python:PyObject_Call", "app:main"), reasons.LOCK, "lock", "futex"),
        ((*FUTEX, "libc:pthread_rwlock_rdlock", "app:find"), reasons.LOCK, "rwlock", "futex"),
        ((*FUTEX, "libc:__pthread_clockjoin_ex", "app:main"), reasons.JOIN, "", "futex"),
        ((*FUTEX, "app:own_lock"), reasons.FUTEX, "", "futex"),
        (("kernel:io_schedule", "kernel:folio_wait_bit", "kernel:__x64_sys_fsync", "libc:fsync", "app:save"), reasons.DISK, "", "fsync"),
        (("kernel:io_schedule", "kernel:filemap_fault", "kernel:exc_page_fault", "app:load"), PAGE_FAULT, "", ""),
        (("kernel:do_epoll_wait", "kernel:__x64_sys_epoll_wait", "app:ProcSleep", "app:update"), ROW_LOCK, "", "epoll_wait"),
        (("kernel:do_nanosleep", "kernel:__x64_sys_clock_nanosleep", "libc:usleep", "app:nap"), reasons.SLEEP, "", "clock_nanosleep"),
        (("app:main",), reasons.OTHER, "", ""),
    ],
)
def test_functions_determine_the_reason(frames, reason, lock, call):
    meaning_of = meaning(*frames)
    assert (meaning_of.reason, meaning_of.lock, meaning_of.call) == (reason, lock, call)
    assert meaning_of.is_own


def test_the_innermost_own_function_is_named():
    assert function_of(*FUTEX, "libc:__lll_lock_wait", "app:push", "app:main") == "push"


def test_without_own_code_the_library_function_is_named_without_its_internal_prefix():
    assert function_of("kernel:schedule", "kernel:do_wait", "libc:__GI___wait4") == "__wait4"


@pytest.mark.parametrize("name", ["pthread_spin_lock", "my_spin_lock", "SpinLock::lock", "_raw_spin_lock_irqsave", "s_lock"])
def test_spinning_is_recognized_by_name(name):
    assert meaning(f"app:{name}", "app:main").is_spin


@pytest.mark.parametrize("name", ["spin_lock_init", "spin_locked", "spinner", "unlock"])
def test_other_functions_do_not_spin(name):
    assert not meaning(f"app:{name}", "app:main").is_spin


# Waits of Python code are named by the function that the program calls, and the line of the call.


LIBRARY = "/usr/lib/python3.11"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """The call of a callchain, innermost first; (name, line) of each frame."""

    def find(*frames: tuple[str, int]) -> str:
        names = [name for name, _ in frames]
        dso = Dso("/tmp/perf-7.map", DsoKind.JIT)
        ids = np.arange(len(frames))
        table = SimpleNamespace(symbol=ids, dso=np.zeros(len(frames), np.int64))
        symbolizer: Any = SimpleNamespace(frames=table, symbols=SimpleNamespace(name=names.__getitem__), dsos=[dso])

        def code_lines(numbers: Sequence[int]) -> SimpleNamespace:
            return SimpleNamespace(line=np.array([frames[number][1] for number in numbers]))

        monkeypatch.setattr(activities, "lines_of", lambda _: SimpleNamespace(code_lines=code_lines))
        calls = PythonLines(symbolizer)
        calls.resolve(ids.astype(np.int32))
        return calls.of(ids.tolist())

    return find


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([("futex_wait", 0), ("py::update:/srv/worker.py", 9), ("py::main:/srv/worker.py", 30)], "py::update:/srv/worker.py:9"),
        (
            [(f"py::Condition.wait:{LIBRARY}/threading.py", 327), (f"py::Queue.get:{LIBRARY}/queue.py", 171), ("py::eat:/srv/w.py", 4)],
            "py::Queue.get:/srv/w.py:4",
        ),
        ([(f"py::run:{LIBRARY}/subprocess.py", 548), ("py::main:/srv/w.py", 30)], "py::subprocess.run:/srv/w.py:30"),
        ([(f"py::loads:{LIBRARY}/json/__init__.py", 3), ("py::main:/srv/w.py", 30)], "py::json.loads:/srv/w.py:30"),
        ([("py::_find_and_load:<frozen importlib._bootstrap>", 1178), ("py::<module>:/srv/w.py", 1)], "py::<module>:/srv/w.py:1"),
        ([(f"py::Thread.run:{LIBRARY}/threading.py", 975)], f"py::Thread.run:{LIBRARY}/threading.py:975"),
        ([("py::[GIL held by count, thread 7]", 0), ("py::main:/srv/w.py", 3)], "py::main:/srv/w.py:3"),
        ([("py::main:/srv/w.py", 0)], "py::main:/srv/w.py"),
        ([("main", 3)], ""),
        ([], ""),
    ],
)
def test_the_called_function_and_the_line_of_the_own_code(call: Any, frames: list[tuple[str, int]], name: str):
    assert call(*frames) == name


# A lock has the name of the variable at its address, wherever the program is loaded.


LOADED = 0x5500_0000_0000
CODE, DATA = (0x1000, 0x1000, 0x1000, 0x1000), (0x4000, 0x200, 0x100, 0x3000)  # vaddr, memsz, filesz, offset
STRINGS = b"\0queue_lock\0main\0"


class Elf:
    """A file with a variable of 40 bytes at 0x4010, and a function."""

    segments = np.array([CODE, DATA], [(name, "u8") for name in ("vaddr", "memsz", "filesz", "offset")])

    def section(self, name, *types):
        return name if name == ".symtab" else None

    def symbols(self, section):
        rows = [(1, 1, 0x4010, 40), (12, 2, 0x1000, 0x800)]
        return np.array(rows, [("name", "u4"), ("info", "u1"), ("value", "u8"), ("size", "u8")])

    def strings(self, section):
        return STRINGS


FILES_OF_LOCK_NAMES = SimpleNamespace(runtime=Elf(), symbols=Elf())


def symbolizer(files=FILES_OF_LOCK_NAMES):
    """A symbolizer with one frame, at offset 0x1234 of the file."""
    frames = SimpleNamespace(
        dso=np.array([0, -1], np.int32), ip=np.array([LOADED + 0x1234, 5], np.uint64), address=np.array([0x1234, 5], np.uint64)
    )
    return SimpleNamespace(frames=frames, dsos=[SimpleNamespace(kind=DsoKind.FILE)], files=lambda number: files)


@pytest.mark.parametrize(
    ("offset", "name"),
    [(0x4010, "queue_lock"), (0x4010 + 39, "queue_lock"), (0x4010 + 40, ""), (0x400F, ""), (0x1000, ""), (-0x100000, "")],
)
def test_the_variable_at_the_address_is_found(offset, name):
    lock = LOADED + offset
    expected = {lock: name} if name else {}
    assert name_locks({lock: np.array([1, 0], np.int32)}, symbolizer()) == expected


def test_files_that_are_missing_give_no_names():
    missing = symbolizer(SimpleNamespace(runtime=None, symbols=None))
    assert name_locks({LOADED + 0x4010: np.array([0], np.int32)}, missing) == {}


def test_each_lock_has_one_callchain():
    chains = [np.array([1], np.int32), np.array([2], np.int32)]
    locks = chains_of_locks(np.array([7, 0, 7, 9], np.uint64), np.array([1, 0, 0, -1]), chains)
    assert {lock: frames.tolist() for lock, frames in locks.items()} == {7: [2]}
