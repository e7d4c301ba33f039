"""What each command is most used for: what help and the manual pages show before the options.

What enters: nothing. What leaves: for each command, what one wants to know and
the lines that tell it. Tests read every line as perfpy would.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """What one wants, and the lines to type."""

    wish: str
    lines: tuple[str, ...]


def _example(wish: str, *lines: str) -> Example:
    return Example(wish, lines)


EXAMPLES: Final[dict[str, tuple[Example, ...]]] = {
    "stat": (
        _example("what a program costs", "perfpy stat -- make -j4"),
        _example("chosen events, user space only, and how much five runs vary", "perfpy stat -e cycles:u,instructions:u -r 5 -- ./program"),
        _example("is the new one faster, and is that more than noise", 'perfpy stat --compare "./new" -- ./old'),
        _example("a process that runs already, every second, until Ctrl-C", "perfpy stat -p 1234 -I 1000"),
        _example("the whole machine for ten seconds, a line for each CPU", "perfpy stat -a -A -- sleep 10"),
        _example("for scripts: CSV, or JSON", "perfpy stat -x, -e page-faults -- ./program", "perfpy stat -j -- ./program"),
    ),
    "record": (
        _example("where a program spends its time, and who calls what", "perfpy record -g -- ./program", "perfpy report"),
        _example("the same of a program without frame pointers", "perfpy record --unwind -- ./program"),
        _example("the functions of a Python, Node or Java program, by their names", "perfpy record --jit -- python3 app.py"),
        _example("a process that runs already, for ten seconds", "perfpy record -F 99 -g -p 1234 -- sleep 10"),
        _example("the whole machine, 99 times a second", "perfpy record -F 99 -a -g -- sleep 10"),
        _example(
            "every hit of a tracepoint that satisfies a filter", "perfpy record -e sched:sched_switch --filter 'prev_pid > 0' -a -- sleep 1"
        ),
        _example("through a pipe, without a file", "perfpy record -o - -- ./program | perfpy script -i -"),
    ),
    "report": (
        _example("what perf.data holds", "perfpy report"),
        _example("as perf's text, without rows below one percent", "perfpy report --stdio --percent-limit 1"),
        _example("which commands and files were busy", "perfpy report --sort comm,dso"),
        _example("which symbols of one library were busy", "perfpy report --dsos libc.so.6 --sort symbol"),
        _example("who calls the hot functions, each as a tree of its callers", "perfpy report --no-children -g callee"),
        _example(
            "what the users of a program wait for",
            "perfpy record --switch-events -g -- make -j8",
            "perfpy report --latency --sort parallelism,comm",
        ),
        _example(
            "many recordings as one: which functions on which hosts, which commands when",
            "perfpy report -i 'hosts/*.data' --sort host,symbol --weights equal",
            "perfpy report -i 'hosts/*.data' --sort tod,comm",
        ),
        _example("time line, flame graph, tables and code in one page that needs no network", "perfpy report --html profile.html"),
        _example("for programs", "perfpy report --json | jq '.events[0].rows[:10][] | [.overhead, .keys.symbol]'"),
    ),
    "annotate": (
        _example("the code of the hottest functions, with the samples at each instruction", "perfpy annotate"),
        _example("which lines of source code cost most, and what was inlined into them", "perfpy annotate --by-line"),
        _example("one function, in perf's text, without lines of source code", "perfpy annotate --stdio --no-source -s main"),
        _example("which source lines of one library matter, and the instructions they became", "perfpy annotate -l -d libc.so.6"),
    ),
    "view": (
        _example("the profile in the browser", "perfpy view"),
        _example("what changed between two recordings, as a page for somebody else", "perfpy view -o changes.html before.data after.data"),
    ),
    "diff": (
        _example("what the second run spends more or less in, and whether that is noise", "perfpy diff --noise before.data after.data"),
        _example("the same by command, as ratios", "perfpy diff -s comm -c ratio before.data after.data"),
        _example("as a flame graph that shows what grew and what shrank", "perfpy diff --flamegraph changes.html before.data after.data"),
        _example(
            "what changed on many hosts, by more than they differ", "perfpy diff before/ after/", "perfpy diff 'monday/*' 'tuesday/*'"
        ),
    ),
    "script": (
        _example("every sample, as perf prints it", "perfpy script"),
        _example("chosen fields", "perfpy script -F comm,tid,time,ip,sym"),
        _example("what happened between two times", "perfpy script --time 12.5,13.0"),
        _example("for tools that read perf script's text", "perfpy script | stackcollapse-perf.pl | flamegraph.pl > flame.svg"),
        _example("your own program for each sample, or one of perf's", "perfpy script -s FILE.py", "perfpy script report stackcollapse"),
        _example("quicker, on numpy columns: its on_sample(batch) has batch['symbol']", "perfpy script --py FILE.py"),
    ),
    "list": (
        _example("the software events, and everything about scheduling", "perfpy list sw", "perfpy list 'sched:*'"),
        _example("what has to do with page faults", "perfpy list fault"),
        _example("the events and metrics of this CPU, from Intel's files or the kernel's", "perfpy list --update-events ~/perfmon"),
        _example("which of the hardware's events can be counted here, and why not", "perfpy list --check hw"),
    ),
    "archive": (_example("take a recording to another machine", "perfpy archive perf.data", "perfpy archive --unpack perf.data.tar.bz2"),),
    "data": (_example("every sample for programs that read JSON", "perfpy data convert --to-json samples.json -i perf.data"),),
    "export": (
        _example("a recording as tables", "perfpy export --parquet tables -i perf.data"),
        _example("those of many hosts, in one place", "perfpy export --parquet tables hosts/*.data"),
        _example("a report of what was exported", "perfpy report -i tables"),
    ),
    "check": (_example("whether perf's scripts may rely on a feature", "perfpy check feature libtraceevent && echo yes"),),
    "config": (
        _example("the settings that are in force", "perfpy config --list"),
        _example("reports without callees' costs from now on", "perfpy config report.children=false"),
    ),
    "evlist": (
        _example("the events of a recording", "perfpy evlist -i perf.data"),
        _example("with all that was asked of the kernel", "perfpy evlist -v"),
    ),
    "buildid-list": (_example("only the files that samples fell into", "perfpy buildid-list -H -i perf.data"),),
    "buildid-cache": (
        _example(
            "keep a program before it is built anew, and list what is kept", "perfpy buildid-cache -a ./program", "perfpy buildid-cache -l"
        ),
        _example("which files of a recording are missing", "perfpy buildid-cache -M perf.data"),
    ),
    "inject": (
        _example(
            "give names to code that was compiled while the program ran",
            "perfpy record -k mono -- ./program-with-jit",
            "perfpy inject -j -i perf.data -o named.data",
            "perfpy report -i named.data",
        ),
    ),
}
