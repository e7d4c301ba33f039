"""The reasons of waits, and the functions of a callchain that tell them: one table for the verdict, `why` and the page.

A lock has a holder. A thread that waits for work in a queue, for a condition, a semaphore, the end of a thread or events is idle, whatever
the C library builds these of; so the functions of runtimes and their standard libraries decide before those of the C library, and these
before the kernel's. Functions are matched by whole names, without the version of their symbol.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.perfpy_encodings import PYTHON_MARK

if TYPE_CHECKING:
    from numpy.typing import NDArray


(
    CPU,
    GIL,
    JOIN,
    BARRIER,
    QUEUE,
    FULL_QUEUE,
    RESULT,
    CONDITION,
    LOCK,
    ROW_LOCK,
    SEMAPHORE,
    CHILD,
    SLEEP,
    FILE_LOCK,
    CLIENT,
    TERMINAL,
    PIPE,
    NETWORK,
    NAME,
    EVENTS,
    SIGNAL,
    KERNEL_LOCK,
    DISK,
    MESSAGE,
    INPUT,
    FUTEX,
    OBJECT_LOCK,
    WORLD_STOP,
    NOTIFICATION,
    OTHER,
) = range(30)

# when a rule holds
ALWAYS: Final = 0
IN_FUTEX: Final = 1  #: the thread is in futex(), or the kernel's functions are unknown
WITH_PYTHON: Final = 2  #: as IN_FUTEX, and the callchain has Python functions
NO_KERNEL: Final = 3  #: the kernel's functions are unknown
IN_SLEEP: Final = 4  #: the thread sleeps for a time
PARKED: Final = 5  #: CPython's parking lot is in the callchain: what waits there does not wait for the GIL

_PY: Final = PYTHON_MARK + r"(?:[\w.<>]+\.)?"  # before the name of a method; classes are not known before Python 3.11
_PYTHON_LOCK: Final = r"PyThread_acquire_lock.*|_multiprocessing_SemLock_acquire\w*|_?PyMutex_Lock\w*"
_SEMAPHORE: Final = re.compile(r"_*new_sem_.*wait.*|_*sem_(?:timed|clock)?wait.*")
_TIMED_WAIT: Final = re.compile(r"_*pthread_cond_(?:timed|clock)wait.*")
_SYS: Final = r"__(?:x64|arm64|ia32|riscv|s390x?|powerpc)_sys_"

#: reason, when the rule holds, the functions. The first rule that holds decides.
_RULES: Final = (
    # builds without a GIL: the lock of an object that two threads use at once (critical section), and the stop of all threads for a while
    (OBJECT_LOCK, IN_FUTEX, r"_PyCriticalSection2?_(?:BeginSlow|Resume)"),
    (WORLD_STOP, PARKED, r"_?PyEval_(?:AcquireThread|RestoreThread)|_PyThreadState_Attach|stop_the_world|_PyEval_StopTheWorld(?:All)?"),
    # the JVM: an allocation waits for the garbage collection that it started, and other threads wait at a safepoint until its end
    (WORLD_STOP, ALWAYS, r"VMThread::(?:execute|wait_until_executed)\b.*|SafepointSynchronize::block\b.*|SafepointMechanism::process\b.*"),
    (GIL, IN_FUTEX, r"take_gil|PyEval_(?:AcquireThread|RestoreThread)|_PyThreadState_Attach"),
    (ROW_LOCK, ALWAYS, r"ProcSleep|WaitOnLock|LockAcquireExtended|sqlite3InvokeBusyHandler|lock_wait_(?:suspend|timeout)_thread"),
    (ROW_LOCK, IN_SLEEP, r"sqlite3_(?:step|exec|prepare\w*|backup_step|wal_checkpoint\w*)"),  # it only sleeps between looks for a lock
    (
        NAME,
        ALWAYS,
        r"getaddrinfo(?:_a)?|gethostby(?:name2?|addr)(?:_r)?|getnameinfo|_*res_(?:context_)?n?(?:query|search|send)\w*|send_(?:dg|vc)",
    ),
    (NAME, ALWAYS, r"net\.\(\*Resolver\)\..*|net\.cgoLookup\w*.*"),
    (LOCK, ALWAYS, r"LWLockAcquire(?:OrWait)?|ObjectMonitor::[Ee]nter.*|ObjectSynchronizer::enter.*|.*ReentrantLock\.lock\(.*"),
    # Threads of runtimes and pools that wait for work, or for room in a queue: of Python, C libraries, Go, the JVM, Node, Rust.
    (FULL_QUEUE, ALWAYS, rf"{_PY}put:.*/queues?\.py|.*Blocking(?:Queue|Deque)\.(?:put|offer)\(.*|<?std::sync::mpm?sc::.*Sync\w+<.*send"),
    (EVENTS, ALWAYS, r"runtime\.netpoll"),
    (
        QUEUE,
        ALWAYS,
        rf"_queue_SimpleQueue_get\w*|{_PY}get:.*/queues?\.py|{_PY}_handle_(?:workers|tasks|results):.*/multiprocessing/pool\.py",
    ),
    (QUEUE, ALWAYS, r"jemalloc_bg_thd|background_thread_entry|bioProcessBackgroundJobs|blas_thread_server|ap_queue_\w*pop\w*"),
    (QUEUE, ALWAYS, r"runtime\.(?:stopm|find[Rr]unnable|mPark|sysmon|templateThread)"),
    (
        QUEUE,
        ALWAYS,
        r"CompileBroker::compiler_thread_loop.*|(?:Linux)?AttachListener::.*|attach_listener_\w+.*|(?:WorkerThread|GangWorker|GCTaskThread)::(?:run|loop|wait_for_task).*",
    ),
    (QUEUE, ALWAYS, r"(?:VMThread|WatcherThread|MonitorDeflationThread|ServiceThread|(?:G1|Z|Shenandoah)\w*Thread)::.*|os::signal_wait.*"),
    (QUEUE, ALWAYS, r".*(?:ThreadPoolExecutor\.getTask|Blocking(?:Queue|Deque)\.(?:take|poll)|SynchronousQueue\.\w*)\(.*"),
    (QUEUE, ALWAYS, r".*(?:DelayedWorkQueue\.(?:take|poll)|ForkJoinPool\.awaitWork)\(.*"),
    (
        QUEUE,
        ALWAYS,
        r"node::(?:PlatformWorkerThread|.*TaskQueue.*BlockingPop|inspector::).*",
    ),
    (QUEUE, ALWAYS, r"<?tokio::.*::park(?:_internal|_condvar|_driver|_timeout)?|<?rayon_core::.*(?:Sleep::sleep|wait_until_cold).*"),
    (QUEUE, ALWAYS, r"<?(?:crossbeam_channel|std::sync::mpm?sc|flume)::.*recv.*"),
    (NOTIFICATION, ALWAYS, r"(?:.* )?v8::internal::(?:FutexEmulation::Wait|Builtin_AtomicsWait).*"),
    (SLEEP, ALWAYS, r"JVM_Sleep|JavaThread::sleep.*|.*java\.lang\.Thread\.sleep0?\(.*"),
    # What Python's standard library makes of locks. Classes are in the names since Python 3.11.
    (CHILD, ALWAYS, r"node::SyncProcessRunner::.*"),
    (CHILD, ALWAYS, rf"{_PY}(?:get|wait|join|next):.*/multiprocessing/pool\.py"),
    (CHILD, ALWAYS, rf"{_PY}(?:join|wait|poll):.*/multiprocessing/(?:process|popen_\w+)\.py|{_PY}_?(?:communicate|wait):.*/subprocess\.py"),
    (JOIN, IN_FUTEX, rf"{_PY}(?:join|_wait_for_tstate_lock|_shutdown):.*/threading\.py|ThreadHandle_join"),
    (BARRIER, IN_FUTEX, rf"{PYTHON_MARK}Barrier\.\w*wait:.*/threading\.py"),
    (
        SEMAPHORE,
        ALWAYS,
        rf"{PYTHON_MARK}(?:(?:Bounded)?Semaphore\.)?acquire:.*/threading\.py|.*java\.util\.concurrent\.Semaphore\.\w*[aA]cquire\w*\(.*",
    ),
    (RESULT, ALWAYS, rf"{_PY}(?:result|exception|wait|as_completed|_?result_or_cancel):.*/concurrent/futures/_base\.py"),
    (
        RESULT,
        ALWAYS,
        r".*java\.util\.concurrent\.(?:FutureTask|CompletableFuture|ForkJoinTask)\.(?:get|join|await\w*|timedGet|waitingGet|invoke)\(.*",
    ),
    (CONDITION, ALWAYS, rf"{_PY}(?:wait|wait_for):.*/threading\.py"),
    # the C library and others like it
    (JOIN, IN_FUTEX, r"_*pthread_(?:timed|clock)?join(?:_\w+)?|thrd_join|std::thread::join\(\)|.*java\.lang\.Thread\.join\(.*"),
    (RESULT, IN_FUTEX, r"std::(?:__future_base::_State_base|__basic_future<|future<|shared_future<|__assoc_sub_state).*"),
    (
        BARRIER,
        IN_FUTEX,
        r"<?std::sync::(?:\w+::)*Barrier>?::wait.*|_*pthread_barrier_wait|gomp_(?:team_)?barrier_wait\w*|__kmp_\w*barrier\w*",
    ),
    (CONDITION, IN_FUTEX, r".*LockSupport\.park\w*\(.*"),
    (FUTEX, IN_FUTEX, r"Parker::park.*"),  # of a Java program whose methods are unknown: a lock, or what it makes of parking
    (CONDITION, IN_FUTEX, r"_*pthread_cond_(?:timed|clock)?wait.*|std::condition_variable::.*|runtime\.notesleep"),
    (
        CONDITION,
        IN_FUTEX,
        r"ObjectMonitor::wait.*|<?(?:std::sy(?:s|nc)|parking_lot).*::[Cc]ondvar.*|<?std::(?:thread|sys::sync::thread_parking)::.*[Pp]ark(?:er)?\b.*",
    ),
    (LOCK, WITH_PYTHON, _PYTHON_LOCK),
    (FUTEX, IN_FUTEX, _PYTHON_LOCK),  # a lock, or what an unknown function of Python makes of it
    (LOCK, IN_FUTEX, r"_*pthread_(?:mutex|rwlock|spin)_(?:timed|clock)?(?:rd|wr)?lock.*|_*lll_(?:mutex_)?lock.*"),
    (LOCK, IN_FUTEX, r"runtime\.lock2?|<?(?:std::sys::.*|parking_lot.*)(?:Mutex|mutex|RwLock|rwlock).*"),
    (SEMAPHORE, IN_FUTEX, _SEMAPHORE.pattern),
    # the kernel
    (CHILD, ALWAYS, rf"(?:__)?do_wait|kernel_wait4|kernel_waitid|{_SYS}wait(?:4|id)"),
    (SLEEP, ALWAYS, rf"hrtimer_nanosleep|do_nanosleep|common_nsleep|{_SYS}(?:clock_)?nanosleep"),
    (FILE_LOCK, ALWAYS, rf"locks_lock_inode_wait|flock_lock_inode_wait|fcntl_setlk(?:64)?|{_SYS}flock"),
    (TERMINAL, ALWAYS, r"n_tty_read|tty_read"),
    (PIPE, ALWAYS, r"(?:anon_)?pipe_(?:read|write)|wait_for_partner|fifo_open"),
    (CLIENT, ALWAYS, r"inet_csk_accept|unix_accept"),
    (NETWORK, ALWAYS, r"tcp_(?:recv|send)msg.*|sk_(?:stream_)?wait_\w+|__skb_wait_for_more_packets|udp_recvmsg"),
    (NETWORK, ALWAYS, r"inet_(?:recv|stream)\w+|unix_(?:stream|dgram)_\w+|sock_recvmsg"),
    (EVENTS, ALWAYS, r"(?:do_)?ep(?:oll)?_(?:poll|wait)|do_sys_poll|do_poll|do_select|poll_schedule_timeout\S*|core_sys_select"),
    (EVENTS, ALWAYS, r"io_cqring_wait|(?:inotify|fanotify|eventfd|timerfd|evdev|perf|userfaultfd)_read\w*"),
    (SIGNAL, ALWAYS, rf"sigsuspend|do_sigtimedwait|signalfd_read\w*|{_SYS}(?:pause|rt_sig(?:suspend|timedwait))"),
    (FULL_QUEUE, ALWAYS, r"do_msgsnd|do_mq_timedsend"),
    (MESSAGE, ALWAYS, r"do_msgrcv|do_mq_timedreceive"),
    (SEMAPHORE, ALWAYS, r"_*do_semtimedop"),
    (KERNEL_LOCK, ALWAYS, r"rwsem_down_(?:read|write)_slowpath|__mutex_lock.*|mutex_lock.*|down_(?:read|write).*"),
    (DISK, ALWAYS, r"io_schedule\w*|folio_wait_\w+|wait_on_page_\w+|blk_\w+|submit_bio_wait|bio_\w+|jbd2_\w+|filemap_\w+"),
    (DISK, ALWAYS, r"(?:ext4|xfs|btrfs|vfs|file)_fsync\S*|(?:ext4|xfs)_sync_file|do_fsync|wait_for_completion_io|blkdev_\w+"),
    (DISK, ALWAYS, r"nfs_wait\w+|iomap_dio_\w+"),
    (CHILD, ALWAYS, r"kernel_clone|wait_for_vfork_done"),  # until it executes its program
    (FUTEX, ALWAYS, rf"(?:__)?futex_wait\w*|do_futex|{_SYS}futex"),
    # the C library alone, for recordings without the kernel's functions
    (CHILD, NO_KERNEL, r"(?:__)?wait(?:4|pid|id|3)?"),
    (SLEEP, NO_KERNEL, r"(?:__)?(?:clock_)?nanosleep\w*|usleep|sleep"),
    (FILE_LOCK, NO_KERNEL, r"(?:__)?flock"),
    (CLIENT, NO_KERNEL, r"(?:__)?(?:libc_)?accept4?"),
    (NETWORK, NO_KERNEL, r"(?:__)?(?:libc_)?(?:(?:recv|send)(?:from|to|msg|mmsg)?|connect)"),
    (EVENTS, NO_KERNEL, r"(?:__)?(?:libc_)?(?:poll|ppoll|select|pselect(?:64)?|epoll_p?wait2?)"),
    (SIGNAL, NO_KERNEL, r"(?:__)?(?:libc_)?pause|(?:__)?sig(?:suspend|wait|waitinfo|timedwait)"),
    (DISK, NO_KERNEL, r"(?:__)?(?:libc_)?(?:fsync|fdatasync|msync|sync|syncfs|sync_file_range)"),
    (INPUT, NO_KERNEL, r"(?:__)?(?:GI_)?(?:__)?(?:libc_)?(?:pread(?:v2?|64)?|readv?)"),
    (MESSAGE, NO_KERNEL, r"(?:__)?(?:mq_(?:timed)?receive|msgrcv)"),
    (FUTEX, NO_KERNEL, r"(?:__)?futex_(?:wait|abstimed_wait)\w*|_*lll_lock_wait\w*"),
)
#: neighbours with the same reason are one rule: a word has 64 bits
RULES: Final = tuple(
    (reason, when, "|".join(pattern for _, _, pattern in rules)) for (reason, when), rules in groupby(_RULES, key=lambda rule: rule[:2])
)
#: bits beside those of the rules
KERNEL_BIT: Final = 1 << len(RULES)  #: the callchain has functions of the kernel
PYTHON_BIT: Final = 2 << len(RULES)  #: the callchain has Python functions
_PARKED_BIT: Final = 4 << len(RULES)
OTHER_BITS: Final = len(RULES) + 3  #: the first bit for what is of use to the caller
_GIL_BIT: Final = 1 << next(number for number, rule in enumerate(RULES) if rule[0] == GIL)
_FUTEX_BIT: Final = 1 << next(number for number, rule in enumerate(RULES) if rule[0] == FUTEX and rule[1] == ALWAYS)
_SLEEP_BIT: Final = 1 << next(number for number, rule in enumerate(RULES) if rule[0] == SLEEP and "hrtimer_nanosleep" in rule[2])
_LOCK_BITS: Final = sum(1 << number for number, rule in enumerate(RULES) if rule[2] == _PYTHON_LOCK)


_CLONE: Final = re.compile(r"(?:\.(?:isra|constprop|part|cold)(?:\.\d+)*)+$")


class RuleBits:
    """The bits of the rules that a function's name matches; the patterns are compiled once, and only where there are waits."""

    def __init__(self) -> None:
        self._patterns = [(1 << number, re.compile(pattern)) for number, (_, _, pattern) in enumerate(RULES)]

    def of(self, name: str) -> int:
        """Return the bits of a function, without that of the kernel."""
        plain = _CLONE.sub("", name.partition("@")[0].removeprefix("__GI_"))
        if not plain:
            return 0
        bits = sum(bit for bit, pattern in self._patterns if pattern.fullmatch(plain))
        if plain == "_PyParkingLot_Park":
            return bits | _PARKED_BIT
        return bits | PYTHON_BIT if plain.startswith(PYTHON_MARK) else bits


def bits_of_python_call(name: str) -> int:
    """Return the bits of a function of the C library that CPython calls.

    A wait for a condition with a time limit is one for the GIL, a semaphore is one of Python's locks.
    """
    plain = name.partition("@")[0]
    if _TIMED_WAIT.fullmatch(plain):
        return _GIL_BIT
    return _LOCK_BITS if _SEMAPHORE.fullmatch(plain) else 0


def reasons_of(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the reason of each callchain by the bits of its functions: OTHER if no rule holds."""
    no_kernel = (bits & KERNEL_BIT) == 0
    in_futex = no_kernel | ((bits & _FUTEX_BIT) != 0)
    is_python, sleeps = (bits & PYTHON_BIT) != 0, no_kernel | ((bits & _SLEEP_BIT) != 0)
    holds = (np.ones(len(bits), np.bool_), in_futex, in_futex & is_python, no_kernel, sleeps, (bits & _PARKED_BIT) != 0)
    reasons = np.full(len(bits), OTHER, np.int64)
    for number, (reason, condition, _) in reversed([*enumerate(RULES)]):
        reasons[((bits & (1 << number)) != 0) & holds[condition]] = reason
    return reasons
