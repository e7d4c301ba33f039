"""Examples of each command, which help and the manual pages show before the options. Tests parse every line as perfpy does."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable


class Example(NamedTuple):
    """A purpose, and the lines to type."""

    wish: str
    lines: tuple[str, ...]


def _example(wish: str, *lines: str) -> Example:
    return Example(wish, lines)


EXAMPLES: Final[dict[str, tuple[Example, ...]]] = {
    "lock": (
        _example("record waits for kernel locks, and show their callers", "perfpy lock record -- make -j8", "perfpy lock contention"),
        _example("show the threads that waited most", "perfpy lock contention -t -E 10"),
        _example("show who held the locks", "perfpy lock record -e sched:sched_waking -- make -j8", "perfpy lock contention -o"),
        _example("show the longest waits for each lock", "perfpy lock report -k wait_max"),
    ),
    "kwork": (
        _example(
            "record the work of the kernel, and show what took the most time", "perfpy kwork record -- sleep 10", "perfpy kwork report"
        ),
        _example("show which work waited longest until it began", "perfpy kwork latency -s max"),
        _example("show each soft interrupt with its time and delay", "perfpy kwork -k softirq timehist"),
        _example(
            "show the CPU time of tasks without interrupts", "perfpy kwork -k irq,softirq,sched record -- sleep 1", "perfpy kwork top"
        ),
    ),
    "kmem": (
        _example(
            "record the kernel's allocations, and show who wastes memory", "perfpy kmem record -- make", "perfpy kmem --caller -l 20 stat"
        ),
        _example("show who holds pages", "perfpy kmem --page record -- make", "perfpy kmem --page --live --caller stat"),
    ),
    "timechart": (
        _example(
            "record a build, and draw what CPUs and tasks did", "perfpy timechart record -- make -j8", "perfpy timechart --html build.html"
        ),
        _example("draw the input and output of tasks", "perfpy timechart record -I -- make", "perfpy timechart --io-merge-dist=1ms"),
    ),
    "ftrace": (
        _example("print the calls of functions while a program runs", "perfpy ftrace trace -T 'vfs_*' -- ls"),
        _example("print what a function calls, three levels deep", "perfpy ftrace trace -G do_sys_openat2 --graph-opts depth=3 -- ls"),
        _example("show how long a function takes", "perfpy ftrace latency -T vfs_read -- ls"),
        _example("show which functions below a system call take the time", "perfpy ftrace profile -G do_sys_openat2 -- ls"),
    ),
    "kvm": (
        _example("record the exits of all virtual machines for a second", "perfpy kvm stat record -a -- sleep 1", "perfpy kvm stat report"),
        _example("show the slowest accesses to ports", "perfpy kvm stat report --event ioport -k time"),
        _example(
            "profile all guests for a minute, and show their kernel's functions",
            "perfpy kvm --guestkallsyms g.kallsyms record -a -- sleep 60",
            "perfpy kvm --guestkallsyms g.kallsyms report",
        ),
    ),
    "mem": (
        _example(
            "record loads of at least 50 cycles, and show what served them",
            "perfpy mem record --ldlat 50 -- ./program",
            "perfpy mem report",
        ),
        _example("show the slowest data, by symbol", "perfpy mem report -s symbol_daddr,mem"),
        _example("print every access on a line, for scripts", "perfpy mem report -D -x,"),
    ),
    "c2c": (
        _example("find false sharing between the threads of a program", "perfpy c2c record -- ./program", "perfpy c2c report"),
        _example("show which threads use a line, with the shares of nodes", "perfpy c2c report -c tid,iaddr -N"),
    ),
    "sched": (
        _example(
            "record what the scheduler does, and show which tasks waited for a CPU",
            "perfpy sched record -- make -j8",
            "perfpy sched latency",
        ),
        _example("show each switch with its times, and wakeups", "perfpy sched timehist -w"),
        _example("show the time that each thread ran", "perfpy sched timehist -s"),
        _example("show which thread each CPU ran", "perfpy sched map --compact"),
    ),
    "why": (
        _example("explain why a program is slow (as root)", "perfpy why -- ./program"),
        _example("explain a running process for five seconds", "perfpy why -d 5 -p 1234"),
        _example(
            "keep the recording, and look at another process in it", "perfpy why -o why.data -- ./program", "perfpy why -i why.data -p 1234"
        ),
        _example("show whole stacks, and all threads", "perfpy why -v -i why.data"),
        _example("see who waited for whom, in a browser", "perfpy why --html why.html -- ./program"),
        _example("print JSON for scripts", "perfpy why -j -- ./program"),
    ),
    "stat": (
        _example("count the events of a program", "perfpy stat -- make -j4"),
        _example("count chosen events in user space, with their spread", "perfpy stat -e cycles:u,instructions:u -r 5 -- ./program"),
        _example("test whether the new program is faster", 'perfpy stat --compare "./new" -- ./old'),
        _example("count a running process every second, until Ctrl-C", "perfpy stat -p 1234 -I 1000"),
        _example("count the whole machine for ten seconds, one line for each CPU", "perfpy stat -a -A -- sleep 10"),
        _example("print CSV or JSON for scripts", "perfpy stat -x, -e page-faults -- ./program", "perfpy stat -j -- ./program"),
    ),
    "record": (
        _example("record a program with callchains, and report it", "perfpy record -g -- ./program", "perfpy report"),
        _example("record a program without frame pointers", "perfpy record --unwind -- ./program"),
        _example("record a Python program: functions and lines", "perfpy record --python -- python3 app.py"),
        _example("record a Node or Java program with its function names", "perfpy record --jit -- node app.js"),
        _example("record a running process for ten seconds", "perfpy record -F 99 -g -p 1234 -- sleep 10"),
        _example("record the whole machine 99 times a second", "perfpy record -F 99 -a -g -- sleep 10"),
        _example(
            "record the hits of a tracepoint that match a filter",
            "perfpy record -e sched:sched_switch --filter 'prev_pid > 0' -a -- sleep 1",
        ),
        _example("use a pipe instead of a file", "perfpy record -o - -- ./program | perfpy script -i -"),
    ),
    "top": (
        _example("show what runs now", "perfpy top"),
        _example("show the functions of a process, with their callers", "perfpy top -g -p 1234"),
        _example("show the functions of a running Python program", "perfpy top --python -p 1234"),
        _example("show which commands use the CPUs", "perfpy top --sort comm"),
        _example("print ten updates as JSON, one object a line", "perfpy top --json --updates 10 -d 1"),
    ),
    "trace": (
        _example("print the system calls of a program", "perfpy trace -- ./program"),
        _example("print which files a running process opens", "perfpy trace -e openat -p 1234"),
        _example("print failed calls and slow calls", "perfpy trace --failure -- ./program", "perfpy trace --duration 5 -p 1234"),
        _example("count the calls of each thread, with their times and errors", "perfpy trace -s --errno-summary -- ./program"),
        _example(
            "record the calls of the whole machine for a second, and print them",
            "perfpy trace record -a -- sleep 1",
            "perfpy trace -i perf.data",
        ),
        _example(
            "show the calls of functions in a slow call, or of the last 20 ms",
            "perfpy trace --calls=handle,parse --when 'handle > 10ms' -p 1234",
            "perfpy trace --calls='handle,db_*' --last 20ms --html calls.html -p 1234",
        ),
        _example("show all calls of a small program by single-stepping it, without root", "perfpy trace --calls -- ./program"),
        _example("show all calls that Intel PT recorded", "perfpy record -e intel_pt//u -- ./program", "perfpy trace --calls -i perf.data"),
    ),
    "stacks": (
        _example("show where a program hangs", "perfpy stacks 1234"),
        _example("read the stacks in a program", "perfpy stacks 1234 --json | jq '.processes[0].threads'"),
    ),
    "leaks": (
        _example("show which lines hold the memory of a program when it holds most", "perfpy leaks -- python3 app.py"),
        _example("look at flame graphs of its memory in the browser", "perfpy leaks --html memory.html -- ./program"),
        _example("find the lines that make a running Python program grow", "perfpy leaks -p 1234 -d 30"),
        _example("include objects of up to 512 bytes, which slows the program down a lot", "perfpy leaks -p 1234 --small-objects"),
    ),
    "report": (
        _example("report perf.data", "perfpy report"),
        _example("print perf's text without rows below one percent", "perfpy report --stdio --percent-limit 1"),
        _example("show which commands and files were busy", "perfpy report --sort comm,dso"),
        _example("show the hot symbols of one library", "perfpy report --dsos libc.so.6 --sort symbol"),
        _example("show the hot functions, each with a tree of its callers", "perfpy report --no-children -g callee"),
        _example(
            "show what limits the wall-clock time of a build",
            "perfpy record --switch-events -g -- make -j8",
            "perfpy report --latency --sort parallelism,comm",
        ),
        _example(
            "report many recordings as one, by host or by time of day",
            "perfpy report -i 'hosts/*.data' --sort host,symbol --weights equal",
            "perfpy report -i 'hosts/*.data' --sort tod,comm",
        ),
        _example("write a time line, flame graph, tables and code as one HTML page", "perfpy report --html profile.html"),
        _example("read the report in a program", "perfpy report --json | jq '.events[0].rows[:10][] | [.overhead, .keys.symbol]'"),
    ),
    "annotate": (
        _example("show the code of the hottest functions with samples per instruction", "perfpy annotate"),
        _example("show the source lines that cost most, inlined calls included", "perfpy annotate --by-line"),
        _example("show one function in perf's text without source lines", "perfpy annotate --stdio --no-source -s main"),
        _example("show the hot source lines of one library and their instructions", "perfpy annotate -l -d libc.so.6"),
    ),
    "view": (
        _example("show the profile in the browser", "perfpy view"),
        _example("write the changes between two recordings as a page", "perfpy view -o changes.html before.data after.data"),
    ),
    "diff": (
        _example("compare two runs, and mark the changes beyond noise", "perfpy diff --noise before.data after.data"),
        _example("compare two runs by command, as ratios", "perfpy diff -s comm -c ratio before.data after.data"),
        _example("compare two runs in a flame graph", "perfpy diff --flamegraph changes.html before.data after.data"),
        _example("compare two groups of hosts", "perfpy diff before/ after/", "perfpy diff 'monday/*' 'tuesday/*'"),
    ),
    "script": (
        _example("print every sample", "perfpy script"),
        _example("print chosen fields", "perfpy script -F comm,tid,time,ip,sym"),
        _example("print the samples between two times", "perfpy script --time 12.5,13.0"),
        _example("feed tools that read perf script", "perfpy script | stackcollapse-perf.pl | flamegraph.pl > flame.svg"),
        _example(
            "call your own script, or one of perf's, for each sample", "perfpy script -s FILE.py", "perfpy script report stackcollapse"
        ),
        _example("call a script on numpy columns, such as batch['symbol']", "perfpy script --py FILE.py"),
    ),
    "list": (
        _example("list the software events, and the scheduler's tracepoints", "perfpy list sw", "perfpy list 'sched:*'"),
        _example("list every event about page faults", "perfpy list fault"),
        _example("install this CPU's events from a clone of Intel's perfmon repository", "perfpy list --update-events ./perfmon"),
        _example("check which hardware events this machine can count", "perfpy list --check hw"),
    ),
    "archive": (_example("move a recording to another machine", "perfpy archive perf.data", "perfpy archive --unpack perf.data.tar.bz2"),),
    "data": (_example("write every sample as JSON", "perfpy data convert --to-json samples.json -i perf.data"),),
    "export": (
        _example("write a recording as tables", "perfpy export --parquet tables -i perf.data"),
        _example("write the recordings of many hosts as tables", "perfpy export --parquet tables hosts/*.data"),
        _example("report exported tables", "perfpy report -i tables"),
    ),
    "check": (_example("test for a feature in a script", "perfpy check feature libtraceevent && echo yes"),),
    "config": (
        _example("list the current settings", "perfpy config --list"),
        _example("let reports omit callees' costs from now on", "perfpy config report.children=false"),
    ),
    "evlist": (
        _example("list the events of a recording", "perfpy evlist -i perf.data"),
        _example("list the events with every field of their attrs", "perfpy evlist -v"),
    ),
    "buildid-list": (_example("list only files with samples", "perfpy buildid-list -H -i perf.data"),),
    "buildid-cache": (
        _example(
            "keep a program before its next build, and list the cache", "perfpy buildid-cache -a ./program", "perfpy buildid-cache -l"
        ),
        _example("list the files of a recording that the cache lacks", "perfpy buildid-cache -M perf.data"),
    ),
    "probe": (
        _example(
            "add a probe to a function, record its hits with a variable, and delete it",
            "perfpy probe -x ./shop 'cost count it->price'",
            "perfpy record -e probe_shop:cost -- ./shop",
            "perfpy script",
            "perfpy probe -d probe_shop:cost",
        ),
        _example("show the lines and variables that can be probed", "perfpy probe -x ./shop -L cost", "perfpy probe -x ./shop -V cost:2"),
        _example("print the kernel's definition of a probe without adding it", "perfpy probe -x ./shop -D 'cost%return $retval'"),
        _example("list the probes", "perfpy probe -l"),
    ),
    "latency": (
        _example("measure a function of a running process until Ctrl-C", "perfpy latency parse -p 1234"),
        _example("measure a function of a program, and show an argument", "perfpy latency 'cost count' -- ./shop"),
        _example("measure a function of a library for ten seconds", "perfpy latency malloc -x /usr/lib/libc.so.6 -p 1234 -d 10"),
        _example("show how long tasks waited for a CPU", "perfpy sched record -- make -j8", "perfpy latency --of runqueue"),
        _example("show how long each system call took, as JSON", "perfpy trace record -- ./program", "perfpy latency --of syscalls -j"),
    ),
    "inject": (
        _example(
            "add names to JIT-compiled code",
            "perfpy record -k mono -- ./program-with-jit",
            "perfpy inject -j -i perf.data -o named.data",
            "perfpy report -i named.data",
        ),
    ),
}


_OWN: Final = "perfpy"
_OTHER: Final = "perf"
_PERF_VERSION: Final = "6.12.0"


def program() -> str:
    """Return `perf` or `perfpy`.

    It is `perf` if a link of that name replaces perf. `--version` then answers with the perf version whose text and options perfpy has,
    because other programs parse the number after "perf version".
    """
    return _OTHER if in_place_of_perf() else _OWN


def in_place_of_perf() -> bool:
    """Whether the process was called by perf's name."""
    return os.path.basename(sys.argv[0] if sys.argv else "") == _OTHER


def version_line() -> str:
    """Return the text of --version."""
    return f"perf version {_PERF_VERSION} (perfpy {__version__})" if in_place_of_perf() else f"perfpy version {__version__}"


def use_program_name(text: str) -> str:
    """Replace perfpy's name in a text of perfpy's own by the current one."""
    return text.replace(f"{_OWN} ", f"{_OTHER} ") if in_place_of_perf() else text


def use_program_name_in_commands(text: str, commands: Iterable[str]) -> str:
    """Replace perfpy's name only in the command lines of a text, because the text may contain other people's names."""
    if in_place_of_perf():
        for name in (*commands, "--help"):
            text = text.replace(f"{_OWN} {name}", f"{_OTHER} {name}")
    return text
