"""The reason of a wait by the functions of its callchain: a lock has a holder, idleness is not a lock."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.wait_reasons import KERNEL_BIT, RULES, RuleBits, bits_of_python_call, reasons_of

FUTEX = ["k:futex_do_wait", "k:futex_wait", "k:__x64_sys_futex"]
SEM = ["__futex_abstimed_wait_common", "__new_sem_wait_slow64", "PyThread_acquire_lock_timed"]
PARKED = ["__new_sem_wait_slow64", "_PySemaphore_Wait", "_PyParkingLot_Park"]
CONDITION = ["pthread_cond_wait@@GLIBC_2.3.2"]
LIBRARY = "/usr/lib/python3.12"
RULE_BITS = RuleBits()


def reason(*names: str) -> int:
    """The reason of a callchain, innermost function first; k: of the kernel."""
    bits = 0
    for name in names:
        bits |= KERNEL_BIT if name.startswith("k:") else 0
        bits |= RULE_BITS.of(name.removeprefix("k:"))
    return int(reasons_of(np.array([bits], np.int64))[0])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        # Python
        ([*FUTEX, *SEM, "_queue_SimpleQueue_get", "py::consume:/srv/a.py"], reasons.QUEUE),
        ([*FUTEX, *SEM, "py::Condition.wait:" + LIBRARY + "/threading.py", "py::Queue.get:" + LIBRARY + "/queue.py"], reasons.QUEUE),
        ([*FUTEX, *SEM, "py::wait:/usr/lib/python3.8/threading.py", "py::get:/usr/lib/python3.8/queue.py"], reasons.QUEUE),
        ([*FUTEX, *SEM, "py::Condition.wait:" + LIBRARY + "/threading.py", "py::main:/srv/a.py"], reasons.CONDITION),
        ([*FUTEX, *SEM, "py::Event.wait:" + LIBRARY + "/threading.py", "py::main:/srv/a.py"], reasons.CONDITION),
        ([*FUTEX, *SEM, "py::Thread.join:" + LIBRARY + "/threading.py", "py::main:/srv/a.py"], reasons.JOIN),
        ([*FUTEX, *SEM, "py::Condition.wait:x/threading.py", "py::Semaphore.acquire:x/threading.py"], reasons.SEMAPHORE),
        ([*FUTEX, *SEM, "py::Condition.wait:x/threading.py", "py::Future.result:x/concurrent/futures/_base.py"], reasons.RESULT),
        ([*FUTEX, *SEM, "py::Event.wait:x/threading.py", "py::MapResult.get:x/multiprocessing/pool.py"], reasons.CHILD),
        ([*FUTEX, *SEM, "py::transfer:/srv/a.py"], reasons.LOCK),
        ([*FUTEX, *SEM], reasons.FUTEX),
        ([*FUTEX, "pthread_cond_timedwait", "take_gil", "py::main:/srv/a.py"], reasons.GIL),
        ([*FUTEX, *PARKED, "_PyMutex_LockTimed", "_PyCriticalSection_BeginSlow", "list_append", "py::add:/srv/a.py"], reasons.OBJECT_LOCK),
        ([*FUTEX, *PARKED, "_PyMutex_LockTimed", "_PyCriticalSection2_BeginSlow.cold", "py::add:/srv/a.py"], reasons.OBJECT_LOCK),
        ([*FUTEX, *PARKED, "_PyMutex_LockTimed", "lock_PyThread_acquire_lock", "py::add:/srv/a.py"], reasons.LOCK),
        ([*FUTEX, *PARKED, "_PyThreadState_Attach", "PyEval_RestoreThread", "py::add:/srv/a.py"], reasons.WORLD_STOP),
        ([*FUTEX, *PARKED, "PyEvent_WaitTimed", "stop_the_world", "gc_collect_main", "py::add:/srv/a.py"], reasons.WORLD_STOP),
        ([*FUTEX, "pthread_cond_timedwait", "take_gil", "_PyThreadState_Attach", "py::main:/srv/a.py"], reasons.GIL),
        (["k:pipe_read", "py::SimpleQueue.get:x/multiprocessing/queues.py", "py::worker:x/multiprocessing/pool.py"], reasons.QUEUE),
        (["k:io_schedule", "k:vfs_fsync", "py::task:/srv/a.py", "py::worker:x/multiprocessing/pool.py"], reasons.DISK),
        (["k:core_sys_select", "py::Arbiter.sleep:/srv/gunicorn/arbiter.py"], reasons.EVENTS),
        ([*FUTEX, *SEM, "py::Condition.wait:x/threading.py", "py::Queue.put:" + LIBRARY + "/queue.py"], reasons.FULL_QUEUE),
        ([*FUTEX, *SEM, "py::Queue.put:" + LIBRARY + "/multiprocessing/queues.py", "py::produce:/srv/a.py"], reasons.FULL_QUEUE),
        ([*FUTEX, *SEM, "py::_shutdown:" + LIBRARY + "/threading.py"], reasons.JOIN),
        (["k:poll_schedule_timeout", "py::Popen._communicate:" + LIBRARY + "/subprocess.py", "py::run:x/subprocess.py"], reasons.CHILD),
        (["k:do_sys_poll", "send_dg", "getaddrinfo", "py::resolve:/srv/a.py"], reasons.NAME),
        (["k:hrtimer_nanosleep", "clock_nanosleep", "sqlite3_step", "py::save:/srv/a.py"], reasons.ROW_LOCK),
        (["k:vfs_fsync", "fdatasync", "sqlite3_step", "py::save:/srv/a.py"], reasons.DISK),
        # C and C++
        ([*FUTEX, "std::__future_base::_State_baseV2::wait()", "collect()"], reasons.RESULT),
        (["k:locks_lock_inode_wait", "flock", "append_row", "worker", "main"], reasons.FILE_LOCK),
        (["k:inet_csk_accept", "k:inet_accept", "accept4", "serve"], reasons.CLIENT),
        ([*FUTEX, "__lll_lock_wait", "pthread_mutex_lock", "transfer"], reasons.LOCK),
        ([*FUTEX, "__new_sem_wait_slow64", "main"], reasons.SEMAPHORE),
        ([*FUTEX, *CONDITION, "worker"], reasons.CONDITION),
        ([*FUTEX, *CONDITION, "background_thread_entry"], reasons.QUEUE),
        ([*FUTEX, "pthread_barrier_wait"], reasons.BARRIER),
        ([*FUTEX, "own_lock"], reasons.FUTEX),
        # the JVM
        ([*FUTEX, *CONDITION, "PlatformMonitor::wait(long)", "VMThread::loop()"], reasons.QUEUE),
        ([*FUTEX, *CONDITION, "VMThread::wait_until_executed(VM_Operation*)", "VMThread::execute(VM_Operation*)"], reasons.WORLD_STOP),
        ([*FUTEX, "Mutex::lock(Thread*)", "SafepointSynchronize::block(JavaThread*)"], reasons.WORLD_STOP),
        ([*FUTEX, *CONDITION, "ObjectMonitor::enter(JavaThread*)", "void Bank.transfer()"], reasons.LOCK),
        ([*FUTEX, *CONDITION, "Unsafe_Park", "void java.util.concurrent.locks.LockSupport.park()"], reasons.CONDITION),
        ([*FUTEX, *CONDITION, "Unsafe_Park", "java.util.concurrent.ThreadPoolExecutor.getTask()"], reasons.QUEUE),
        ([*FUTEX, *CONDITION, "Unsafe_Park", "void java.util.concurrent.locks.ReentrantLock.lock()"], reasons.LOCK),
        (["k:unix_accept", "accept", "AttachListener::dequeue()", "attach_listener_thread_entry(JavaThread*)"], reasons.QUEUE),
        ([*FUTEX, *CONDITION, "JavaThread::sleep(long)", "JVM_Sleep", "void java.lang.Thread.sleep(long)"], reasons.SLEEP),
        # Go, Rust, Node, databases
        (["k:do_epoll_wait", "runtime.epollwait", "runtime.netpoll", "runtime.findRunnable", "runtime.schedule"], reasons.EVENTS),
        ([*FUTEX, "<std::sys::sync::mutex::futex::Mutex>::lock_contended", "bank::transfer"], reasons.LOCK),
        ([*FUTEX, "<std::sys::sync::thread_parking::futex::Parker>::park", "<std::thread::thread::Thread>::park"], reasons.CONDITION),
        (
            [*FUTEX, *CONDITION, "v8::internal::FutexEmulation::WaitJs32(int)", "v8::internal::Builtin_AtomicsWait(int)", "settle"],
            reasons.NOTIFICATION,
        ),
        (["k:do_epoll_wait", "uv__io_poll", "node::SyncProcessRunner::TryInitializeAndRunLoop()"], reasons.CHILD),
        ([*FUTEX, "runtime.futex.abi0", "runtime.notesleep", "runtime.mPark", "runtime.stopm"], reasons.QUEUE),
        ([*FUTEX, "std::sys::sync::mutex::futex::Mutex::lock_contended", "bank::transfer"], reasons.LOCK),
        ([*FUTEX, "crossbeam_channel::flavors::list::Channel<T>::recv", "work"], reasons.QUEUE),
        ([*FUTEX, *CONDITION, "node::TaskQueue<v8::Task>::BlockingPop()"], reasons.QUEUE),
        (["k:do_epoll_wait", "WaitEventSetWait", "ProcSleep", "LockAcquireExtended"], reasons.ROW_LOCK),
        # without the kernel's functions
        (["__libc_recv", "main"], reasons.NETWORK),
        (["accept4", "main"], reasons.CLIENT),
        (["epoll_wait", "main"], reasons.EVENTS),
        (["clock_nanosleep@@GLIBC_2.17", "main"], reasons.SLEEP),
        (["__lll_lock_wait", "pthread_mutex_lock", "main"], reasons.LOCK),
        (["main"], reasons.OTHER),
        ([], reasons.OTHER),
    ],
)
def test_the_functions_decide(names, expected):
    assert reason(*names) == expected


def test_the_kernels_reasons_do_not_come_from_functions_of_the_same_name():
    assert reason("k:do_nanosleep", "sleep") == reasons.SLEEP
    assert reason("k:pipe_read", "select", "poll") == reasons.PIPE


@pytest.mark.parametrize("name", ["pthread_cond_timedwait@@GLIBC_2.3.2", "__pthread_cond_clockwait"])
def test_timed_conditions_of_cpython_are_its_lock(name):
    bits = bits_of_python_call(name) | RULE_BITS.of(name) | RULE_BITS.of("futex_wait")
    assert reasons_of(np.array([bits], np.int64)).tolist() == [reasons.GIL]


def test_semaphores_of_cpython_are_locks_only_with_python_functions():
    bits = bits_of_python_call("sem_clockwait") | RULE_BITS.of("futex_wait")
    assert reasons_of(np.array([bits, bits | RULE_BITS.of("py::main:/a.py")], np.int64)).tolist() == [reasons.FUTEX, reasons.LOCK]


def test_all_bits_fit_in_a_word():
    assert reasons.OTHER_BITS + 3 <= 63  # of a signed word
    assert {rule[0] for rule in RULES} == {*range(reasons.OTHER)} - {reasons.CPU}
