"""The verdict on a recording, as a sentence."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.filters import SampleFilter, TimeRanges
from perfpy.analysis.report.options import CallGraph, ChainOptions, ReportOptions, RowOptions
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.categories import LAMBDA, OWN, charge_kind, is_own_name
from perfpy.analysis.verdict.evidence import Evidence
from perfpy.cli import run
from perfpy.counts.comparison import Runs, compare_runs
from perfpy.perfdata.kept_files import ObservedCommand, ObservedFrame, ObservedState, decode_states, encode_states
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.verdict.comparisons import comparison_verdict
from perfpy.views.verdict.processes import _in_two
from perfpy.views.verdict.profile import profile_verdict
from perfpy.views.verdict.sentence import Sentence, function_text
from perfpy.views.verdict.waits import _helpers
from tests.builders.sampled_program import PID, Stack, sampled_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


# Tests of the verdict on recordings: each sentence is made above its threshold, and not below it.


#: stacks of waits, innermost first
FUTEX = ("schedule@kernel", "futex_wait@kernel", "do_futex@kernel")
LOCK = (*FUTEX, "pthread_mutex_lock@libc.so.6", "drain", "main")
SLEEP = ("schedule@kernel", "hrtimer_nanosleep@kernel", "clock_nanosleep@libc.so.6", "nap", "main")
CHILD = ("schedule@kernel", "do_wait@kernel", "wait4@libc.so.6", "run_tool", "main")
DISK = ("io_schedule@kernel", "folio_wait_bit@kernel", "fsync@libc.so.6", "save", "main")


def verdict(folder: Path, *stacks: Stack, **options: Any) -> list[Sentence]:
    """Return the verdict on an invented program."""
    path = sampled_program(folder, stacks, **options)
    symbols = SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms"))
    report_options = ReportOptions(chains=ChainOptions(CallGraph(order="caller"), children=True), rows=RowOptions(by_thread=True))
    with Recording(str(path)) as recording:
        return profile_verdict(recording.report(options=report_options, symbols=symbols), recording.data)


def texts(folder: Path, *stacks: Stack, **options: Any) -> list[str]:
    """Return the sentences."""
    return [sentence.text for sentence in verdict(folder, *stacks, **options)]


def test_a_hot_function_is_named_with_its_caller(tmp_path: Path) -> None:
    first, *rest = texts(tmp_path, Stack(("checksum", "audit", "main"), 800), Stack(("checksum", "main"), 170), Stack(("main",), 30))
    assert first == "97 % of the CPU time is in checksum(), called from audit() (80 %)."
    assert not rest


def test_a_function_of_a_library_that_several_functions_call_is_named_with_them(tmp_path: Path) -> None:
    """No own function is charged with as much."""
    stacks = [
        Stack(("std::find(int*)", "fetch", "main"), 300),
        Stack(("std::find(int*)", "hang", "main"), 250),
        Stack(("fetch", "main"), 150),
    ]
    inner = Stack(("equal", "std::find(int*)", "fetch", "main"), 300)
    assert texts(tmp_path, *stacks, inner)[0] == (
        "55 % of the CPU time is in std::find(), called from fetch() (30 %) and hang() (25 %), and 30 % in equal(), which it calls."
    )
    alone = texts(tmp_path, stacks[0]._replace(samples=450), Stack(("equal", "main"), 280), Stack(("main",), 270))[0]
    assert alone == "45 % of the CPU time is in std::find(), called from fetch()."
    assert "hang()" not in texts(tmp_path, stacks[2]._replace(samples=900), *stacks[:2], inner)[0]


def test_a_comprehension_is_not_called_from_the_function_that_it_stands_in(tmp_path: Path) -> None:
    stack = ("py::parse.<locals>.<listcomp>:/srv/a.py", "py::parse:/srv/a.py", "py::main:/srv/a.py")
    first, *_ = texts(tmp_path, Stack(tuple(f"{name}@jitted-0-1.so" for name in stack), 1000))
    assert first == "100 % of the CPU time is in a list comprehension in parse()."


def with_lines(folder: Path, stacks: Sequence[Stack], line_of: Callable[[str, int], int], **options: Any) -> list[str]:
    """Return the verdict on an invented program, whose functions begin in line 39 of a.c.

    line_of: returns the line of an address, given by its function and its distance from the function's begin, less 1 for callers.
    """
    path = sampled_program(folder, stacks, **options)
    symbols = SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms"))
    report_options = ReportOptions(chains=ChainOptions(CallGraph(order="caller"), children=True), rows=RowOptions(by_thread=True))
    with Recording(str(path)) as recording:
        report = recording.report(options=report_options, symbols=symbols)
        table = report.histograms[0].locations

        def lines(frames: NDArray[np.int64], are_callers: NDArray[np.bool_]) -> list[tuple[str, int] | None]:
            functions = [int(table.symbol[frame]) for frame in frames]
            offsets = [int(table.address[frame]) % 0x100 - int(is_caller) for frame, is_caller in zip(frames, are_callers, strict=True)]
            return [
                ("/src/a.c", line_of(table.symbols.name(function), offset)) for function, offset in zip(functions, offsets, strict=True)
            ]

        report.find_lines = lines
        report.find_begins = lambda functions: dict.fromkeys(functions, ("/src/a.c", 39))
        return [sentence.text for sentence in profile_verdict(report, recording.data)]


@pytest.mark.parametrize(("line", "where"), [(41, "(a.c:41)"), (7, "(inlined code at a.c:7)")])
def test_a_line_before_the_function_is_inlined_code(line: int, where: str, tmp_path: Path) -> None:
    stacks = [Stack(("checksum", "main"), 970), Stack(("main",), 30)]
    first, *_ = with_lines(tmp_path, stacks, lambda *_: line)
    assert first == f"97 % of the CPU time is in checksum() {where}, called from main()."


#: lines of the statements at offsets of an invented function: the begin, two calls, whose frames are 5 bytes behind them, and an addition
STATEMENTS = {4: 39, 0x10: 41, 0x20: 43, 0x30: 45}


def line_of_statement(_function: str, offset: int) -> int:
    return max(line for begin, line in STATEMENTS.items() if begin <= offset)


def test_the_line_of_a_wait_is_that_of_the_call(tmp_path: Path) -> None:
    """Not the line where the function begins, and the call that waits longest. The return address is in the next statement."""
    waits = [
        Stack(("schedule@kernel", "hrtimer_nanosleep@kernel", "clock_nanosleep@libc.so.6", f"nap+{offset}", "main"), count, state="S")
        for offset, count in ((0x20, 600), (0x30, 300))
    ]
    first, *_ = with_lines(tmp_path, [Stack(("main",), 20), *waits], line_of_statement)
    assert first == '"app" slept 0.9 s of 0.92 s, in nap() (0.6 s at a.c:41).', "the line has its own time"


def test_the_line_of_a_library_call_is_that_of_the_call(tmp_path: Path) -> None:
    """Also if more samples of the function itself are in another line than in any one call's."""
    calls = [Stack(("memmove@libc.so.6", f"copy+{offset}", "main"), count) for offset, count in ((32, 350), (16, 250))]
    stacks = [*calls, Stack(("copy+48", "main"), 400)]
    first, *_ = with_lines(tmp_path, stacks, line_of_statement)
    assert first == "60 % of the CPU time is in memmove(), called from copy() (35 % at a.c:41)."


def test_the_line_of_system_calls_is_that_of_the_call(tmp_path: Path) -> None:
    call = Stack(("vfs_read@kernel", "__x64_sys_pread64@kernel", "pread@libc.so.6", "ask+48", "main"), 600)
    first, *_ = with_lines(tmp_path, [call, Stack(("ask+16", "main"), 400)], line_of_statement)
    assert first == "100 % of the CPU time is in ask() (a.c:43) and the code it calls, mostly the system call pread64()."


def test_the_line_of_a_fault_is_not_that_before(tmp_path: Path) -> None:
    """The first frame of user space is the statement that was interrupted, no return address."""
    fault = Stack(("clear_page@kernel", "handle_mm_fault@kernel", "exc_page_fault@kernel", "touch+32", "main"), 800)
    first, *_ = with_lines(tmp_path, [fault, Stack(("touch+16", "main"), 200)], line_of_statement)
    assert first == "80 % of the CPU time is in page faults of touch() (a.c:43)."


def test_two_functions_are_named_together(tmp_path: Path) -> None:
    assert texts(tmp_path, Stack(("spin", "parse", "main"), 600), Stack(("hash", "main"), 400)) == [
        "60 % of the CPU time is in spin(), called from parse(), and 40 % is in hash(), called from main()."
    ]
    (first,) = texts(tmp_path, *(Stack((f"step{number}",), count) for number, count in enumerate((400, 320, 280))))
    assert first == "40 % of the CPU time is in step0(), 32 % in step1() and 28 % in step2()."


def test_the_caller_of_all_named_functions_is_told_once(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, *(Stack((name, "main"), count) for name, count in (("read", 400), ("sort", 320), ("write", 280))))
    assert first == "40 % of the CPU time is in read(), 32 % in sort() and 28 % in write(), all called from main()."


def test_functions_of_about_equal_shares_are_named_together(tmp_path: Path) -> None:
    rest = [Stack((f"rest{number}", "main"), 4) for number in range(20)]
    first, *_ = texts(tmp_path, *(Stack((name, "main"), count) for name, count in (("parse", 96), ("find", 92), ("store", 68))), *rest)
    assert first == "29 % of the CPU time is in parse(), 27 % in find() and 20 % in store(), all called from main()."


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, Stack(("fib", "fib", "fib", "main"), 900), Stack(("fib", "main"), 100))
    assert first == "100 % of the CPU time is in fib(), which calls itself and is called from main()."


def test_a_library_function_is_named_with_the_own_code_that_calls_it(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, Stack(("memmove@libc.so.6", "copy_rows", "main"), 940), Stack(("main",), 60))
    assert first == "94 % of the CPU time is in memmove(), called from copy_rows()."


def test_several_library_functions_are_reported_as_the_code_that_a_function_calls(tmp_path: Path) -> None:
    counts = {"malloc": 320, "free": 370, "unlink_chunk": 300}
    leafs = [Stack((f"{name}@libc.so.6", "build", "main"), count) for name, count in counts.items()]
    (first,) = texts(tmp_path, *leafs, Stack(("main",), 10))
    assert first == "99 % of the CPU time is in build() and the code it calls (free() and malloc())."


def test_a_second_function_that_calls_the_same_library_is_named_too(tmp_path: Path) -> None:
    def calls(own: str, count: int) -> list[Stack]:
        return [Stack((f"{name}@libc.so.6", own, "main"), count) for name in ("malloc", "free", "unlink_chunk")]

    first, *_ = texts(tmp_path, *calls("canonical_host", 150), *calls("accepts", 130), Stack(("main",), 160))
    assert first == (
        "45 % of the CPU time is in canonical_host() and the code it calls (malloc() and free()), and 39 % is in accepts() and the code it"
        " calls."
    )


def test_page_faults_and_system_calls_are_named(tmp_path: Path) -> None:
    fault = Stack(("clear_page@kernel", "handle_mm_fault@kernel", "exc_page_fault@kernel", "touch", "main"), 800)
    (first,) = texts(tmp_path, fault, Stack(("touch", "main"), 200))
    assert first == "80 % of the CPU time is in page faults of touch()."
    call = Stack(("vfs_read@kernel", "__x64_sys_pread64@kernel", "pread@libc.so.6", "ask", "main"), 800)
    (first,) = texts(tmp_path, call, Stack(("ask", "main"), 200))
    assert first == "80 % of the CPU time is in the system call pread64() of ask()."


def test_a_function_that_only_yields_its_cpu_waits_in_a_loop(tmp_path: Path) -> None:
    call = Stack(("do_sched_yield@kernel", "__x64_sys_sched_yield@kernel", "sched_yield@libc.so.6", "wait_for_flag", "main"), 900)
    (first,) = texts(tmp_path, call, Stack(("wait_for_flag", "main"), 100))
    assert first == "90 % of the CPU time is in the system call sched_yield() of wait_for_flag(), which waits in a loop."
    (first,) = texts(tmp_path, call._replace(samples=700), Stack(("wait_for_flag", "main"), 300))  # it works, and lets others run at times
    assert "mostly the system call sched_yield()" in first
    assert "waits" not in first
    assert not [text for text in texts(tmp_path, call._replace(samples=30), Stack(("compute", "main"), 970)) if "yield" in text]


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (0, "80 % of the CPU time is in the system call pread64() of ask()."),
        (40, "100 % of the CPU time is in ask() and the code it calls, mostly the system call pread64()."),
    ],
)
def test_the_way_into_the_kernel_belongs_to_the_only_system_call(others: int, text: str, tmp_path: Path) -> None:
    way = ("do_syscall_64@kernel", "entry_SYSCALL_64_after_hwframe@kernel")
    stacks = [
        Stack(("vfs_read@kernel", "__x64_sys_pread64@kernel", *way, "pread@libc.so.6", "ask", "main"), 500),
        Stack((*way, "pread@libc.so.6", "ask", "main"), 300),
        Stack(("vfs_write@kernel", "__x64_sys_write@kernel", *way, "write@libc.so.6", "ask", "main"), others),
        Stack(("ask", "main"), 200 - others),
    ]
    assert texts(tmp_path, *stacks)[0] == text


def test_processes_that_wait_are_no_threads(tmp_path: Path) -> None:
    waits = [Stack(DISK, 500, tid=pid, pid=pid, state="D") for pid in (100, 200)]
    first, *_ = texts(tmp_path, Stack(("main",), 20), *waits, seconds=1.0)
    assert first == "Two processes waited 1 s in total for the disk, in save()."


def test_children_that_use_cpus_or_wait_for_one_are_no_wait_of_their_parent(tmp_path: Path) -> None:
    parent = Stack(CHILD, 900, state="S")
    child = [Stack(("compile", "main"), 300, tid=200, pid=200), Stack(("schedule@kernel", "compile"), 600, tid=200, pid=200, state="R")]
    first, *_ = texts(tmp_path, parent, *child, seconds=0.95)
    assert first.startswith("100 % of the CPU time is in compile()")


def test_a_wait_for_events_is_not_hidden_by_a_shorter_one_for_a_cpu(tmp_path: Path) -> None:
    poll = ("schedule@kernel", "do_sys_poll@kernel", "poll@libc.so.6", "receive")
    first, *_ = texts(
        tmp_path, Stack(poll, 700, state="S"), Stack(("schedule@kernel", "receive"), 250, state="R"), Stack(("main",), 20), seconds=1.0
    )
    assert first == '"app" waited 0.7 s of 1 s for events, in receive().'


def test_short_waits_for_cpus_of_many_threads_are_no_work(tmp_path: Path) -> None:
    """On a busy machine, the threads of a runtime wait for a CPU at the same time; their sum explains nothing."""
    poll = ("schedule@kernel", "do_sys_poll@kernel", "poll@libc.so.6", "receive")
    in_queue = [Stack(("schedule@kernel", "start_thread@libc.so.6"), 150, tid=tid, state="R") for tid in (100, 101, 102, 103, 104, 105)]
    first, *_ = texts(tmp_path, Stack(poll, 800, state="S"), *in_queue, Stack(("main",), 20), threads=range(101, 106), seconds=1.0)
    assert first == '"app" waited 0.8 s of 1 s for events, in receive().'


def test_locks_of_a_runtimes_own_threads_are_no_cause(tmp_path: Path) -> None:
    """Nor are waits for a condition with a time limit waits for Python's lock in other runtimes."""
    idle = [Stack((*FUTEX, "sem_wait@libc.so.6", "start_thread@libc.so.6"), 900, tid=tid, state="S") for tid in (101, 102)]
    (first,) = texts(tmp_path, Stack(("work", "main"), 900), *idle, seconds=1.0)
    assert first == "100 % of the CPU time is in work(), called from main()."


def test_threads_that_wait_elsewhere_do_not_count(tmp_path: Path) -> None:
    elsewhere = (*LOCK[:4], "start", "main")
    stacks = [Stack(LOCK, 900, tid=101, state="S"), Stack(LOCK, 800, tid=102, state="S"), Stack(elsewhere, 90, tid=103, state="S")]
    first, *_ = texts(tmp_path, Stack(("main",), 20), *stacks, seconds=1.0)
    assert first == "Two threads waited 1.7 s in total for a lock, in drain()."


def test_a_flat_profile_is_reported(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, *(Stack((f"step{number}", "main"), 50 + (number == 7)) for number in range(20)))
    assert first == "No function stands out: the largest, step7(), has 5 % of the CPU time."


def steps(caller: tuple[str, ...], samples: int) -> list[Stack]:
    return [Stack((f"step{number}", *caller), samples) for number in range(10)]


def test_a_function_whose_callees_take_half_of_the_time_is_named(tmp_path: Path) -> None:
    """Although it has no samples of its own: what its time is spent in are many small functions."""
    rest = [Stack((f"other{number}", "main"), 50) for number in range(10)]
    (first,) = texts(tmp_path, *steps(("sort_all", "run", "main"), 60), *rest)
    assert first == "55 % of the CPU time is in sort_all() and the code it calls, called from run()."
    (first,) = texts(tmp_path, *steps(("sort_all", "sort_all", "main"), 60), *rest)
    assert first == "55 % of the CPU time is in sort_all() and the code it calls, called from main()."
    (first,) = texts(tmp_path, *steps(("main::{lambda(int)#1}::operator()", "main"), 60), *rest)
    assert first.startswith("No function stands out"), "a lambda counts for the function that it stands in"
    (first,) = texts(tmp_path, *steps(("sort_all", "main"), 20), *rest)
    assert first.startswith("No function stands out"), "too little"


@pytest.mark.parametrize(
    ("samples", "begins"),
    [
        (5, "Only 5 samples, all of them in work(): too few for percentages"),
        (25, "Only 25 samples: shares are uncertain"),
    ],
)
def test_few_samples_come_first(samples: int, begins: str, tmp_path: Path) -> None:
    assert texts(tmp_path, Stack(("work", "main"), samples))[0].startswith(begins)


def test_of_mostly_lost_samples_nothing_else_is_told(tmp_path: Path) -> None:
    (only,) = verdict(tmp_path, Stack(("work", "main"), 300), lost=700)
    assert only.rule == "lost samples"
    assert only.text.startswith("70 % of the samples were lost: the others do not represent the program; record with a larger buffer")


def test_some_lost_samples_come_first(tmp_path: Path) -> None:
    first, second = verdict(tmp_path, Stack(("work", "main"), 800), lost=200)
    assert first.text.startswith("20 % of the samples were lost: shares are uncertain")
    assert second.rule == "hot function"
    assert len(verdict(tmp_path, Stack(("work", "main"), 800), lost=20)) == 1


def test_what_one_event_lost_says_nothing_about_the_others(tmp_path: Path) -> None:
    """Shares of the CPU time stay true without switches, and waits without samples of the CPU time."""
    stacks = Stack(("work", "main"), 300), Stack(SLEEP, 5, state="S", weight=1000)
    first, *rest = verdict(tmp_path, *stacks, lost=900)
    assert first.text.startswith("75 % of the samples were lost: the others do not represent the program; record with a larger buffer")
    assert [one.rule for one in rest] == ["longest wait"]
    first, *rest = verdict(tmp_path, *stacks, lost_switches=900)
    assert first.text.startswith("900 context switches were lost: the times of waits are uncertain; record with a larger buffer")
    assert [one.rule for one in rest] == ["hot function"]
    assert len(verdict(tmp_path, *stacks, lost=900, lost_switches=900)) == 2, "neither is known"
    assert not any("lost" in one.rule for one in verdict(tmp_path, *stacks, lost=20, lost_switches=1))


def test_waits_with_the_stacks_of_others_tell_so(tmp_path: Path) -> None:
    own, others = Stack(SLEEP, 3, state="S", weight=1000), Stack(SLEEP, 7, state="S", weight=1000, like_others=True)
    (sentence,) = texts(tmp_path, own, others)
    assert sentence == '"app" slept 10 s of 10 s (by the stacks of 30 % of these waits), in nap().'


def test_few_damaged_samples_without_a_period_are_in_no_function(tmp_path: Path) -> None:
    (only,) = texts(tmp_path, Stack(("work", "main"), 5, weight=0))
    assert only.startswith("Only 5 samples: too few for ")


def test_damaged_periods_beyond_63_bits_name_no_function(tmp_path: Path) -> None:
    """Each function's sum is below zero, that of all wraps around to above."""
    damaged = [Stack((name, "main"), 1, weight=10**13) for name in ("work", "rest")]
    rules = [one.rule for one in verdict(tmp_path, *damaged, Stack(("more", "main"), 300, weight=0))]
    assert "hot function" not in rules


def test_shares_of_few_samples_are_reported_without_numbers(tmp_path: Path) -> None:
    few, hot = texts(tmp_path, Stack(("work", "main"), 20), Stack(("rest", "main"), 5))
    assert few.startswith("Only 25 samples")
    assert hot == "Most of the CPU time is in work(), called from main()."


def test_an_uncertain_share_is_not_mentioned(tmp_path: Path) -> None:
    rules = [one.rule for one in verdict(tmp_path, Stack(("work", "main"), 5), Stack(("rest", "main"), 6), Stack(("more", "main"), 5))]
    assert rules == ["few samples"]


def test_code_without_symbols_is_reported(tmp_path: Path) -> None:
    assert texts(tmp_path, Stack(("",), 300))[0] == "100 % of the CPU time is in code of app without symbols."


def test_an_interpreter_is_reported_with_the_option_that_names_its_functions(tmp_path: Path) -> None:
    frames = Stack(("_PyEval_EvalFrameDefault@python3.11", "PyObject_Call@python3.11"), 900)
    (first,) = texts(tmp_path, frames, Stack(("malloc@libc.so.6",), 100))
    assert first == "90 % of the CPU time is in the interpreter (python3.11); record --python names its functions."


def test_an_option_in_use_is_not_advised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sampled_program(tmp_path, [Stack(("_PyEval_EvalFrameDefault@python3.11", "PyObject_Call@python3.11"), 900)])
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    options = ReportOptions(chains=ChainOptions(CallGraph(order="caller"), children=True), rows=RowOptions(by_thread=True))
    with Recording(str(path)) as recording:
        monkeypatch.setitem(recording.data.features, "cmdline", ["perfpy", "record", "--python", "./app"])
        first = profile_verdict(recording.report(options=options, symbols=symbols), recording.data)[0].text
    assert first == "100 % of the CPU time is in the interpreter (python3.11)."


def test_many_functions_of_an_interpreter_are_reported_together(tmp_path: Path) -> None:
    """Otherwise a report of a Python program says that no function stands out."""
    python = [Stack((f"helper{number}@python3.11",), 80) for number in range(10)]
    (first,) = texts(tmp_path, *python, Stack(("malloc@libc.so.6",), 200))
    assert first == "80 % of the CPU time is in the interpreter (python3.11); record --python names its functions."
    (first,) = texts(tmp_path, *python[:4], *(Stack((f"work{number}",), 80) for number in range(8)))
    assert first.startswith("No function stands out")


MARK = "py::[event loop blocked for over 100 ms]:<asyncio>@jitted-0-1.so"
RUN = "py::Handle._run:/usr/lib/python3/asyncio/events.py@jitted-0-1.so"
TURN = "py::BaseEventLoop._run_once:/usr/lib/python3/asyncio/base_events.py@jitted-0-1.so"


def own(name: str) -> str:
    return f"py::{name}:/srv/app.py@jitted-0-1.so"


def test_scripts_that_start_a_package_are_not_charged_with_its_time(tmp_path: Path) -> None:
    def started_by(path: str, *stacks: tuple[tuple[str, ...], int]) -> str:
        script = f"py::<module>:{path}@jitted-0-1.so"
        return " ".join(texts(tmp_path, *(Stack((*names, script), samples) for names, samples in stacks)))

    package = "py::serve:/srv/v/lib/python3.12/site-packages/gunicorn/sync.py@jitted-0-1.so"
    served = (((own("crunch"), package), 600), ((package,), 400))
    assert started_by("/srv/v/bin/gunicorn", *served) == "60 % of the CPU time is in crunch()."
    assert "40 % is in gunicorn.serve() of the top level of server.py" in started_by("/srv/v/bin/server.py", *served)
    assert "40 % is in gunicorn.serve() of the top level of report" in started_by("/home/me/report", *served)
    # a program of one's own in such a folder: alone, and with work of its own
    assert "the top level of report" in started_by("/home/me/bin/report", ((package,), 1000))
    assert "the top level of report" in started_by("/home/me/bin/report", ((own("crunch"),), 400), ((), 600))


def library(name: str, path: str) -> str:
    return f"py::{name}:/usr/lib/python3.12/{path}@jitted-0-1.so"


IMPORT = library("_find_and_load", "").replace("/usr/lib/python3.12/", "<frozen importlib._bootstrap>")
EXEC = "py::exec:<built-in>@jitted-0-1.so"


def imported(*path: str) -> tuple[str, ...]:
    """Return the frames of modules that import each other, innermost first, and the way by which each is imported."""
    return tuple(frame for module in path for frame in (library("<module>", module), EXEC, IMPORT))


def test_the_function_of_a_library_that_a_line_calls_is_named(tmp_path: Path) -> None:
    inner = tuple(library(name, "logging/__init__.py") for name in ("emit", "handle"))
    log = library("Logger.info", "logging/__init__.py")
    (text,) = texts(tmp_path, *(Stack((one, log, own("run")), 450) for one in inner), Stack((own("run"),), 100))
    assert text == "90 % of the CPU time is in logging.Logger.info() of run(): 45 % in logging.handle() and 45 % in logging.emit()."
    (text,) = texts(tmp_path, Stack((log, own("run")), 500), Stack((library("dumps", "json/__init__.py"), own("run")), 500))
    assert text == "100 % of the CPU time is in run()."  # neither of both
    (text,) = texts(tmp_path, Stack((log, own("run")), 700), Stack((library("dumps", "json/__init__.py"), own("run")), 300))
    assert text == "100 % of the CPU time is in run() (mostly logging.Logger.info())."
    through = (own("spread"), library("SeriesGroupBy.apply", "site-packages/pandas/core/groupby/generic.py"), own("by_shop"))
    (text,) = texts(tmp_path, Stack(through, 900), Stack((own("by_shop"),), 100))
    assert text == "90 % of the CPU time is in spread(), called by pandas.SeriesGroupBy.apply() in by_shop()."
    wrapped = (own("spread"), library("wraps.<locals>.inner", "functools.py"), own("by_shop"))
    (text,) = texts(tmp_path, Stack(wrapped, 900), Stack((own("by_shop"),), 100))
    assert text == "90 % of the CPU time is in spread(), called from by_shop()."  # decorators tell nothing


def test_the_time_of_a_library_function_is_told_with_its_parts(tmp_path: Path) -> None:
    """A part with most of the time is divided again; the function that takes it itself is not; own code that the library calls counts."""
    log = (library("Logger.info", "logging/__init__.py"), own("run"))
    handle = (library("Handler.emit", "logging/__init__.py"), library("Handler.handle", "logging/__init__.py"), *log)
    stacks = [
        Stack((library("format", "logging/__init__.py"), *handle), 300),
        Stack((library("StreamHandler.flush", "logging/__init__.py"), *handle), 250),
        Stack((own("redact"), *handle), 50),
        Stack((library("Logger.makeRecord", "logging/__init__.py"), *log), 200),
        Stack((library("Logger.findCaller", "logging/__init__.py"), *log), 30),
        Stack((own("run"),), 170),
    ]
    (text,) = texts(tmp_path, *stacks)
    parts = "30 % in logging.format(), 25 % in StreamHandler.flush() and 20 % in Logger.makeRecord()"
    assert text == f"83 % of the CPU time is in logging.Logger.info() of run(): {parts}."
    (text,) = texts(tmp_path, Stack((library("loads", "json/__init__.py"), own("run")), 600), Stack((own("run"),), 100))
    assert text == "86 % of the CPU time is in json.loads() of run()."  # all of it is its own
    inner = Stack((library("scan", "json/__init__.py"), library("loads", "json/__init__.py"), own("run")), 600)
    (text,) = texts(tmp_path, inner, Stack((own("run"),), 100))
    assert text == "86 % of the CPU time is in json.loads() of run(): 86 % in json.scan()."


def match(samples: int) -> Stack:
    """Return samples in a C function that own code calls."""
    return Stack(("py::re.Pattern.match:<built-in>@jitted-0-1.so", own("is_valid")), samples)


def test_long_stretches_of_a_c_function_are_told(tmp_path: Path) -> None:
    others = [Stack((own("read"),), 10), match(2), Stack((own("main"),), 10)]
    first, *_ = texts(tmp_path, *(stack for _ in range(6) for stack in (match(80), *others)))
    stretches = "98 % of that in six stretches of 80 ms without other samples: few of its calls may take the time"
    assert first == f"80 % of the CPU time is in re.Pattern.match() of is_valid(); {stretches}."
    # the same share in random order, and without anything beside
    mixed = [match(4) if random.Random(number).random() < 0.8 else Stack((own(f"f{number % 3}"),), 4) for number in range(150)]
    first, *_ = texts(tmp_path, *mixed)
    assert "stretches" not in first
    assert "re.Pattern.match()" in first
    first, *_ = texts(tmp_path, match(600))
    assert first == "100 % of the CPU time is in re.Pattern.match() of is_valid()."


@pytest.mark.parametrize("order", ["caller", "callee"])
def test_imports_within_imports_are_deeper_than_trees(order: str, tmp_path: Path) -> None:
    """The trees of perf's text have 127 frames, which begin with callers; modules have the names by which they are imported."""
    chain = [own("build"), "py::<module>:/srv/shop/tables.py@jitted-0-1.so"]
    for number in range(60):
        chain += [EXEC, IMPORT, f"py::<module>:/srv/part{number}.py@jitted-0-1.so"]
    package = "py::<module>:/srv/shop/__init__.py@jitted-0-1.so"
    path = sampled_program(tmp_path, [Stack((*chain, EXEC, IMPORT, package, EXEC, IMPORT, own("<module>")), 1000)])
    options = ReportOptions(chains=ChainOptions(CallGraph(order=order), children=True), rows=RowOptions(by_thread=True))
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    with Recording(str(path)) as recording:
        first, second, *_ = profile_verdict(recording.report(options=options, symbols=symbols), recording.data)
    assert first.text == "100 % of the CPU time (1 s) is in imports, above all of shop.tables (1 s, 100 %)."
    assert second.text.startswith("100 % of the CPU time is in build()")


def test_imports_are_told_with_their_modules(tmp_path: Path) -> None:
    """Modules of a library count for the one that the program imports, own modules for themselves."""
    top, module = own("<module>"), "py::<module>:/srv/tables.py@jitted-0-1.so"
    first, second = texts(
        tmp_path,
        Stack((own("build"), module, EXEC, IMPORT, top), 500),
        Stack((*imported("ssl.py", "email/utils.py", "email/mime/text.py"), top), 150),
        Stack((*imported("email/mime/text.py"), top), 150),
        Stack((own("work"), top), 200),
    )
    assert first == "80 % of the CPU time (0.8 s) is in imports, above all of tables.py (0.5 s, 50 %) and email.mime.text (0.3 s, 30 %)."
    assert second.startswith("50 % of the CPU time is in build()")
    assert "30 % is in the import of email.mime.text of the top level of app.py" in second
    few = texts(tmp_path, Stack((*imported("ssl.py"), top), 300), Stack((own("work"), top), 700))
    assert not any("in imports" in text for text in few)
    # python -m NAME runs the module by exec()
    started = (library("<module>", "site-packages/tool/__main__.py"), EXEC, "py::_run_code:<frozen runpy>@jitted-0-1.so")
    run = texts(tmp_path, Stack((own("work"), *started), 600), Stack((*imported("ssl.py"), *started), 400))
    assert not any("in imports" in text for text in run)


def test_callbacks_that_block_an_event_loop_are_reported(tmp_path: Path) -> None:
    crunch = (own("add"), own("crunch"), own("handle"), RUN, MARK, TURN)
    quick = (own("add"), own("crunch"), own("quick"), RUN, TURN)
    _, second = texts(
        tmp_path, Stack(crunch, 400), Stack((own("crunch"), *crunch[2:]), 100), Stack(quick, 300), Stack((own("serve"),), 200)
    )
    assert second == "Long callbacks blocked the event loop for at least 0.5 s of 1 s, in crunch()."
    sentences = verdict(tmp_path, Stack(crunch, 30), Stack(quick, 970))
    assert not [one for one in sentences if one.rule == "blocked loop"], "too short to matter"


def test_waits_for_the_gil_are_charged_to_the_functions_that_wait(tmp_path: Path) -> None:
    """However many threads hold it."""
    futex = ("schedule@kernel", "futex_wait@kernel", "do_futex@kernel", "take_gil@python3.11")
    stacks = [
        Stack(
            (*futex, f"py::[GIL held by crunch, thread {tid}]:/srv/app.py@jitted-0-1.so", own("crunch")), 2, state="S", weight=200, tid=tid
        )
        for tid in range(101, 105)
    ]
    sentences = verdict(tmp_path, *stacks, Stack((own("crunch"),), 400), seconds=1.0, threads=range(101, 105))
    (wait,) = [one for one in sentences if one.rule == "longest wait"]
    assert wait.text == "Four threads waited 1.6 s in total for Python's global interpreter lock (GIL), in crunch()."


def test_waits_that_are_joined_with_cpu_time_have_the_same_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The frames of interpreters, which show the reasons, are left out of the rows."""
    inside = (*FUTEX, "pthread_cond_timedwait@libc.so.6", "take_gil@python3.11", "_PyEval_EvalFrameDefault@python3.11", own("crunch"))
    stacks = [Stack(inside, 2, state="S", weight=400, tid=tid) for tid in (101, 102)]
    path = sampled_program(tmp_path, [*stacks, Stack((own("crunch"),), 400)], seconds=1.0, threads=(101, 102))
    command = [
        "report",
        "--verdict",
        "--fold-interpreters",
        "-i",
        str(path),
        "--symfs",
        str(tmp_path),
        "--kallsyms",
        str(tmp_path / "kallsyms"),
    ]
    answers = []
    for options in ([], ["--with-off-cpu"]):
        assert run([*command, *options]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0].startswith("Two threads waited 1.6 s in total for Python's global interpreter lock (GIL), in crunch().")
    assert answers[1] == answers[0]


def test_long_callbacks_of_many_functions_have_no_name(tmp_path: Path) -> None:
    stacks = [Stack((own(f"step{number}"), RUN, MARK, TURN), 100) for number in range(5)]
    _, second, *_ = texts(tmp_path, *stacks, Stack((own("serve"),), 500))
    assert second == "Long callbacks blocked the event loop for at least 0.5 s of 1 s."


def test_waits_in_callbacks_block_the_loop(tmp_path: Path) -> None:
    nap = ("schedule@kernel", "hrtimer_nanosleep@kernel", "clock_nanosleep@libc.so.6", own("nap"), own("main"), RUN, TURN)
    sentences = verdict(tmp_path, Stack(nap, 4, state="S", weight=200), Stack((own("nap"), RUN, TURN), 50), seconds=1.0)
    (blocked,) = [one for one in sentences if one.rule == "blocked loop"]
    assert blocked.text == "Long callbacks blocked the event loop for at least 0.8 s of 0.98 s, in nap()."
    (blocked, *_) = verdict(tmp_path, Stack(nap, 5, state="S", weight=190), Stack((own("nap"), RUN, TURN), 5), seconds=1.0)
    assert blocked.text.startswith("Long callbacks blocked the event loop for 0.95 s of "), "all the time: no lower bound"
    sentences = verdict(tmp_path, Stack(nap, 40, state="S", weight=20), Stack((own("nap"), RUN, TURN), 50), seconds=1.0)
    assert not [one for one in sentences if one.rule == "blocked loop"], "waits below 100 ms"
    poll = (*nap[:3], TURN)
    sentences = verdict(tmp_path, Stack(poll, 4, state="S", weight=200), Stack((own("nap"), RUN, TURN), 50), seconds=1.0)
    assert not [one for one in sentences if one.rule == "blocked loop"], "the loop itself waits for events"


def test_the_busy_thread_of_eight(tmp_path: Path) -> None:
    tids = range(101, 108)
    (first,) = texts(tmp_path, Stack(("crunch", "work"), 980, tid=103), Stack(("main",), 20), threads=tids)
    assert first == "98 % of the CPU time is in crunch(), called from work(); one thread of eight is busy."
    (first,) = texts(tmp_path, *(Stack(("crunch", "work"), 120, tid=tid) for tid in tids), threads=tids)
    assert "thread" not in first


def test_started_processes_come_first(tmp_path: Path) -> None:
    storm = Stack(("copy_process@kernel", "__x64_sys_clone@kernel", "fork@libc.so.6", "spawn"), 900)
    first, *_ = texts(tmp_path, storm, Stack(("spawn",), 100), started=300)
    expected = '"app" forked 300 processes in 1 s, in spawn(); 90 % of the CPU time is in the kernel.'
    assert first == expected
    assert "started" not in texts(tmp_path, storm, started=20)[0]
    first, *_ = texts(tmp_path, storm, Stack(("spawn",), 100), started=300, executes="ls")
    assert first == '"app" started 300 processes of "ls" in 1 s, in spawn(); 90 % of the CPU time is in the kernel.'


def test_the_program_between_that_starts_most_processes_is_told(tmp_path: Path) -> None:
    first, *_ = texts(tmp_path, Stack(("main",), 900), started=300, executes="cut", creator="mark.sh")
    assert first == (
        '"app" and its children started 270 processes of "cut" in 0.9 s (300 a second), all of them by 30 processes of "mark.sh".'
    )


def test_a_long_sentence_on_started_processes_is_two(tmp_path: Path) -> None:
    """A headline of three lines is not read."""
    children = [Stack(("main",), 3, tid=10_000 + number, pid=10_000 + number) for number in range(300)]
    options = {"started": 300, "executes": "a-long-program", "creator": "a-long-script", "comm": "a-long-starter", "from_start": True}
    waits = Stack(CHILD, 100, state="S", weight=9)
    first, *rest = texts(tmp_path, *children, Stack(("main",), 9), waits, **options)
    assert first == (
        '89 % of the CPU time is in 270 processes of "a-long-program", which "a-long-starter" and its children started in 1 s; '
        "their parents wait for them in run_tool()."
    )
    assert rest[-1] == '30 processes of "a-long-script" started all of the 270 processes.'


def test_the_programs_of_started_processes_are_a_sentence_if_the_first_one_is_long() -> None:
    programs, through = '444 of "python", 15 of "cat" and 23 copies of their parents', '444 processes of "python"'
    who = f"in 512 processes ({programs})"
    long = f'91 % of the CPU time is {who}, which "a" started in 10 s, 84 % of them by {through}; they wait for them in f().'
    first, second = _in_two(Sentence("started processes", long, {}), 512, programs, "84 %", through)
    assert first.text == '91 % of the CPU time is in 512 processes, which "a" started in 10 s; they wait for them in f().'
    assert second.text == f"The 512 processes are {programs}; {through} started 84 % of them."
    short = Sentence("started processes", f'9 processes ({programs}), which "a" started.', {})
    assert [*_in_two(short, 9, programs, "", "")] == [short]


def test_the_cost_of_started_processes_is_said_with_the_place_that_starts_them(tmp_path: Path) -> None:
    children = [Stack(("main",), 3, tid=10_000 + number, pid=10_000 + number) for number in range(270)]
    waits = Stack(CHILD, 100, state="S", weight=9)
    first, *rest = texts(tmp_path, *children, Stack(("main",), 90), waits, started=270, executes="ls")
    rest = [text for text in rest if "child" in text]
    assert first == '90 % of the CPU time is in 270 processes of "ls", which "app" started in 1 s; it waits for them in run_tool().'
    assert not rest  # the wait for them is the same thing


def test_processes_of_a_script_that_executed_the_program_are_not_its(tmp_path: Path) -> None:
    children = [Stack(("main",), 90, tid=10_000 + number, pid=10_000 + number) for number in range(40, 46)]
    waits = Stack(CHILD, 100, state="S", weight=9)
    first, *_ = texts(tmp_path, *children, Stack(("main",), 60), waits, started=46, started_before=40, executes="python3")
    assert first == '90 % of the CPU time is in 6 processes of "python3", which "app" started; it waits for them in run_tool().'


def test_the_time_for_started_processes_is_told_by_the_functions_that_wait(tmp_path: Path) -> None:
    children = [Stack(("main",), 1, tid=10_000 + number, pid=10_000 + number) for number in range(100)]
    waits = [Stack(CHILD, 70, state="S", weight=9), Stack((*CHILD[:3], "compile", "main"), 30, state="S", weight=9)]
    _, second, *_ = texts(tmp_path, *children, *waits, started=100, executes="ls", seconds=1.0)
    assert second == '"app" waited 0.9 s of 0.99 s for them: 70 % in run_tool() and 30 % in compile().'


def test_a_thread_that_waits_for_others_is_told_if_there_are_none(tmp_path: Path) -> None:
    receive = Stack((*FUTEX, "std::sync::mpsc::Receiver<T>::recv", "finch::tray", "finch::main"), 9, state="S", weight=100)
    (first,) = texts(tmp_path, Stack(("main",), 5), receive, seconds=0.9)
    assert first == '"app" waited 0.9 s of 0.9 s for a message of a channel, in finch::tray(); its process has no other thread.'
    (first,) = texts(tmp_path, Stack(("main",), 5), receive, seconds=0.9, threads=[101])
    assert first == '"app" waited 0.9 s of 0.9 s for a message of a channel, in finch::tray().'
    value = Stack((*FUTEX, "std::__future_base::_State_baseV2::wait", "fetch", "main"), 9, state="S", weight=100)
    (first,) = texts(tmp_path, Stack(("main",), 5), value, seconds=0.9, threads=[101])
    assert "for the value of a future, in fetch()" in first


def test_a_program_that_reads_the_output_of_its_children_waits_where_it_reads(tmp_path: Path) -> None:
    children = [Stack(("main",), 3, tid=10_000 + number, pid=10_000 + number) for number in range(270)]
    read = ("schedule@kernel", "pipe_read@kernel", "read@libc.so.6", "func_shell", "main")
    waits = [Stack(CHILD, 100, state="S", weight=1), Stack(read, 10, state="S", weight=90)]
    first, *_ = texts(tmp_path, *children, Stack(("main",), 90), *waits, started=270, executes="ls")
    assert first == '90 % of the CPU time is in 270 processes of "ls", which "app" started in 1 s; it waits for them in func_shell().'


def test_few_processes_with_most_of_the_cpu_time_are_credited_to_the_line_that_starts_them(tmp_path: Path) -> None:
    children = [Stack(("main",), 290, tid=10_000 + number, pid=10_000 + number) for number in range(3)]
    waits = Stack(CHILD, 100, state="S", weight=9)
    first, *rest = texts(tmp_path, *children, Stack(("main",), 130), waits, started=3, executes="ls")
    assert first == '87 % of the CPU time is in 3 processes of "ls", which "app" started; it waits for them in run_tool().'
    assert not [text for text in rest if "child" in text]
    for other in ((Stack(("main",), 900), waits), (Stack(("main",), 130),)):  # little of the time, and no known place
        assert "started" not in " ".join(texts(tmp_path, *children, *other, started=3, executes="ls"))


def test_one_of_the_started_processes_with_nearly_all_of_the_time_is_told(tmp_path: Path) -> None:
    small = [Stack(("main",), 5, tid=10_000 + number, pid=10_000 + number) for number in range(2)]
    large = Stack(("main",), 900, tid=10_002, pid=10_002)
    waits = Stack(CHILD, 100, state="S", weight=9)
    all_texts = texts(tmp_path, *small, large, Stack(("main",), 20), waits, started=3, executes="ls")
    assert '97 % of the CPU time is in one of 3 processes of "ls", which "app" started; it waits for them in run_tool().' in all_texts
    assert any('in one of 3 processes, which "app" forked' in text for text in texts(tmp_path, *small, large, waits, started=3))
    unknown = [one._replace(names=["schedule@kernel", "do_wait@kernel"]) for one in (waits,)]
    all_texts = texts(tmp_path, *small, large, Stack(("main",), 20), *unknown, started=3, executes="ls")
    assert all_texts[0].startswith("100 % of the CPU time is in main()"), "its function tells more if nothing tells who started it"


def workers(names: Sequence[str], *, alone: int) -> list[Stack]:
    """Return stacks of processes that work side by side for 0.4 s, and of the last of them, which works alone afterwards."""
    first = [Stack(("main",), 1, tid=pid, pid=pid, weight=len(names)) for _ in range(400 // len(names)) for pid in worker_pids(names)]
    last = worker_pids(names)[-1]
    return [*first, Stack((names[-1], "main"), alone, tid=last, pid=last), Stack(CHILD, 1, state="S", weight=100)]


def worker_pids(names: Sequence[str]) -> list[int]:
    return [10_000 + number for number in range(len(names))]


def test_the_largest_of_several_processes_is_told_with_the_time_that_it_works_alone(tmp_path: Path) -> None:
    four = ["main", "main", "main", "halftone"]
    first, second, *_ = texts(tmp_path, *workers(four, alone=1500), started=4, executes="poster", cpus=2)
    assert first == '61 % of the CPU time is in process 10003, one of four of "poster"; from 0.4 s on (1.5 s of 1.9 s), it works alone.'
    assert "48 % is in halftone(), called from main()" in second
    first, *_ = texts(tmp_path, *workers(four, alone=1500), started=4, executes="poster", cpus=1)
    assert first == '61 % of the CPU time is in process 10003, one of four of "poster".', "with one CPU, nothing runs beside it"
    several = texts(tmp_path, *workers(["main"] * 4, alone=100), started=4, executes="poster", cpus=2)
    assert not [text for text in several if "one of four" in text]


def test_compilers_are_told_by_what_they_compile_and_not_by_their_functions(tmp_path: Path) -> None:
    def commands(*files: str) -> list[ObservedCommand]:
        return [
            ObservedCommand(pid, 100, pid, ["/usr/lib/cc1plus", f"src/{file}"])
            for pid, file in zip(range(10_000, 10_004), files, strict=True)
        ]

    files = commands("a.cpp", "b.cpp", "c.cpp", "keystone.cpp")
    four = ["main", "main", "main", "execute_one_pass"]
    said = texts(tmp_path, *workers(four, alone=1500), started=4, executes="cc1plus", commands=files, cpus=2)
    expected = '61 % of the CPU time is in process 10003, which compiles keystone.cpp, one of four of "cc1plus"'
    assert said[0] == f"{expected}; from 0.4 s on (1.5 s of 1.9 s), it works alone."
    assert not [text for text in said if "execute_one_pass" in text or "started" in text]
    said = texts(tmp_path, *workers(four, alone=100), started=4, executes="cc1plus", commands=files, cpus=2)
    assert said[0] == (
        "Building keystone.cpp (cc1plus) takes 29 % of the CPU time, a.cpp (cc1plus) 24 % and b.cpp (cc1plus) 24 %; four files in all."
    )
    said = texts(tmp_path, *workers(four, alone=1500), started=4, executes="cc1plus", commands=files[3:], cpus=2)
    assert [text for text in said if "execute_one_pass" in text], "one file: of its compiler, the functions are all that is known"


def test_processes_that_a_signal_killed_come_first(tmp_path: Path) -> None:
    def killed(count: int, signal: str = "SIGSEGV") -> list[ObservedState]:
        return [ObservedState(10_000 + number, "killed", 1, 1, signal, [], []) for number in range(count)]

    def first(started: int, count: int) -> str:
        return texts(tmp_path, Stack(("main",), 900), started=started, executes="atlas", states=killed(count))[0]

    assert first(14, 14) == 'All 14 processes of "atlas", which "app" started, were killed by SIGSEGV.'
    assert first(14, 12) == 'At least twelve processes of "atlas", which "app" started, were killed by SIGSEGV.'
    assert first(14, 1) == 'One process of "atlas", which "app" started, was killed by SIGSEGV.'
    assert first(1, 1) == 'One process of "atlas", which "app" started, was killed by SIGSEGV.'
    assert "killed" not in first(14, 0)


def test_the_function_of_faults_is_told(tmp_path: Path) -> None:
    def first(*addresses: int) -> str:
        states = [ObservedState(100, "killed", 1, 1, "SIGSEGV", [ObservedFrame("", "", address)], []) for address in addresses]
        return texts(tmp_path, Stack(("main",), 900), Stack(("label", "main"), 10), states=states, ends=True)[0]

    label, outside = 0x400000 + 0x100 + 8, 0x123
    assert first(label) == 'One process of "app" was killed by SIGSEGV, in label().'
    assert first(outside) == 'One process of "app" was killed by SIGSEGV.'
    assert first(-1) == first(0) == first(1 << 63) == first(outside)


def test_the_function_of_forked_workers_comes_before_the_workers(tmp_path: Path) -> None:
    children = [Stack(("score", "main"), 290, tid=10_000 + number, pid=10_000 + number) for number in range(3)]
    waits = Stack(CHILD, 100, state="S", weight=9)
    first, second, *_ = texts(tmp_path, *children, Stack(("main",), 130), waits, started=3)
    assert first.startswith("87 % of the CPU time is in score()")
    assert second.startswith('87 % of the CPU time is in 3 processes, which "app" forked')


def test_workers_beside_programs_of_a_starting_script_are_told_by_their_function(tmp_path: Path) -> None:
    """Such as bash and readlink, which pyenv's script runs before it becomes Python."""
    children = [Stack(("score", "main"), 290, tid=10_000 + number, pid=10_000 + number) for number in (4, 5, 6)]
    waits = Stack(CHILD, 100, state="S", weight=9)
    said = texts(tmp_path, *children, Stack(("main",), 130), waits, started=7, executes="bash", executing=4)
    assert said[0].startswith("87 % of the CPU time is in score()")
    assert not any("started" in text for text in said)


def test_where_processes_at_rest_used_cpus_is_not_told(tmp_path: Path) -> None:
    locks = [Stack(LOCK, 900, tid=10_000 + number, pid=10_000 + number, state="S") for number in range(3)]
    used = [Stack(("open@kernel", "main"), 10, tid=10_000 + number, pid=10_000 + number) for number in range(3)]
    sentences = texts(tmp_path, *locks, *used, Stack(CHILD, 900, state="S"), started=3, seconds=0.95)
    assert sentences == ["Three processes waited 2.7 s in total for a lock, in drain()."]


def test_time_in_workers_of_a_process_pool_is_told_apart(tmp_path: Path) -> None:
    def of(*names: str) -> tuple[str, ...]:
        return tuple(f"py::{name}@jitted-0-1.so" for name in names)

    library = "/usr/lib/python3.12"
    worker, bootstrap = f"worker:{library}/multiprocessing/pool.py", f"BaseProcess._bootstrap:{library}/multiprocessing/process.py"
    get, put = (f"SimpleQueue.{name}:{library}/multiprocessing/queues.py" for name in ("get", "put"))
    sleep = ("schedule@kernel", "futex_wait@kernel", "__futex_wait@libc.so.6")
    task = "resize:/srv/app.py"
    stacks = [
        stack
        for pid in (200, 201)
        for stack in (
            Stack(of(task, worker, bootstrap), 200, tid=pid, pid=pid),
            Stack(of("_pickle.loads:<built-in>", get, worker, bootstrap), 50, tid=pid, pid=pid),
            Stack(of("_pickle.loads:<built-in>", task, worker, bootstrap), 50, tid=pid, pid=pid),  # the task's own
            Stack(of(f"ForkingPickler.dumps:{library}/multiprocessing/reduction.py", put, worker, bootstrap), 50, tid=pid, pid=pid),
            Stack((*sleep, *of(get, worker, bootstrap)), 30, state="S", weight=10, tid=pid, pid=pid),
            Stack((*sleep, *of(put, worker, bootstrap)), 10, state="S", weight=10, tid=pid, pid=pid),
            Stack((*sleep, *of("load:/srv/app.py", worker, bootstrap)), 25, state="S", weight=10, tid=pid, pid=pid),
        )
    ]
    parent = Stack((*sleep, *of(get, f"Pool._handle_results:{library}/multiprocessing/pool.py")), 50, state="S", weight=10)
    expected = (
        "Two workers of a process pool spent 30 % of their time waiting for work, 25 % waiting in their tasks, 25 % computing, "
        "10 % sending results and 10 % pickling."
    )
    assert expected in texts(tmp_path, *stacks, parent)
    ready = [Stack(of(task, worker, bootstrap), 100, state="R", weight=10, tid=pid, pid=pid) for pid in (200, 201)]
    (pool,) = [text for text in texts(tmp_path, *stacks, *ready, parent) if "pool" in text]
    assert pool.startswith("Two workers of a process pool spent 50 % of their time waiting for a CPU, 15 % waiting for work")
    assert not [text for text in texts(tmp_path, *stacks[:1], *stacks[7:8], parent) if "pool" in text], "they compute all the time"
    executor = tuple(
        stack._replace(
            names=[
                name.replace("worker:/usr/lib/python3.12/multiprocessing/pool", "_process_worker:/l/concurrent/futures/process")
                for name in stack.names
            ]
        )
        for stack in stacks
    )
    assert expected in texts(tmp_path, *executor, parent)
    gives = of(f"ForkingPickler.dumps:{library}/multiprocessing/reduction.py", f"Pool._handle_tasks:{library}/multiprocessing/pool.py")
    waiting = [Stack((*sleep, *of(get, worker, bootstrap)), 90, state="S", weight=10, tid=pid, pid=pid) for pid in (200, 201)]
    tasks = [Stack(gives, 300), Stack(of("load:/srv/app.py"), 100), *stacks[:1], *stacks[7:8], *waiting]
    (pool,) = [text for text in texts(tmp_path, *tasks) if "pool" in text]
    assert pool.endswith("; the process that they work for spent 75 % of its CPU time on pickling tasks and results.")


def test_lines_of_a_shell_script_that_start_processes(tmp_path: Path) -> None:
    def states(*lines: tuple[str, int, int]) -> list[ObservedState]:
        return [ObservedState(100, "bash", 50, count, "", [ObservedFrame(name, "/srv/b.sh", at)], []) for name, at, count in lines]

    def place(*lines: tuple[str, int, int]) -> str:
        stacks = [Stack(("main",), 500), Stack(("main",), 500)]
        first = texts(tmp_path, *stacks, started=300, executes="ls", comm="bash", states=states(*lines))[0]
        return first.partition(' of "ls" in 1 s')[2]

    assert place(("", 11, 49), ("", 12, 1)) == ", in line 11 of b.sh."
    assert place(("", 11, 25), ("", 14, 24), ("", 2, 1)) == ", in lines 11 and 14 of b.sh."
    assert place(*(("", line, 5) for line in range(10))) == ", in b.sh."
    assert place(("render", 4, 45), ("", 9, 5)) == ", in render() (b.sh:4)."
    assert place(("render", 4, 18), ("render", 6, 16), ("render", 5, 16)) == ", in render() (b.sh:4, 5 and 6)."
    assert place(*(("render", line, 5) for line in range(1, 11))) == ", in render() (b.sh)."
    assert place(("render", 4, 42), ("", 9, 8)) == ", mostly in render() (b.sh:4)."
    assert place(("render", 4, 25), ("", 9, 25)) == "."  # two places
    assert place(("", 11, 3)) == "."  # too few looks


def test_goroutines_tell_what_a_go_program_waits_for(tmp_path: Path) -> None:
    main = ObservedFrame("main.main", "/srv/g.go", 9)
    update = ObservedFrame("main.update", "/srv/g.go", 5)

    def state(count: int, reason: str, *frames: ObservedFrame, started: ObservedFrame = main) -> ObservedState:
        return ObservedState(100, "go", 50, count, reason, [ObservedFrame("runtime.gopark", "proc.go", 1), *frames], [update, started])

    lock = ObservedFrame("sync.(*Mutex).Lock", "mutex.go", 90)
    newproc = ObservedFrame("runtime.newproc", "", 0)
    idle = Stack(("schedule@kernel", "do_epoll_wait@kernel", "runtime.netpoll", "runtime.findrunnable"), 10, state="S", weight=90)
    states = [
        state(
            50,
            "semacquire",
            ObservedFrame("sync.(*WaitGroup).Wait", "waitgroup.go", 1),
            main,
            started=newproc,
        ),
        state(150, "semacquire", lock, update),
        state(50, "sleep", ObservedFrame("time.Sleep", "time.go", 1), update),
        state(50, "force gc (idle)"),
    ]
    (first,) = texts(tmp_path, Stack(("runtime.main",), 3), idle, seconds=0.9, states=states)
    assert first == (
        'While "app" waited, three goroutines (started in main.main()) waited for a lock in main.update()'
        " (g.go:5), one goroutine (started in main.main()) slept in main.update() (g.go:5) and one goroutine waited for other goroutines"
        " in main.main() (g.go:9)."
    )
    (first,) = texts(
        tmp_path, Stack(("runtime.main",), 3), idle, seconds=0.9, states=[state(20, "sleep", update), state(75, "select", main)]
    )
    assert "goroutines (1.5 at a time) waited in a select in main.main() (g.go:9)." in first
    assert "slept" not in first


def test_goroutines_that_spin_are_told_with_the_function_that_calls_the_scheduler(tmp_path: Path) -> None:
    caller, runner = ObservedFrame("main.awaitBaton", "/srv/m.go", 15), ObservedFrame("main.runner", "/srv/m.go", 33)

    def states(*frames: ObservedFrame) -> list[ObservedState]:
        return [ObservedState(100, "go", 50, 150, "runnable", [ObservedFrame("runtime.Gosched", "proc.go", 318), *frames], [runner])]

    of_runtime = [
        Stack(("runtime.casgstatus", "runtime.goschedImpl", "runtime.gosched_m", "runtime.mcall"), 150),
        Stack(("runtime.lock2", "runtime.goschedImpl", "runtime.gosched_m", "runtime.mcall"), 150),
        Stack(("runtime.findrunnable", "runtime.schedule", "runtime.gosched_m", "runtime.mcall"), 150),
    ]
    rest = [Stack((f"runtime.f{number}",), 55) for number in range(10)]
    first, *others = texts(tmp_path, *of_runtime, *rest, states=states(caller, runner))
    assert first == "45 % of the CPU time is in runtime.Gosched(), called over and over from main.awaitBaton() (m.go:15)."
    assert not [text for text in others if "stands out" in text]
    assert texts(tmp_path, *of_runtime, *rest)[0] == "45 % of the CPU time is in runtime.Gosched(), called over and over."
    preempted = [stack._replace(names=[name.replace("gosched_m", "gopreempt_m") for name in stack.names]) for stack in of_runtime]
    assert not [text for text in texts(tmp_path, *preempted, *rest, states=states(caller)) if "Gosched" in text]


def test_goroutines_that_compute_or_are_in_a_queue_for_a_cpu_do_not_wait(tmp_path: Path) -> None:
    """A mutex that is handed over lets its new holder run first, at a line of the former one that waits for nothing."""
    main, unlock = ObservedFrame("main.main", "/srv/g.go", 9), ObservedFrame("main.get.func1", "/srv/g.go", 5)
    idle = Stack(("schedule@kernel", "do_epoll_wait@kernel", "runtime.netpoll", "runtime.findrunnable"), 10, state="S", weight=90)
    runs = [ObservedState(100, "go", 50, 50, reason, [unlock], []) for reason in ("runnable", "preempted", "GC assist marking")]
    states = [ObservedState(100, "go", 50, 50, "select", [main], []), *runs]
    (first,) = texts(tmp_path, Stack(("runtime.main",), 3), idle, seconds=0.9, states=states)
    assert first == 'While "app" waited, one goroutine waited in a select in main.main() (g.go:9).'


def test_a_goroutine_that_waits_in_a_library_has_the_function_that_it_called(tmp_path: Path) -> None:
    frames = [("runtime.gopark", "proc.go"), ("net.(*Resolver).lookupIPAddr", "lookup.go"), ("net.(*Resolver).LookupHost", "lookup.go")]
    of_stack = [ObservedFrame(name, file, 1) for name, file in frames]
    state = ObservedState(100, "go", 50, 50, "select", [*of_stack, ObservedFrame("main.find", "/srv/g.go", 4)], [])
    idle = Stack(("schedule@kernel", "do_epoll_wait@kernel", "runtime.netpoll", "runtime.findrunnable"), 10, state="S", weight=90)
    (first,) = texts(tmp_path, Stack(("runtime.main",), 3), idle, seconds=0.9, states=[state])
    assert first.endswith(
        "one goroutine waited for the address of a host (DNS) in net.(*Resolver).LookupHost(), called from main.find() (g.go:4)."
    )


def test_the_program_of_all_children_is_told_with_the_line_that_starts_them(tmp_path: Path) -> None:
    states = [ObservedState(100, "bash", 50, 50, "", [ObservedFrame("poll", "/srv/b.sh", 3)], [])]
    wait = Stack(("schedule@kernel", "do_wait@kernel", "wait4@libc.so.6"), 9, state="S", weight=100)
    stacks = [Stack(("main",), 10), wait]
    first = texts(tmp_path, *stacks, started=9, executes="sleep", comm="bash", states=states, seconds=0.9)[0]
    assert first == '"bash" waited 0.9 s of 0.9 s for a child process; it ran "sleep" 9 times, in poll() (b.sh:3).'
    first = texts(tmp_path, *stacks, started=9, seconds=0.9)[0]
    assert first == '"app" waited 0.9 s of 0.9 s for a child process; it forked 9 times.', "copies of a program did not run it anew"
    first = texts(tmp_path, *stacks, started=1, executes="sleep", comm="bash", seconds=0.9)[0]
    assert first == '"bash" waited 0.9 s of 0.9 s for a child process.'


def test_functions_of_libraries_are_told_by_those_that_their_callers_know(tmp_path: Path) -> None:
    sine = ("libc_feholdsetround_sse_ctx@libc.so.6", "__sin_fma@libc.so.6", "thread_at", "weave", "main")
    deep = ("do_sin@libc.so.6", "__sin_fma@libc.so.6", "thread_at", "weave", "main")
    cosine = ("do_cos@libc.so.6", "__cos_fma@libc.so.6", "thread_at", "weave", "main")
    first, *_ = texts(tmp_path, Stack(sine, 300), Stack(deep, 300), Stack(cosine, 100), Stack(("thread_at", "main"), 300))
    assert first == "60 % of the CPU time is in sin(), called from thread_at()."
    first, *_ = texts(tmp_path, Stack(sine, 310), Stack(cosine, 290), Stack(("thread_at", "main"), 300))
    assert first == "100 % of the CPU time is in thread_at() and the code it calls (sin() and cos())."
    compare = ("by_key", "msort_with_tmp@libc.so.6", "__GI___qsort_r@libc.so.6", "main")
    first, *_ = texts(tmp_path, Stack(compare, 200), Stack(compare[1:], 800))
    assert first.startswith("80 % of the CPU time is in qsort() or qsort_r(), called from main()")


def test_a_caller_that_frame_pointers_may_not_reach_is_told_as_below(tmp_path: Path) -> None:
    """The kernel misses the caller of a library's function without a frame pointer; --unwind does not."""
    sine = [Stack(("__sin_fma@libc.so.6", "make", "main"), 750), Stack(("main",), 250)]
    assert texts(tmp_path, *sine, walked=True)[0] == "75 % of the CPU time is in sin(), called below make()."
    assert texts(tmp_path, *sine)[0] == "75 % of the CPU time is in sin(), called from make()."
    packed = [Stack(("std::find(int*)@libz.so.1", name, "main"), count) for name, count in (("pack", 420), ("send", 380))]
    many = " in std::find(), called below pack() (42 %) and send() (38 %)."
    assert texts(tmp_path, *packed, Stack(("main",), 200), walked=True)[0].endswith(many)
    assert many.replace("below", "from") in texts(tmp_path, *packed, Stack(("main",), 200))[0]
    compare = Stack(("by_key", "__GI___qsort_r@libc.so.6", "order", "main"), 1000)
    assert texts(tmp_path, compare, walked=True)[0] == "100 % of the CPU time is in by_key(), called below order()."


def test_callers_in_the_same_file_are_told_with_frame_pointers(tmp_path: Path) -> None:
    """And those of the kernel, of generated code and of Python; not those of C functions that are linked statically."""
    for stack, text in (
        (("checksum", "audit", "main"), "checksum(), called from audit()."),
        (("std::find(int*)", "audit", "main"), "std::find(), called from audit()."),
        (("finish_task_switch.isra.0@kernel", "schedule@kernel", "audit"), "switches between threads, called from audit()."),
        (("clear_page@kernel", "handle_mm_fault@kernel", "audit"), "page faults of audit()."),
        (("clear_page@kernel", "handle_mm_fault@kernel", "memset@libc.so.6", "audit"), "page faults, called below audit()."),
        (("sqrt@libc.so.6", "py::step:/srv/a.py@jitted-0-1.so", "py::run:/srv/a.py@jitted-0-1.so"), "step(), called from run()."),
        (("_int_malloc", "audit", "main"), "malloc(), called below audit()."),
    ):
        first, *_ = texts(tmp_path, Stack(stack, 1000), walked=True)
        assert first == f"100 % of the CPU time is in {text}"


def test_a_few_samples_behind_a_library_leave_the_caller_certain(tmp_path: Path) -> None:
    direct, behind = Stack(("spin", "make", "main"), 960), Stack(("spin", "qsort@libc.so.6", "make", "main"), 40)
    assert texts(tmp_path, direct, behind, walked=True)[0] == "100 % of the CPU time is in spin(), called from make()."
    assert "called below make()" in texts(tmp_path, direct._replace(samples=800), behind._replace(samples=200), walked=True)[0]


def test_waits_by_frame_pointers_are_in_what_a_function_calls(tmp_path: Path) -> None:
    """The wait, that of the thread that ended it, and the code that starts processes."""
    waits = [Stack(LOCK, 800, tid=101, state="S", waker=PID), Stack(SLEEP, 800, state="S")]
    first, *_ = texts(tmp_path, *waits, threads=(101,), seconds=0.8, walked=True)
    assert "for a lock, in what drain() calls; the thread that released it slept 0.8 s, in what nap() calls." in first
    first, *_ = texts(tmp_path, *waits, threads=(101,), seconds=0.8)
    assert "for a lock, in drain(); the thread that released it slept 0.8 s, in nap()." in first
    inline = Stack(("schedule@kernel", "hrtimer_nanosleep@kernel", "nap", "main"), 800, state="S")
    assert ", in nap()" in texts(tmp_path, inline, walked=True)[0], "a system call of its own"
    assert ", in nap() or what it calls" in texts(tmp_path, inline, Stack(SLEEP, 400, state="S"), walked=True)[0]


def test_a_process_is_named_only_if_the_others_have_another_name(tmp_path: Path) -> None:
    stacks = [Stack(("crunch", "main"), 950, tid=200, pid=200), Stack(("crunch", "main"), 50)]
    assert ', nearly all of it in "other200".' in texts(tmp_path, *stacks)[0]
    assert "nearly all" not in texts(tmp_path, *stacks, comm="other200")[0]


def test_two_functions_that_allocate_are_told_and_parts_of_the_collector_come_after_it(tmp_path: Path) -> None:
    collects = Stack(("runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"), 500)
    allocations = [
        Stack(("runtime.nextFreeFast", "runtime.mallocgc", name, "main.main"), samples)
        for name, samples in (("main.count", 150), ("main.format", 100), ("main.other", 50))
    ]
    first, *_ = texts(tmp_path, collects, *allocations, Stack(("main.main",), 200))
    assert first == (
        "50 % of the CPU time is in garbage collection; 50 % of the time in allocations is that of main.count() and "
        "33 % that of main.format()."
    )
    several = [Stack(("runtime.mallocgc", f"main.f{number}", "main.main"), 60) for number in range(5)]
    assert not [text for text in texts(tmp_path, collects, *several, Stack(("main.main",), 200)) if "allocations" in text]


def test_the_work_of_compilers_of_runtimes_is_told(tmp_path: Path) -> None:
    small = [Stack((f"f{number}",), 60) for number in range(10)]
    compiler = [Stack((f"v8::internal::compiler::Phase{number}::Run(int)",), 40) for number in range(10)]
    assert texts(tmp_path, *small, *compiler)[0] == "40 % of the CPU time is in the compiler of the runtime (JIT)."
    assert not any("compiler" in text for text in texts(tmp_path, *small, compiler[0]))


def test_the_top_level_of_a_python_text_does_not_call_itself(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, Stack(("py::<module>:<string>",) * 3, 1000))
    assert first == "100 % of the CPU time is in the top level of <string>."


def test_the_switches_of_a_function_are_no_function(tmp_path: Path) -> None:
    switch = ("finish_task_switch.isra.0@kernel", "__schedule@kernel", "schedule@kernel", "call", "main")
    (first,) = texts(tmp_path, Stack(switch, 700), Stack(("call", "main"), 300))
    assert first == "70 % of the CPU time is in switches between threads, called from call()."


def test_states_of_a_hostile_file_are_left_out() -> None:
    good = ObservedState(1, "bash", 9, 9, "", [ObservedFrame("f", "a.sh", 1)], [])
    lines = [b"[]", b"null", b"{", b"[" * 100_000, b'[1, "bash", 1, 1, "", [[1]], []]', b"\xff\xff"]
    assert decode_states(encode_states([good]) + b"\n".join(lines)) == [good]


def test_idle_cpus_come_first_and_decide_no_threshold(tmp_path: Path) -> None:
    first, second = texts(tmp_path, Stack(("default_idle@kernel",), 9000, tid=0, pid=0), Stack(("work", "main"), 1000))
    assert first == "The CPUs were idle 90 % of the time; perfpy record --off-cpu shows what programs waited for."
    assert second == "10 % of the time of the CPUs is in work(), called from main()."


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (LOCK, '"app" waited 0.9 s of 0.92 s for a lock, in drain().'),
        (SLEEP, '"app" slept 0.9 s of 0.92 s, in nap().'),
        (CHILD, '"app" waited 0.9 s of 0.92 s for a child process, in run_tool().'),
        (DISK, '"app" waited 0.9 s of 0.92 s for the disk, in save().'),
        ((*FUTEX, "pthread_cond_wait@libc.so.6", "next_job"), '"app" waited 0.9 s of 0.92 s for a condition, in next_job().'),
        (("schedule@kernel", "ep_poll@kernel", "epoll_wait@libc.so.6", "loop"), '"app" waited 0.9 s of 0.92 s for events, in loop().'),
        (("schedule@kernel", "pipe_read@kernel", "read@libc.so.6", "consume"), '"app" waited 0.9 s of 0.92 s for a pipe, in consume().'),
    ],
)
def test_the_reason_of_the_longest_wait_comes_first(frames: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert texts(tmp_path, Stack(("main",), 20), Stack(frames, 900, state="S"), threads=[101])[0] == expected


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (Stack((*SLEEP[:3], "holder"), 900, tid=102, state="S"), "the thread that released it slept 0.9 s, in holder()."),
        (Stack(("compute", "holder"), 900, tid=102), "the thread that released it used a CPU for 0.9 s, in compute()."),
        (Stack((*DISK[:3], "holder"), 900, tid=102, state="D"), "the thread that released it waited 0.9 s for the disk, in holder()."),
        (Stack((*SLEEP[:3], "holder"), 200, tid=102, state="S"), ""),  # too short to be the cause
        (Stack((*SLEEP[:3], "holder"), 900, tid=103, state="S"), ""),  # another thread
    ],
)
def test_the_thread_that_ended_a_wait_is_told_with_its_activity(other: Stack, cause: str, tmp_path: Path) -> None:
    wait = Stack(LOCK, 900, tid=101, state="S", waker=102)
    first, *_ = texts(tmp_path, Stack(("main",), 20), wait, other, threads=(101, 102, 103), seconds=0.92)
    assert first.partition(" in drain()")[2].strip("; .") == cause.strip(".")


def test_what_the_holder_of_a_lock_did_is_told_once(tmp_path: Path) -> None:
    """Its sleeps with own code on the stack, and all of its sleeps, would be two numbers for one thing."""
    wait, elsewhere = Stack(LOCK, 900, tid=101, state="S", waker=102), Stack(SLEEP[:3], 120, tid=102, state="S")
    told = [wait, Stack((*SLEEP[:3], "holder"), 780, tid=102, state="S"), elsewhere]
    first, *others = texts(tmp_path, Stack(("main",), 20), *told, threads=(101, 102), seconds=0.92)
    assert first.endswith("the thread that released it slept 0.9 s, mostly in holder().")
    assert not [text for text in others if "slept" in text]
    other = Stack((*SLEEP[:3], "timer"), 850, tid=103, state="S")
    _, *others = texts(tmp_path, Stack(("main",), 20), *told, other, threads=(101, 102, 103), seconds=0.92)
    assert not [text for text in others if "holder()" in text]


def test_the_place_of_an_activity_is_told_if_most_of_it_is_there(tmp_path: Path) -> None:
    wait = Stack(LOCK, 900, tid=101, state="S", waker=102)
    work = [Stack((name,), 300, tid=102) for name in ("one", "two", "three")]
    first, *_ = texts(tmp_path, Stack(("main",), 20), wait, *work, threads=(101, 102), seconds=0.92)
    assert first.endswith("the thread that released it used a CPU for 0.9 s.")


def test_several_holders_of_a_lock_are_told_if_they_did_little_else(tmp_path: Path) -> None:
    waits = [Stack(LOCK, 450, tid=101, state="S", waker=waker) for waker in (102, 103)]
    sleeps = [Stack((*SLEEP[:3], "holder"), 450, tid=tid, state="S") for tid in (102, 103)]
    first, *_ = texts(tmp_path, Stack(("main",), 20), *waits, *sleeps, threads=(101, 102, 103), seconds=0.92)
    assert first.endswith(" for a lock, in drain(); meanwhile its holders mostly slept, in holder().")
    disk = [Stack((*DISK[:3], "save"), 400, tid=tid, state="D") for tid in (102, 103)]
    first, *_ = texts(tmp_path, Stack(("main",), 20), *waits, *sleeps, *disk, threads=(101, 102, 103), seconds=0.92)
    assert first.endswith(" for a lock, in drain().")


def test_locks_that_nobody_released(tmp_path: Path) -> None:
    """A deadlock, if no other thread could release them."""
    waits = [Stack((*LOCK[:4], name), 1, tid=tid, state="S", weight=9000) for tid, name in ((101, "reserve"), (102, "cancel"))]
    (first,) = texts(tmp_path, *waits, seconds=0.001)
    deadlock = "none of them got it: a deadlock, as no other thread can release it."
    assert first == f"Two threads waited 18 s in total for a lock, in reserve() and cancel(); {deadlock}"
    sleeper = Stack(SLEEP, 1, tid=103, state="S", weight=9000)  # perhaps the holder
    assert texts(tmp_path, *waits, sleeper, threads=(101, 102, 103), seconds=0.001) == [
        "Two threads waited 18 s in total for a lock, in reserve() and cancel(); none of them got it.",
        '"app" slept 9 s of 9 s, in nap().',
    ]
    third = Stack((*LOCK[:4], "refund"), 1, tid=104, state="S", weight=8999)
    first, *_ = texts(tmp_path, *waits, third, sleeper, threads=(101, 102, 103, 104), seconds=0.001)
    assert first == "Three threads waited 27 s in total for a lock, in reserve(), cancel() and others; none of them got it."
    first, *_ = texts(tmp_path, waits[0], sleeper, threads=(101, 103), seconds=0.001)
    assert first.endswith(" for a lock, in reserve(); nobody released it.")


def test_a_deadlock_in_java_has_other_threads_that_cannot_release_it(tmp_path: Path) -> None:
    """Those of the JVM, which use CPUs now and then."""
    enter = (*FUTEX, "pthread_cond_wait@libc.so.6", "ObjectMonitor::enter(JavaThread*)@libc.so.6")
    waits = [Stack((*enter, name), 1, tid=tid, state="S", weight=9000) for tid, name in ((101, "debit"), (102, "credit"))]
    of_jvm = [
        Stack((*FUTEX, "pthread_cond_wait@libc.so.6", "VMThread::run()@libc.so.6"), 1, tid=103, state="S", weight=9000),
        Stack(("VMThread::run()@libc.so.6",), 1, tid=103),
    ]
    first, *_ = texts(tmp_path, *waits, *of_jvm, seconds=0.001)
    assert first.endswith(" for a lock, in debit() and credit(); none of them got it: a deadlock, as no other thread can release it.")
    first, *_ = texts(tmp_path, *waits, *of_jvm, Stack(SLEEP, 1, tid=104, state="S", weight=9000), seconds=0.001)
    assert first.endswith("; none of them got it.")
    again = [one._replace(samples=9, weight=1000) for one in waits]  # monitors are looked at again after a time limit
    assert ": a deadlock, as" in texts(tmp_path, *again, *of_jvm, seconds=0.001)[0]
    woken = [again[0], again[1]._replace(waker=103)]
    assert "a deadlock" not in texts(tmp_path, *woken, *of_jvm, seconds=0.001)[0]


IN_MUTEX = ("schedule@kernel", "futex_wait@kernel", "__lll_lock_wait@libc.so.6", "pthread_mutex_lock@libc.so.6")


def held(kind: str, tid: int, lock: str, holder: int, name: str = "app", *, seen: int = 9, looks: int = 9) -> ObservedState:
    """Return what the recorder saw of a thread that waits for a lock."""
    return ObservedState(tid, kind, looks, seen, lock, [], [ObservedFrame(name, "", holder)])


def test_threads_that_wait_for_each_others_mutexes_are_a_deadlock(tmp_path: Path) -> None:
    waits = [Stack((*IN_MUTEX, name), 1, tid=tid, state="S", weight=8000) for tid, name in ((101, "debit"), (102, "credit"))]
    ticking = Stack((*SLEEP[:3], "main"), 1, tid=100, state="S", weight=8900)
    circle = [held("stuck", 101, "b_lock", 102), held("stuck", 102, "a_lock", 101)]
    sentence = "Deadlock: two threads wait for each other: one in debit() for the mutex b_lock and one in credit() for the mutex a_lock."
    assert texts(tmp_path, *waits, states=circle, seconds=0.001) == [sentence]
    assert texts(tmp_path, *waits, ticking, states=circle, seconds=0.001)[0] == sentence
    nameless = [one._replace(reason="") for one in circle]
    assert ": one in debit() for a mutex and one in credit() for a mutex." in texts(tmp_path, *waits, states=nameless, seconds=0.001)[0]
    for others in (circle[:1], [one._replace(seen=2) for one in circle], [held("mutex", 101, "b_lock", 102), circle[1]]):
        assert "Deadlock" not in texts(tmp_path, *waits, states=others, seconds=0.001)[0]
    of_condition = ("schedule@kernel", "futex_wait@kernel", "pthread_cond_wait@libc.so.6")
    elsewhere = [one._replace(names=(*of_condition, one.names[-1])) for one in waits]
    assert "Deadlock" not in texts(tmp_path, *elsewhere, states=circle, seconds=0.001)[0]
    of_rust = ("schedule@kernel", "futex_wait@kernel", "std::sys::sync::mutex::futex::Mutex::lock_contended")
    other_locks = [one._replace(names=(*of_rust, one.names[-1])) for one in waits]  # what looks like an owner is the data of the lock
    assert "Deadlock" not in texts(tmp_path, *other_locks, states=circle, seconds=0.001)[0]
    assert " held " not in texts(tmp_path, other_locks[0], states=[held("mutex", 101, "data", 7)], seconds=0.001)[0]
    same = [one._replace(names=(*IN_MUTEX, "dine")) for one in waits]
    forks = [one._replace(reason="forks") for one in circle]
    assert texts(tmp_path, *same, states=forks, seconds=0.001)[0] == (
        "Deadlock: two threads wait for each other: all in dine() for the mutex forks."
    )


def test_a_thread_that_waits_for_its_own_mutex_is_a_deadlock(tmp_path: Path) -> None:
    wait = Stack((*IN_MUTEX, "get_value"), 1, state="S", weight=8000)
    assert texts(tmp_path, wait, states=[held("stuck", 100, "lock", 100)], seconds=0.001) == [
        "Deadlock: a thread waits in get_value() for the mutex lock, which it holds itself."
    ]


def test_the_mutex_of_a_thread_that_has_ended_is_told(tmp_path: Path) -> None:
    waits = [Stack((*IN_MUTEX, "lookup"), 1, tid=tid, state="S", weight=8000) for tid in (101, 102)]
    states = [held("stuck", tid, "table", 110, "") for tid in (101, 102)]
    assert texts(tmp_path, *waits, states=states, seconds=0.001)[0] == (
        "Two threads wait in lookup() for the mutex table, which thread 110 held when it ended."
    )
    assert "when it ended" not in texts(tmp_path, *waits, states=[held("mutex", 101, "table", 110, "")], seconds=0.001)[0]


def test_the_holder_of_a_lock_is_told_with_what_it_does(tmp_path: Path) -> None:
    wait = Stack(("schedule@kernel", "flock_lock_inode_wait@kernel", "flock@libc.so.6", "write_spool"), 1, state="S", weight=8000)
    of_file = [held("file lock", 100, "/srv/spool.lock", 300, "backup")]
    begin = '"app" waited 8 s of 8 s for a file lock, in write_spool(); nobody released it'
    assert texts(tmp_path, wait, states=of_file, seconds=0.001) == [f'{begin}; "backup" (process 300) held the lock of spool.lock.']
    sleeps = Stack((*SLEEP[:3], "hold_spool"), 1, tid=300, pid=300, state="S", weight=7900)
    first, *_ = texts(tmp_path, wait, sleeps, states=of_file, seconds=0.001)
    assert first == f'{begin}; "backup" (process 300) held the lock of spool.lock, and slept 7.9 s, in hold_spool().'
    rarely = [of_file[0]._replace(seen=5)]
    assert "held" not in texts(tmp_path, wait, states=rarely, seconds=0.001)[0]


def test_what_others_wait_for_beside_the_thread_that_sleeps_is_told_in_a_second_sentence(tmp_path: Path) -> None:
    sleeps = Stack((*SLEEP[:3], "answer"), 1, tid=101, state="S", weight=9000)
    room = ("schedule@kernel", "pipe_write@kernel", "write@libc.so.6", "emit_rows")
    waits = [Stack(room, 1, tid=tid, state="S", weight=8000) for tid in (102, 103)]
    assert texts(tmp_path, sleeps, *waits, threads=(101, 102, 103), seconds=0.001) == [
        '"app" slept 9 s of 9 s, in answer().',
        "Two threads waited 16 s in total for a pipe, in emit_rows().",
    ]
    short = [one._replace(weight=3000) for one in waits]
    assert texts(tmp_path, sleeps, *short, threads=(101, 102, 103), seconds=0.001) == ['"app" slept 9 s of 9 s, in answer().']


@pytest.mark.parametrize(
    ("seen", "words"),
    [(20, ", connected to 10.0.0.5:5432"), (8, ", at times connected to 10.0.0.5:5432"), (2, "")],
    ids=["always", "at times", "once"],
)
def test_the_addresses_of_connections_are_told_with_waits_for_sockets(seen: int, words: str, tmp_path: Path) -> None:
    states = [ObservedState(100, "peer", 20, seen, "10.0.0.5:5432", [], []), ObservedState(200, "peer", 20, 20, "10.0.0.6:80", [], [])]
    wait = Stack(("schedule@kernel", "ep_poll@kernel", "epoll_wait@libc.so.6", "loop"), 900, state="S", waker=100)
    assert texts(tmp_path, Stack(("main",), 20), wait, states=states)[0] == f'"app" waited 0.9 s of 0.92 s for events{words}, in loop().'
    trying = [ObservedState(100, "connecting", 20, 20, "10.0.0.5:5432", [], [])]
    assert ", connecting to 10.0.0.5:5432, in loop()" in texts(tmp_path, Stack(("main",), 20), wait, states=trying)[0]
    many = [ObservedState(100, "peer", 20, 20, f"10.0.0.5:{port}", [], []) for port in range(9)]
    assert "connected" not in texts(tmp_path, Stack(("main",), 20), wait, states=many)[0]


def test_an_item_of_a_queue_is_work_only_for_pools(tmp_path: Path) -> None:
    get = (*FUTEX, "PyThread_acquire_lock_timed@python3.11", "py::Queue.get:/usr/lib/python3.11/queue.py@jitted-0-1.so")
    (first,) = texts(tmp_path, Stack((*get, "py::checkout:/srv/pool.py@jitted-0-1.so"), 1, state="S", weight=9000), seconds=0.001)
    assert first.startswith('"app" waited 9 s of 9 s for an item of a queue, in checkout()')
    (first,) = texts(tmp_path, Stack(get, 1, state="S", weight=9000), seconds=0.001)
    assert first == '"app" waited 9 s of 9 s for work; its process has no other thread.'


def test_own_code_that_waits_comes_before_the_threads_of_the_runtime(tmp_path: Path) -> None:
    """Its main thread is not the first of the process in a JVM."""
    park = (*FUTEX, "pthread_cond_wait@libc.so.6", "Parker::park(bool)@libc.so.6")
    take = (*park, "Object java.util.concurrent.LinkedBlockingQueue.take()@libc.so.6", "next_order")
    idle = [Stack((*park, "WorkerThread::run()@libc.so.6"), 1, tid=tid, state="S", weight=9000) for tid in (103, 104)]
    (first,) = texts(tmp_path, Stack(take, 1, tid=101, state="S", weight=9000), *idle, threads=(101, 103, 104), seconds=0.001)
    assert first == '"app" waited 9 s of 9 s for an item of a queue, in next_order().'


def test_a_child_that_sleeps_tells_more_than_its_parent_that_waits_for_it(tmp_path: Path) -> None:
    parent = Stack(CHILD, 1, state="S", weight=900)
    child = Stack((*SLEEP[:3], "produce"), 1, tid=10_000, pid=10_000, state="S", weight=800)
    first, *_ = texts(tmp_path, Stack(("main",), 20), parent, child, started=1, seconds=0.92)
    assert first == '"app" slept 0.8 s of 0.9 s, in produce().'


def test_one_worker_that_runs_own_code_is_no_started_process(tmp_path: Path) -> None:
    sentences = texts(tmp_path, Stack(("encrypt", "main"), 1000, tid=10_000, pid=10_000), Stack(("main",), 10), started=1, seconds=1.0)
    assert not any("started" in text for text in sentences)


def test_own_code_is_told_beside_code_whose_stacks_do_not_reach_it(tmp_path: Path) -> None:
    cipher = Stack(("sha512_block@libc.so.6",), 550)
    assert texts(tmp_path, cipher, Stack(("free@libc.so.6", "hash_password", "main"), 350), Stack(("main",), 100))[:2] == [
        "55 % of the CPU time is in sha512_block() (libc.so.6).",
        "35 % of the CPU time is in free(), called from hash_password().",
    ]


def test_several_system_calls_of_a_function_are_named_together(tmp_path: Path) -> None:
    steps = [
        (f"step{number}_{name}@kernel", f"__x64_sys_{name}@kernel", f"{name}@libc.so.6", "load") for name in CALLS for number in range(9)
    ]
    (first, *_) = texts(tmp_path, *(Stack(step, 20) for step in steps), Stack(("load",), 200))
    assert first == "100 % of the CPU time is in load() and the code it calls, mostly system calls (openat(), read() and close())."


def test_interrupts_are_not_called_by_the_function_that_they_interrupt(tmp_path: Path) -> None:
    interrupt = ("irqentry_exit_to_user_mode@kernel", "asm_sysvec_apic_timer_interrupt@kernel", "tax")
    (first, *_) = texts(tmp_path, Stack(("tax",), 700), Stack(interrupt, 300))
    assert first == "100 % of the CPU time is in tax() and the code it calls."


def test_shares_without_a_cause_are_not_told_after_waits(tmp_path: Path) -> None:
    small = [Stack((f"f{number}",), 10) for number in range(10)]
    assert texts(tmp_path, *small, Stack(SLEEP, 1, state="S", weight=900), seconds=1.01) == ['"app" slept 0.9 s of 1 s, in nap().']


def test_a_cpu_limit_is_told_in_place_of_other_threads(tmp_path: Path) -> None:
    limit = ObservedState(100, "limit", 10, 9, "0.2", [], [])
    stacks = [Stack(("encode", "main"), 200), Stack(("schedule@kernel", "encode"), 700, state="R")]
    _, second, *_ = texts(tmp_path, *stacks, seconds=0.95, states=[limit])
    text = '"app" waited 0.7 s of 0.95 s for a CPU; its cgroup may use 0.2 CPUs, and reached that limit in 90 % of the periods.'
    assert second == text
    _, second, *_ = texts(tmp_path, *stacks, seconds=0.95, states=[limit._replace(seen=1)])
    assert second == '"app" waited 0.7 s of 0.95 s for a CPU, which other programs used.'


def test_tasks_of_a_pool_that_wait_for_tasks_of_the_same_pool(tmp_path: Path) -> None:
    get = (*FUTEX, "pthread_cond_wait@libc.so.6", "Object java.util.concurrent.FutureTask.get()@libc.so.6")
    waits = [Stack((*get, name), 1, tid=tid, state="S", weight=9000) for tid, name in ((101, "render"), (102, "render"), (103, "start"))]
    idle = Stack((*FUTEX, "Parker::park(bool)@libc.so.6", "WorkerThread::run()@libc.so.6"), 1, tid=104, state="S", weight=9000)
    assert texts(tmp_path, *waits, idle, seconds=0.001) == [
        "Three threads waited 27 s in total for the result of a task, in render() and start(); it did not come."
    ]
    run = "void java.util.concurrent.ThreadPoolExecutor.runWorker(Worker)@libc.so.6"
    tasks = [one._replace(names=(*one.names, run)) for one in waits[:2]]
    first = texts(tmp_path, *tasks, waits[2], idle, seconds=0.001)[0]
    assert first.endswith("; it did not come: both threads that run tasks of pools wait for one, too.")
    one_worker = texts(tmp_path, tasks[0], waits[2], idle, seconds=0.001)[0]
    assert one_worker.endswith(": the only thread that runs tasks of a pool waits for one, too.")
    free = idle._replace(names=(*FUTEX, "java.util.concurrent.ThreadPoolExecutor.getTask()@libc.so.6", run), tid=105)
    assert " too." not in texts(tmp_path, *tasks, waits[2], free, seconds=0.001)[0]


CALLS = ("openat", "read", "close")
ACCEPT = ("schedule@kernel", "inet_csk_accept@kernel", "accept4@libc.so.6", "accept_loop", "main")
WORKER = (*FUTEX, "pthread_cond_wait@libc.so.6", "worker")


def test_of_a_server_at_rest_the_thread_for_its_clients_is_told(tmp_path: Path) -> None:
    """Each thread waits from before the first event of the recording until its end."""
    pool = [Stack(WORKER, 1, tid=tid, state="S", weight=10_000) for tid in (101, 102, 103)]
    turns = [Stack((*LOCK[:4], "worker"), 1, tid=tid, state="S", weight=10_000) for tid in (104, 105, 106)]
    for threads in (pool, [*pool, *turns]):
        sentences = texts(tmp_path, Stack(ACCEPT, 1, state="S", weight=10_000), *threads, seconds=0.001)
        assert sentences == ['"app" waited 10 s of 10 s for a connection, in accept_loop().']


def test_a_timer_of_the_runtime_of_a_server_at_rest_is_not_told(tmp_path: Path) -> None:
    timer = ("schedule@kernel", "hrtimer_nanosleep@kernel", "clock_nanosleep@libc.so.6")
    threads = [Stack(ACCEPT, 1, state="S", weight=10_000), Stack(timer, 1, tid=101, state="S", weight=10_000)]
    assert texts(tmp_path, *threads, seconds=0.001) == ['"app" waited 10 s of 10 s for a connection, in accept_loop().']
    own = Stack((*timer, "nap"), 1, tid=101, state="S", weight=10_000)
    assert texts(tmp_path, threads[0], own, seconds=0.001)[0].endswith("slept 10 s of 10 s, in nap().")


def test_events_that_no_thread_caused_can_be_timers(tmp_path: Path) -> None:
    poll = ("schedule@kernel", "ep_poll@kernel", "epoll_wait@libc.so.6", "loop")
    for waker, events in ((0, "for events or a timer, in loop()"), (102, "for events, in loop()")):
        first, *_ = texts(tmp_path, Stack(("main",), 20), Stack(poll, 900, state="S", waker=waker), threads=(102,), from_start=True)
        assert events in first


def test_the_collection_of_garbage_is_told(tmp_path: Path) -> None:
    build = ("build", "main.main")
    collector = ("runtime.scanobject", "runtime.gcBgMarkWorker", "runtime.goexit")
    first, second = texts(tmp_path, Stack(build, 700), Stack(collector, 300, tid=101), threads=(101,))
    assert (first, second) == (
        "70 % of the CPU time is in build(), called from main.main().",
        "30 % of the CPU time is in garbage collection.",
    )
    small = [Stack((f"f{number}",), 60) for number in range(10)]
    first, *_ = texts(tmp_path, *small, *(Stack((f"v8::internal::Scavenger::Process{number}(int)",), 40) for number in range(10)))
    assert first == "40 % of the CPU time is in garbage collection."
    assert not any("garbage" in text for text in texts(tmp_path, Stack(build, 970), Stack(collector, 30)))
    assert not any("garbage" in text for text in texts(tmp_path, Stack(("collect", "main"), 900)))


def test_the_collections_of_a_jvm_are_counted_with_the_option_that_limits_them(tmp_path: Path) -> None:
    stacks = [Stack(("build",), 300), Stack(("DefNewGeneration::collect(bool)",), 700)]

    def told(*states: ObservedState) -> str:
        text = next(text for text in texts(tmp_path, *stacks, states=states) if "garbage" in text)
        return text.partition(", nearly all of it")[0].removesuffix(".")

    young = ObservedState(100, "collections", 3100, 1815, "young", [], [ObservedFrame("-Xmn3m", "", 3)])
    full = ObservedState(100, "collections", 200, 1, "full", [], [ObservedFrame("", "", 1024)])
    start = "70 % of the CPU time is in garbage collection: at least "
    assert told(young, full) == f"{start}1,815 collections of young objects, which may take up to 3 MB (-Xmn3m)"
    assert told(young, full._replace(looks=9000)) == f"{start}1 collection of the whole heap and 1,815 collections of young objects"
    assert told(full) == f"{start}1 collection of the whole heap, which may grow to 1,024 MB"
    assert told(young._replace(began=[ObservedFrame("", "", 3)])) == f"{start}1,815 collections of young objects"
    assert told(young._replace(pid=7)) == "70 % of the CPU time is in garbage collection"


def test_collections_of_the_whole_heap_of_v8_are_told_with_its_limit(tmp_path: Path) -> None:
    mark, scavenge = "v8::internal::MarkCompactCollector::Process(int)", "v8::internal::Scavenger::Process(int)"
    option = [ObservedState(100, "heap option", 1, 1, "--max-old-space-size=160", [], [])]

    def told(whole: int, young: int, states: list[ObservedState]) -> str:
        stacks = [Stack((mark, "fill"), whole), Stack((scavenge, "fill"), young), Stack(("fill",), 1000 - whole - young)]
        return next(text for text in texts(tmp_path, *stacks, states=states) if "garbage" in text).partition("collection")[2]

    assert told(700, 100, option).startswith(
        ", mostly that of the whole heap (mark-compact), which may grow to 160 MB (--max-old-space-size=160)"
    )
    assert told(400, 400, []).startswith(", 40 % in that of the whole heap (mark-compact)")
    assert "whole" not in told(20, 780, option)
    lie = [option[0]._replace(reason="--max-old-space-size=160; \x1b[2J"), option[0]._replace(reason="--max-old-space-size=" + "9" * 99)]
    assert "grow" not in told(700, 100, lie)


def test_json_that_node_itself_converts_is_told_with_the_module(tmp_path: Path) -> None:
    """Node's messages between processes are JSON: no function of the program calls for it."""
    channel = "JS:^writeChannelMessage node:internal/child_process/serialization:163:22@jitted-0-1.so"
    write = ("v8::internal::JsonStringifier::SerializeString(int)", "v8::internal::Builtin_JsonStringify(int)", channel)
    read = ("v8::internal::JsonParser<unsigned char>::ParseJsonValue<false>()", "v8::internal::Builtin_JsonParse(int)")
    small = [Stack((f"f{number}",), 50) for number in range(10)]
    told = next(one for one in texts(tmp_path, Stack(write, 400), Stack(read, 100), *small) if "JSON" in one)
    assert told == (
        "50 % of the CPU time is in JSON.stringify() and JSON.parse(), mostly called from node:internal/child_process/serialization."
    )
    assert not any("JSON" in one for one in texts(tmp_path, Stack(read, 100), *small))


def test_garbage_collection_is_told_with_the_function_that_runs_meanwhile(tmp_path: Path) -> None:
    collect = ("deduce_unreachable@python3.11", "gc_collect_main@python3.11")
    stacks = [Stack((own("build"), own("main")), 700), Stack((*collect, own("build"), own("main")), 200)]
    texts_of_both = texts(tmp_path, *stacks, Stack((*collect, own("main")), 100))
    assert texts_of_both[-1] == "30 % of the CPU time is in garbage collection, 67 % of it during build()."
    assert texts(tmp_path, *stacks)[-1] == "22 % of the CPU time is in garbage collection, nearly all of it during build()."


def test_the_time_of_a_part_is_that_of_its_ranges(tmp_path: Path) -> None:
    """Not from the beginning of the first range until the end of the last, nor that of the whole recording."""
    path = sampled_program(tmp_path, [Stack(("main",), 1001)])  # the last one after 1 s
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    ranges = TimeRanges(((500_000_000, 520_000_000), (900_000_000, 1_400_000_000)))
    options = ReportOptions(sample_filter=SampleFilter(times=ranges), chains=ChainOptions(CallGraph()), rows=RowOptions(by_thread=True))
    with Recording(str(path)) as recording:
        evidence = Evidence(recording.report(options=options, symbols=symbols), recording.data)
        assert evidence.elapsed == pytest.approx(0.02 + 0.1, abs=1e-6)


def test_of_processes_that_wait_for_each_other_the_outermost_is_told(tmp_path: Path) -> None:
    waits = [Stack(CHILD, 900, state="S"), Stack((*CHILD[:3], "shell"), 900, tid=10_000, pid=10_000, state="S")]
    first, *_ = texts(tmp_path, Stack(("main",), 20), *waits, started=1, seconds=0.92)
    assert first.startswith('"app" waited 0.9 s of 0.92 s for a child process, in run_tool()')
    helper = Stack((*CHILD[:3], "helper"), 60, tid=500, pid=500, state="S")  # of another process
    first, *_ = texts(tmp_path, Stack(("main",), 20), *waits, helper, started=1, seconds=0.92)
    assert first.startswith('"app" waited 0.9 s of 0.92 s for a child process, in run_tool()')


def test_a_chain_of_waits_is_followed_to_its_end(tmp_path: Path) -> None:
    """Two threads that wait for each other end the search."""
    pipe = ("schedule@kernel", "pipe_read@kernel", "read@libc.so.6", "consume")
    first_wait = Stack(pipe, 900, tid=101, state="S", waker=102)
    receive = ("schedule@kernel", "sk_wait_data@kernel", "recv@libc.so.6", "relay")
    second_wait = Stack(receive, 900, tid=102, state="S", waker=103)
    end = Stack((*SLEEP[:3], "origin"), 890, tid=103, state="S")
    first, *_ = texts(tmp_path, Stack(("main",), 20), first_wait, second_wait, end, threads=(101, 102, 103), seconds=0.92)
    end_of_chain = "it waited for a thread that waited too, and the last one slept 0.89 s, in origin()."
    assert first == f'"app" waited 0.9 s of 0.92 s for a pipe, in consume(); {end_of_chain}'
    circle = Stack((*LOCK[:4], "relay"), 900, tid=102, state="S", waker=101)
    first, *_ = texts(tmp_path, Stack(("main",), 20), Stack(LOCK, 900, tid=101, state="S", waker=102), circle, seconds=0.92)
    assert first == "Two threads waited 1.8 s in total for a lock, in drain() and relay()."


def test_a_condition_that_no_recorded_thread_signalled(tmp_path: Path) -> None:
    wait = (*FUTEX, "pthread_cond_wait@libc.so.6", "next_job")
    for waker, text in ((0, "for a condition that no recorded thread signalled, in next_job()"), (102, "for a condition, in next_job()")):
        first, *_ = texts(tmp_path, Stack(("main",), 20), Stack(wait, 900, state="S", waker=waker), threads=(102,), from_start=True)
        assert text in first


def test_the_note_on_few_samples_is_about_printed_shares(tmp_path: Path) -> None:
    """Waits are measured."""
    assert texts(tmp_path, Stack(("main",), 5), Stack(SLEEP, 900, state="S")) == ['"app" slept 0.9 s of 0.9 s, in nap().']


def test_a_recording_of_waits_alone_has_a_sentence(tmp_path: Path) -> None:
    assert texts(tmp_path, Stack(SLEEP, 900, state="S")) == ['"app" slept 0.9 s of 0.9 s, in nap().']


def test_the_sleep_of_a_child_does_not_add_to_that_of_its_parent(tmp_path: Path) -> None:
    waits = [Stack(CHILD, 600, state="S"), Stack(SLEEP, 600, tid=200, pid=200, state="S"), Stack(SLEEP, 200, state="S")]
    assert texts(tmp_path, Stack(("main",), 20), *waits)[0].startswith('"app" waited 0.6 s of 1.4 s for a child process, in run_tool()')


def test_a_wait_for_a_cpu_comes_after_the_function(tmp_path: Path) -> None:
    first, second = texts(tmp_path, Stack(("work", "main"), 300), Stack(("schedule@kernel", "work", "main"), 700, state="R"))
    assert first.startswith("100 % of the CPU time is in work()")
    assert second == '"app" waited 0.7 s of 1 s for a CPU, which other programs used.'


def test_a_wait_for_a_cpu_is_told_beside_sleeps(tmp_path: Path) -> None:
    queue = ("schedule@kernel", "work", "main")
    stacks = [Stack(("work", "main"), 60), Stack(SLEEP, 1, state="S", weight=600)]
    first, second, *_ = texts(tmp_path, *stacks, Stack(queue, 300, state="R"), seconds=0.96)
    assert first == '"app" slept 0.6 s of 0.96 s, in nap().'
    assert second == '"app" waited 0.3 s of 0.96 s for a CPU, which other programs used.'
    for ready in (50, 150):  # less than it ran, or than a fifth of the time
        assert not any("for a CPU" in text for text in texts(tmp_path, *stacks, Stack(queue, ready, state="R"), seconds=0.96))


def test_threads_that_wait_for_a_lock_come_before_the_thread_that_runs(tmp_path: Path) -> None:
    waits = [Stack(LOCK, 600, tid=tid, state="S") for tid in (101, 102, 103)]
    first, second = texts(tmp_path, Stack(("update", "main"), 900), *waits, threads=(101, 102, 103), seconds=1.0)
    assert first == "Three threads waited 1.8 s in total for a lock, in drain()."
    assert second.startswith("100 % of the CPU time is in update()")


def test_a_wait_for_pythons_lock_is_reported_by_its_caller(tmp_path: Path) -> None:
    gil = (*FUTEX, "pthread_cond_timedwait@libc.so.6", "_PyEval_EvalFrameDefault@python3.11")
    waits = [Stack(gil, 600, tid=tid, state="S") for tid in (101, 102)]
    first, *_ = texts(tmp_path, Stack(("crunch", "main"), 900), *waits, threads=(101, 102), seconds=1.0)
    assert first == "Two threads waited 1.2 s in total for Python's global interpreter lock (GIL)."


def test_idle_threads_of_a_pool_are_no_cause(tmp_path: Path) -> None:
    pool = [Stack((*FUTEX, "pthread_cond_wait@libc.so.6", "worker"), 900, tid=tid, state="S") for tid in (101, 102)]
    (first,) = texts(tmp_path, Stack(("work", "main"), 900), *pool, threads=(101, 102), seconds=1.0)
    assert first.startswith("100 % of the CPU time is in work()")


def test_names_are_data(tmp_path: Path) -> None:
    (first,) = texts(tmp_path, Stack(("evil\x1b[2J\nname", "main"), 500))
    assert first == "100 % of the CPU time is in evil^[[2J^Jname(), called from main()."


def test_threads_of_another_namespace_are_not_idle(tmp_path: Path) -> None:
    elsewhere = Stack(("vfs_read@kernel",), 500, tid=0, pid=0)
    first, *_ = texts(tmp_path, elsewhere, Stack(("work", "main"), 500))
    assert first.startswith("50 % of the CPU time is in ")


# Tests of the verdict on programs that were run in turns.


MILLISECOND = 1_000_000


def verdict_of_comparison(a: list[int], b: list[int], *, cpu_a: list[int] | None = None, cpu_b: list[int] | None = None) -> str:
    """Return the sentence on runs of these milliseconds of elapsed time, and of CPU time."""
    sides = []
    for name, elapsed, cpu in (("a", a, cpu_a), ("b", b, cpu_b)):
        runs = Runs(name)
        for number, time in enumerate(elapsed):
            runs.add(time * MILLISECOND, {"task-clock": ("msec", float((cpu or elapsed)[number]))})
        sides.append(runs)
    (sentence,) = comparison_verdict(compare_runs(sides[0], sides[1]))
    return sentence.text


def test_a_difference_has_its_interval() -> None:
    slow, fast = [*range(100, 110)], [*range(90, 100)]
    text = verdict_of_comparison(slow, fast)
    assert text.startswith("B takes 10 % less time than A (")
    assert " %) and uses 10 % less CPU time (" in text
    assert text.endswith(" %), with 95 % confidence.")


def test_significant_changes_precede_uncertain_ones() -> None:
    noise = [100, 180, 90, 130, 210, 95, 160, 110, 140, 120]
    text = verdict_of_comparison(noise, noise[::-1], cpu_a=[*range(100, 110)], cpu_b=[*range(110, 120)])
    assert text.startswith("B uses 10 % more CPU time than A (")
    assert "; elapsed time: cannot tell (" in text
    assert text.endswith(" runs would, for a change of 5 %).")


def test_a_difference_that_is_too_small_to_matter() -> None:
    a = [100_000 + number for number in range(12)]
    assert verdict_of_comparison(a, [time + 20 for time in a]) == "B differs from A by less than 1 % in elapsed time and CPU time."


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs(runs: int) -> None:
    assert verdict_of_comparison([100] * runs, [200] * runs) == f"Elapsed time and CPU time: cannot tell from {runs} and {runs} runs."


# Tests of the names of functions in sentences.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("py::search.<locals>.<genexpr>:/srv/slow.py", "a generator expression in search()"),
        ("py::<lambda>:/srv/slow.py", "a lambda in the top level of slow.py"),
        ("py::outer.<locals>.inner:/srv/slow.py", "outer.inner()"),
        ("py::<module>:/srv/slow.py", "the top level of slow.py"),
        ("JS:~ /srv/slow.js:1:1", "the top level of slow.js"),
        ("JS:*checksum /srv/slow.js:1:18", "checksum()"),
        ("void order<Row>(std::vector<Row, std::allocator<Row> >&)", "order<Row>()"),
        ("Sum::operator()(int) const", "Sum::operator()()"),
        ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()()"),
        ("java.lang.String Main.join(int)", "Main.join()"),
        ("int[] app.Rows.sort(java.util.List, int)", "app.Rows.sort()"),
        ("__memmove_avx_unaligned_erms", "memcpy() or memmove()"),
        ("__strlen_evex", "strlen()"),
        ("void std::__introsort_loop<int*, long, Less>(int*, int*, long, Less)", "std::sort()"),
        ("__x64_sys_clock_nanosleep", "clock_nanosleep()"),
        ("__memset_avx512_unaligned_erms", "memset()"),
        ("_int_malloc", "malloc()"),
        ("_int_free", "free()"),
        ("_int_free_merge_chunk", "free()"),
        ("__libc_malloc", "malloc()"),
        ("unlink_chunk.isra.0", "unlink_chunk()"),
        ("memory_of_avx", "memory_of_avx()"),
        ("string_avx2_search", "string_avx2_search()"),
        ("pread64@@GLIBC_2.2.5", "pread64()"),
        ("RegExp:^([a-z0-9]+[._-]?)+@(b)+$", "the regular expression ^([a-z0-9]+[._-]?)+@(b)+$"),
        ("RegExp:a (b)", "the regular expression a (b)"),
        (f"RegExp:{'ab' * 31}", f"the regular expression {'ab' * 28}a..."),
        ("evil\x1b[2J(int)", "evil^[[2J()"),
        ("f(((((", "f(((((()"),
        (")", ")()"),
    ],
)
def test_a_name_reads_as_its_author_wrote_it(name: str, text: str) -> None:
    assert function_text(name) == text


def test_frames_of_the_parent_are_no_callers_of_a_forked_worker(tmp_path: Path) -> None:
    bootstrap = "py::BaseProcess._bootstrap:/usr/lib/python3.12/multiprocessing/process.py@jitted-0-1.so"
    inherited = (
        bootstrap,
        "py::Pool.__init__:/usr/lib/python3.12/multiprocessing/pool.py@jitted-0-1.so",
        "py::<module>:/srv/app.py@jitted-0-1.so",
    )
    (first,) = texts(tmp_path, Stack(("py::score:/srv/app.py@jitted-0-1.so", *inherited), 1000))
    assert first == "100 % of the CPU time is in score()."
    wait = Stack(("schedule@kernel", "pipe_read@kernel", *inherited), 10, state="S", weight=90)
    assert "top level" not in texts(tmp_path, Stack(("main",), 3), wait, seconds=0.9)[0]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("inotify_read@kernel", "for events"),
        ("eventfd_read@kernel", "for events"),
        ("timerfd_read_iter@kernel", "for events"),
        ("signalfd_read_iter@kernel", "for a signal"),
        ("do_sigtimedwait.isra.0@kernel", "for a signal"),
        ("do_mq_timedreceive@kernel", "for a message"),
        ("do_msgrcv@kernel", "for a message"),
        ("kernel_clone@kernel", "for a child process"),
        ("read@libc.so.6", "for input"),
        ("<std::sys::sync::condvar::futex::Condvar>::wait", "for a condition"),
        ("<std::sync::barrier::Barrier>::wait", "at a barrier"),
    ],
)
def test_waits_have_the_reason_of_their_kernel_function(tmp_path: Path, function: str, words: str) -> None:
    frames = ("schedule@kernel", function) if function.endswith("@kernel") else (function,)
    (first,) = texts(
        tmp_path, Stack(("main",), 3), Stack((*frames, "next_one", "main"), 10, state="S", weight=90), seconds=0.9, threads=[101]
    )
    assert first == f'"app" waited 0.9 s of 0.9 s {words}, in next_one().'


def test_a_wait_without_stacks_has_its_system_call(tmp_path: Path) -> None:
    def sentence(seen: int, looks: int = 100) -> str:
        calls = [
            ObservedState(100, "call", looks, seen, "read() on a pipe", [], []),
            ObservedState(100, "call", looks, looks - seen, "", [], []),
        ]
        return texts(tmp_path, Stack(("main",), 3), Stack(("",), 10, state="-", weight=90), seconds=0.9, states=calls)[0]

    assert sentence(95) == '"app" waited 0.9 s of 0.9 s in the system call read() on a pipe.'
    assert sentence(60) == '"app" waited 0.9 s of 0.9 s for unknown reasons.'
    assert sentence(5, 5) == '"app" waited 0.9 s of 0.9 s for unknown reasons.'


def test_a_function_whose_callees_are_inlined_is_named_with_all_of_them(tmp_path: Path) -> None:
    stacks = [
        Stack(("memcmp@libc.so.6", "sort_all", "main"), 230),
        Stack(("sort_all", "main"), 130),
        Stack(("swap", "sort_all", "main"), 100),
    ]
    first, *_ = texts(tmp_path, *stacks, *(Stack((f"part{number}", "main"), 60) for number in range(9)))
    assert first == "46 % of the CPU time is in sort_all() and the code it calls, called from main()."


def test_inlined_algorithms_and_lambdas_are_no_code_of_the_program() -> None:
    bare = "sort<__gnu_cxx::__normal_iterator<Order*, std::vector<Order> >, sort_all(std::vector<Order>&)::<lambda(const Order&)> >"
    assert not is_own_name(bare)
    assert is_own_name("process<int, main()::<lambda(int)> >")
    assert not is_own_name("_M_invoke<0>"), "of libstdc++"
    of_musl = ("sccp", "wait4", "waitpid", "epoll_pwait", "pthread_cond_timedwait")
    assert not any(map(is_own_name, of_musl)), "of a C library that is linked statically"
    assert all(map(is_own_name, ("poll", "read", "wait", "wait_for_child", "pthread_pool_run"))), "names that programs use, too"
    assert not is_own_name("<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>"), "declared in a method of slices"
    assert is_own_name("<u8 as <app::Row>::of::Kind>::size")
    assert not is_own_name("sort.partition_func"), "of Go, unlike sort.part.0 and sort.isra.0 of C"
    assert is_own_name("sort.part.0")
    assert is_own_name("sort.isra.0")
    assert is_own_name("void process<__gnu_cxx::__normal_iterator<int*, std::vector<int> > >(int)")
    assert charge_kind(OWN, "operator()") == LAMBDA


# Tests of phases.


def test_functions_that_run_one_after_the_other_are_phases(tmp_path: Path) -> None:
    stacks = [Stack(("parse", "load", "main"), 250), Stack(("copy", "load", "main"), 50), Stack(("sort", "order", "main"), 500)]
    sentences = verdict(tmp_path, *stacks, Stack(("write", "main"), 200), seconds=10.0)
    phases = next(one for one in sentences if one.rule == "phases")
    assert (
        phases.text
        == "Until 3 s, 100 % of the CPU time is in load(); from 3 s to 8 s, 100 % is in order(); from 8 s on, 100 % is in write()."
    )
    assert [phases.names[f"function {number}"] for number in range(3)] == ["load", "order", "write"]


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_and_short_recordings_have_no_phases(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    names = [draw.choice(("load", "order", "write")) for _ in range(40)]
    # a schedule without any change, or with one, is not random
    stacks = [Stack((name, "main"), draw.randrange(5, 60)) for name in [*names, "load", "order", "load"]]
    assert all(one.rule != "phases" for one in verdict(tmp_path, *stacks, seconds=10.0))
    steady = [Stack(("load", "main"), 400), Stack(("order", "main"), 400)]
    assert all(one.rule != "phases" for one in verdict(tmp_path, *steady, seconds=0.5))


@pytest.mark.parametrize(("reason", "helpers"), [(reasons.EVENTS, {2}), (reasons.CHILD, set())])
def test_the_wait_of_a_process_tells_more_than_that_of_a_child_which_waits_for_it(reason: int, helpers: set[int]) -> None:
    """A process that waits for its children tells less than they do."""
    rows = SimpleNamespace(dimensions={"tid": np.array([1, 2])})
    waits = SimpleNamespace(rows=rows, by_reason=lambda _rows: [SimpleNamespace(reason=reason, seconds=5.0)])
    evidence: Any = SimpleNamespace(waits=waits, main_threads=frozenset({1, 2}), children_of={1: [2], 2: []}.get, elapsed=6.0)
    assert _helpers(evidence) == helpers


def test_the_function_that_allocates_is_named_with_garbage_collection(tmp_path: Path) -> None:
    collects = Stack(("runtime.scanobject", "runtime.gcBgMarkWorker"), 600)
    allocates = Stack(("runtime.memclrNoHeapPointers", "runtime.mallocgc", "runtime.growslice", "main.parseRow", "main.main"), 90)
    sentence = "67 % of the CPU time is in garbage collection; 100 % of the time in allocations is that of main.parseRow()."
    assert sentence in texts(tmp_path, collects, allocates, Stack(("main.other", "main.main"), 200))
    others = [allocates._replace(names=("runtime.mallocgc", f"main.f{number}", "main.main"), samples=30) for number in range(4)]
    assert "83 % of the CPU time is in garbage collection." in texts(tmp_path, collects, *others)
    few = allocates._replace(samples=9)
    assert "99 % of the CPU time is in garbage collection." in texts(tmp_path, collects, few)
