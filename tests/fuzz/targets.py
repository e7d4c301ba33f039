"""Targets: commands with sets of options, and calls of the API.

What enters: a generator of random numbers. What leaves: a Case: a target, its
arguments and damaged files. A target of a command is named after it; those of
the API are functions here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.binaries import damaged_elf, damaged_jitdump
from tests.fuzz.case import Case
from tests.fuzz.mutation import damaged_text
from tests.fuzz.recordings import damaged_recording
from tests.fuzz.seeds import common_files, seeds

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.fuzz.seeds import Files

_READ = ("sampled", "sampled", "sampled", "sampled", "sampled", "elf", "elf", "jit", "stat", "folder")
_SYMBOLIC = ("sampled", "sampled", "sampled", "elf", "elf", "jit")
_SORTS = (
    "comm,dso,symbol", "pid,comm", "sym", "dso", "cpu,socket", "time", "symoff,addr", "dso_size", "overhead,symbol", "cgroup,cgroup_id", "tgid,period",
    "transaction", "weight,local_weight", "code_page_size", "ins_lat,retire_lat", "simd,comm", "sample,pid,tid", "trace", "parent",
)  # fmt: skip
_BRANCH_SORTS = ("dso_from,dso_to", "symbol_from,symbol_to", "mispredict,in_tx,abort", "cycles", "srcline_from,srcline_to", "addr_from,addr_to", "callchain_branch_predicted")
_MEMORY_SORTS = ("mem,sym", "symbol_daddr,dso_daddr", "locked,tlb,snoop", "dcacheline,phys_daddr", "data_page_size", "blocked,weight", "symbol_iaddr")
#: what only recordings of one kind can show
_OWN_OPTIONS = {
    "branches": [["-b", "-s", keys] for keys in _BRANCH_SORTS],
    "everything <": [["-b", "-s", keys] for keys in _BRANCH_SORTS],
    "memory": [["--mem-mode", "-s", keys] for keys in _MEMORY_SORTS],
    "switches": [["--latency"], ["-s", "parallelism,latency,comm"], ["--parallelism", "1-2"], ["--latency", "-H"]],
    "tracepoints": [["-s", keys] for keys in ("trace", "trace_fields", "x,name", "sched:one_0.x", "one_3.list,comm")],
    "tracepoints >": [["-s", keys] for keys in ("trace", "trace_fields", "x,name")],
    "stat": [[]],
}
_FIELDS = (
    "comm,tid,pid,time,cpu,event,ip,sym,dso", "ip,sym,symoff,dso,dsoff", "trace,event", "brstack", "brstacksym,brstackoff", "brstackinsn", "addr,data_src,weight",
    "phys_addr,data_page_size,code_page_size", "iregs,uregs", "period,flags", "+misc", "-comm", "trace:comm,trace", "sw:ip", "bpf-output", "cgroup,retire_lat", "metric", "all",
)  # fmt: skip
_FIELDS_OF = {
    "branches": ("brstack", "brstacksym,brstackoff", "+brstack"),
    "everything <": ("brstack", "uregs,ip", "+brstacksym", "ip,sym,period"),
    "memory": ("addr,data_src,weight", "phys_addr,data_page_size,code_page_size", "iregs", "cgroup,retire_lat,ins_lat", "+addr"),
    "tracepoints": ("trace,event", "trace:comm,trace", "comm,cpu,trace"),
    "tracepoints >": ("trace,event",),
}
_TEXTS = ("1", "0-2", "busy", "[", "(", ".*", "10%-20%", "10%/2", "0.0,", ",1", "1.5,2.5", "nan", "-1", "9" * 25, "main", "0x1000", "a,b,,", "%", "é\x1b")

#: options of a report; those with {} get a text
_OF_REPORTS: tuple[tuple[str, ...], ...] = (
    ("-g",), ("-g", "caller"), ("-g", "flat,0.1"), ("-g", "folded,count"), ("-g", "fractal,0.5,callee,address"), ("--children",), ("--no-children",), ("-G",), ("-H",), ("-n",),
    ("--show-total-period",), ("--latency",), ("--max-stack", "3"), ("-T",), ("--group",), ("--no-group",), ("-v",), ("--stats",), ("--tasks",), ("--mmaps",), ("--header",),
    ("-I", "--header"), ("-x", "-p", "main"), ("-U",), ("-t", ","), ("-w", "3,9"), ("--ns",), ("--raw-trace",), ("--percentage", "relative"), ("--show-cpu-utilization",),
    ("--percent-limit", "1"), ("--group-sort-idx", "1"), ("--time-quantum", "1us"), ("--ignore-callees", "{}"), ("-d", "{}"), ("-c", "{}"), ("-S", "{}"), ("--pid", "{}"),
    ("-C", "{}"), ("--parallelism", "{}"), ("--time", "{}"), ("--switch-on", "{}"), ("--symfs", "."), ("-k", "app.elf"), ("-q",), ("--stdio-color", "always"), ("--no-demangle",),
    ("--demangle-kernel",), ("--fold-interpreters",), ("--skip-empty",), ("-f",), ("--no-inline",),
)  # fmt: skip
_OF_SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("-v",), ("-G",), ("--max-stack", "2"), ("--ns",), ("--reltime",), ("--deltatime",), ("-d",), ("-L",), ("--show-kernel-path",), ("--show-task-events",), ("--show-mmap-events",),
    ("--show-switch-events",), ("--show-namespace-events",), ("--show-cgroup-events",), ("--show-lost-events",), ("--show-bpf-events",), ("--show-text-poke-events",),
    ("--show-round-events",), ("--per-event-dump",), ("--time", "{}"), ("-C", "{}"), ("-c", "{}"), ("-S", "{}"), ("--stop-bt", "{}"), ("--switch-off", "{}"), ("--dsos", "{}"),
    ("--header",), ("-I", "--header"), ("-S", "0x1000", "--addr-range", "99"), ("--symfs", "."), ("-f",), ("--demangle-kernel",),
)  # fmt: skip
_OF_DIFFS = (("-c", "ratio"), ("-c", "wdiff:1,2"), ("-c", "delta"), ("-p",), ("-F",), ("-b",), ("-o", "1"), ("--json=out",), ("--flamegraph", "out.html"), ("--noise",), ("--time", "{}"))
_EXPORTS = ("--json=out", "--folded=out", "--flamegraph=out", "--speedscope=out", "--firefox=out", "--pprof=out")


def _some(rng: random.Random, choices: tuple[tuple[str, ...], ...], most: int = 4) -> list[str]:
    words: list[str] = []
    for _ in range(rng.randrange(most + 1)):
        words += (word.replace("{}", rng.choice(_TEXTS)) for word in rng.choice(choices))
    return words


def _symbols(rng: random.Random) -> list[str]:
    return ["--kallsyms", "kallsyms"] if rng.random() < 0.95 else ["--symfs", "."]


def _report(rng: random.Random, seed: str) -> list[str]:
    args = [*_symbols(rng), *_some(rng, _OF_REPORTS)]
    chance = rng.random()
    if seed in _OWN_OPTIONS and chance < 0.7:
        return args + rng.choice(_OWN_OPTIONS[seed])
    if chance < 0.45:
        args += ["-s", rng.choice(_SORTS)]
    elif chance < 0.55:
        args += ["-F", "overhead,overhead_children,sample,period," + rng.choice(_SORTS)]
    return args


def _script(rng: random.Random, seed: str) -> list[str]:
    few = ("+misc", "ip,sym,symoff,dso", "comm,tid,time,event", "-comm", *_FIELDS_OF.get(seed, ()))
    fields = ["-F", rng.choice(few if rng.random() < 0.7 else _FIELDS)] if rng.random() < 0.6 else []
    return [*_symbols(rng), *_some(rng, _OF_SCRIPTS), *fields]


def _inject(rng: random.Random, seed: str) -> list[str]:
    kinds = (["-b"], ["-B"], ["-B"], ["--buildid-all"], ["--mmap2-buildid-all"])
    kinds = (["-j"], ["-j"], ["-b", "-j"], ["-j", "-v"]) if seed.startswith("jit") else kinds
    return ["-o", "out.data", *rng.choice(kinds), *(["-f"] if rng.random() < 0.2 else [])]


def _buildid_cache(rng: random.Random, seed: str) -> list[str]:
    kinds = (
        ["-a", "app.elf"], ["-a", "app.elf", "-v"], ["-u", "app.elf"], ["-a", "app.elf", "-r", "app.elf"], ["-r", "app.elf"], ["-p", "app.elf"],
        ["-M", "perf.data"], ["-l"], ["-a", "app.elf", "-l"], ["-P"],
    )  # fmt: skip
    return rng.choice(kinds)


@dataclass(frozen=True)
class Target:
    """What to run. command: of perfpy, "" for the API; kinds: of seeds that suit it; args: makes its options; reads: takes -i and a pipe."""

    command: str
    kinds: tuple[str, ...]
    args: Callable[[random.Random, str], list[str]]
    reads: bool = True
    share: int = 1


TARGETS = {
    "report": Target("report", _SYMBOLIC + ("folder",), _report, share=6),
    "export": Target("report", _SYMBOLIC, lambda rng, seed: [*_symbols(rng), rng.choice(_EXPORTS), *(["--latency"] if rng.random() < 0.1 else [])], share=2),
    "report-dump": Target("report", _READ, lambda rng, seed: ["-D"]),
    "header": Target("report", _READ, lambda rng, seed: ["--header-only", *(["-I"] if rng.random() < 0.5 else [])]),
    "script": Target("script", _SYMBOLIC + ("stat",), _script, share=6),
    "script-dump": Target("script", _READ, lambda rng, seed: [rng.choice(("-D", "--dump-unsorted-raw-trace")), "--kallsyms", "kallsyms"]),
    "evlist": Target("evlist", _READ, lambda rng, seed: _some(rng, (("-v",), ("-F",), ("-g",), ("--trace-fields",)), 2)),
    "buildid-list": Target("buildid-list", _READ, lambda rng, seed: _some(rng, (("-H",), ("-v",)), 1)),
    "buildid-cache": Target("buildid-cache", ("elf",), _buildid_cache, reads=False),
    "inject": Target("inject", ("jit", "jit", "sampled", "elf", "stat"), _inject, share=2),
    "stat-report": Target("stat", ("stat", "stat", "stat", "sampled"), lambda rng, seed: ["report", *_some(rng, (("-j",), ("-x,",), ("-A",), ("--per-socket",), ("--per-thread",)), 1)]),
    "diff": Target("diff", _SYMBOLIC, lambda rng, seed: [*_symbols(rng), *_some(rng, _OF_DIFFS, 2), "perf.data", "other.data"], reads=False),
    "list": Target("list", ("events",), lambda rng, seed: rng.choice((["CACHE.*"], ["-v"], ["-d", "metrics"], ["-j"], ["CACHE.HIT", "ratio"])), reads=False),
    "api-samples": Target("", _READ, lambda rng, seed: []),
    "api-records": Target("", _READ, lambda rng, seed: []),
    "api-report": Target("", _SYMBOLIC, lambda rng, seed: [rng.choice(_SORTS)]),
    "api-tracepoints": Target("", ("sampled",), lambda rng, seed: []),
}
_NAMES = [name for name, target in TARGETS.items() for _ in range(target.share)]


def make_case(rng: random.Random, names: list[str] | None = None) -> Case:
    """A target (one of the names, by default any) and damaged files for it."""
    name = rng.choice(names or _NAMES)
    target = TARGETS[name]
    kind = rng.choice(target.kinds)
    seed = rng.choice(sorted(seeds()[kind]))
    options = target.args(rng, seed)
    whole = _files(name, kind, seed, rng)
    files = _damaged(whole, rng)
    environ = {"PERF_CONFIG": "perfconfig" if rng.random() < 0.08 else "/dev/null"}
    if environ["PERF_CONFIG"] == "perfconfig" and rng.random() < 0.8:
        files["perfconfig"] = damaged_text(whole["perfconfig"], rng)
    if name == "list":
        environ["PERFPY_EVENT_FILES"] = "events"
    stdin = "perf.data" if target.reads and target.command and "perf.data" in files and rng.random() < 0.15 else ""
    source = ["-i", "-" if stdin else "perf.data"] if target.reads and target.command else []
    # `stat report` has its options behind its own name
    args = [*options[:1], *source, *options[1:]] if name == "stat-report" else [*source, *options]
    return Case(name, tuple(args), files, stdin, environ)


def _files(name: str, kind: str, seed: str, rng: random.Random) -> Files:
    files = common_files() | dict(seeds()[kind][seed])
    if name == "diff":
        files["other.data"] = files["perf.data"]
    if kind == "elf" and rng.random() < 0.3:
        files["home/.debug/.build-id/ab/cdef0123456789abcdef0123456789abcdef01/elf"] = files["app.elf"]
    return files


def _damaged(whole: Files, rng: random.Random) -> Files:
    """One of the files damaged, mostly; the recording most often, unless there is something more telling."""
    first = [path for path in whole if path not in ("kallsyms", "perfconfig")]
    telling = [path for path in first if "perf.data" not in path and "other" not in path] or first
    chosen = {rng.choice(telling)} if rng.random() < 0.6 else {rng.choice(first)}
    if rng.random() < 0.08:
        chosen = {rng.choice(sorted(whole))}
    if rng.random() < 0.15:
        chosen.add(rng.choice(sorted(whole)))
    return {path: _damaged_file(path, data, rng) if path in chosen else data for path, data in whole.items()}


def _damaged_file(path: str, data: bytes, rng: random.Random) -> bytes:
    if path.endswith((".elf", ".debug", "/elf")):
        return damaged_elf(data, rng)
    if path.endswith(".dump"):
        return damaged_jitdump(data, rng)
    if path.endswith((".map", "kallsyms", "perfconfig", ".json")):
        return damaged_text(data, rng)
    return damaged_recording(data, rng)
