"""Callchains tell the reason of a wait, the function, the kind of lock and the system call."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.kinds import PAGE_FAULT, ROW_LOCK
from perfpy.analysis.why.stacks import Meaning, StackMeanings
from perfpy.symbols.dso import Dso, DsoKind

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
