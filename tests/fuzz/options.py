"""Options of the commands, to choose from at random.

Input: a generator of random numbers and the name of the seed.
Output: the words of a command line, most of which suit the seed: what is
refused at once tests nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

Words = tuple[str, ...]


def _sets(text: str) -> tuple[Words, ...]:
    """Sets of options between bars."""
    return tuple(tuple(words.split()) for words in text.split("|"))


#: in place of {}
_TEXTS = (
    *("1", "0-2", "busy", "[", "(", ".*", "10%-20%", "10%/2", "0.0,", ",1", "1.5,2.5", "nan", "-1", "9" * 25, "main", "0x1000"),
    *("a,b,,", "%", "é\x1b"),
)

_SORTS = (
    "comm,dso,symbol pid,comm sym dso cpu,socket time symoff,addr dso_size overhead,symbol cgroup,cgroup_id tgid,period transaction"
    " weight,local_weight code_page_size ins_lat,retire_lat simd,comm sample,pid,tid trace parent"
).split()
_BRANCHES = _sets(
    "-b -s dso_from,dso_to | -b -s symbol_from,symbol_to | -b -s mispredict,in_tx,abort | -b -s cycles | -b -s addr_from,addr_to"
    " | -b -s callchain_branch_predicted | -b -s srcline_from,srcline_to"
)
_TRACES = _sets("-s trace | -s trace_fields | -s x,name | -s sched:one_0.x | -s one_3.list,comm | --raw-trace -s trace")
#: what only recordings of one kind can show
_REPORTS_OF = {
    "branches": _BRANCHES,
    "everything <": _BRANCHES,
    "memory": _sets(
        "--mem-mode -s mem,sym | --mem-mode -s symbol_daddr,dso_daddr | --mem-mode -s locked,tlb,snoop"
        " | --mem-mode -s dcacheline,phys_daddr | --mem-mode -s data_page_size | --mem-mode -s blocked,weight"
        " | --mem-mode -s symbol_iaddr"
    ),
    "switches": _sets("--latency | -s parallelism,latency,comm | --parallelism 1-2 | --latency -H"),
    "tracepoints": _TRACES,
    "tracepoints >": _TRACES,
}
_OF_REPORTS = _sets(
    "-g | -g caller | -g flat,0.1 | -g folded,count | -g fractal,0.5,callee,address | --children | --no-children | -G | -H | -n"
    " | -T | -v | -q | -U | --show-total-period | --latency | --max-stack 3 | --group | --no-group | --stats | --tasks | --mmaps"
    " | --header | -I --header | -x -p main | -t , | -w 3,9 | --ns | --raw-trace | --percentage relative | --show-cpu-utilization"
    " | --percent-limit 1 | --group-sort-idx 1 | --time-quantum 1us | --ignore-callees {} | -d {} | -c {} | -S {} | --pid {}"
    " | -C {} | --parallelism {} | --time {} | --switch-on {} | --symfs . | -k app.elf | --stdio-color always | --no-demangle"
    " | --demangle-kernel | --fold-interpreters | --skip-empty | -f | --verdict | --verdict -g"
)
_EXPORTS = ("--json=out", "--folded=out", "--flamegraph=out --no-source", "--speedscope=out", "--firefox=out", "--pprof=out")

_PAGES = _sets("| --inline | --no-inline | --no-children | --time 10%-90% | -s comm,dso | --fold-interpreters | --full-source-path")
_ANNOTATIONS = _sets(
    "--by-line | --by-line | --by-line --json=out | --stdio | --stdio -l | --stdio --source | --stdio --no-source | --by-line -d {}"
    " | --by-line -s {} | --json=out | --stdio --asm-raw | --stdio -s {} | --by-line --no-inline"
)
_OF_TABLES = _sets(
    "| -g | --no-children -s sym,srcline | --folded=out | --html=out.html --no-source | --json=out | -s comm,pid,cpu | --time {}"
    " | -s host,recording | --header-only | --stats"
)

_FIELDS = (
    "comm,tid,pid,time,cpu,event,ip,sym,dso ip,sym,symoff,dso,dsoff trace,event brstack brstacksym,brstackoff addr,data_src,weight"
    " phys_addr,data_page_size,code_page_size iregs,uregs period,flags trace:comm,trace sw:ip bpf-output cgroup,retire_lat metric all"
).split()
_FEW_FIELDS = ("+misc", "ip,sym,symoff,dso", "comm,tid,time,event", "-comm")
_FIELDS_OF = {
    "branches": ("brstack", "brstacksym,brstackoff", "+brstack"),
    "everything <": ("brstack", "uregs,ip", "+brstacksym", "ip,sym,period"),
    "memory": ("addr,data_src,weight", "phys_addr,data_page_size,code_page_size", "iregs", "cgroup,retire_lat,ins_lat", "+addr"),
    "tracepoints": ("trace,event", "trace:comm,trace", "comm,cpu,trace"),
    "tracepoints >": ("trace,event",),
}
_OF_SCRIPTS = _sets(
    "-v | -G | --max-stack 2 | --ns | --reltime | --deltatime | -d | -L | --show-kernel-path | --show-task-events"
    " | --show-mmap-events | -f | --show-switch-events | --show-namespace-events | --show-cgroup-events | --show-lost-events"
    " | --show-bpf-events | --show-text-poke-events | --show-round-events | --per-event-dump | --time {} | -C {} | -c {} | -S {}"
    " | --stop-bt {} | --switch-off {} | --dsos {} | --header | -I --header | -S 0x1000 --addr-range 99 | --symfs ."
    " | --demangle-kernel"
)
_OF_STACKS = _sets("--inline | --no-inline | -v | --max-stack 9 | --full-source-path | --fold-interpreters | -k kallsyms")
_STACK_REPORTS = _sets(
    "-s srcline | -s srcfile,sym | -g caller,srcline | -g callee,address --no-children | --children | --folded=out"
    " | --flamegraph=out --no-source | --json=out | -s sym,srcline -g | --pprof=out"
)
_STACK_FIELDS = ("ip,sym,srcline", "ip,sym,symoff,dso", "ip,sym,srcline,srccode", "comm,ip,sym,dso,srcline", "+srcline")
_OF_DIFFS = _sets(
    "-c ratio | -c wdiff:1,2 | -c delta | -p | -F | -b | -o 1 | --json=out | --flamegraph out.html | --noise | --time {} | -s comm"
    " | -s pid,sym"
)
_MANY = _sets(
    "-s host,comm,sym | -s recording,dso | -g | --no-children -s sym,srcline | -s comm,pid,cpu,cgroup | --weights perf.data=2 -s sym"
    " | --json=out | --folded out | --flamegraph out.html | --pprof out | --speedscope out | -s trace | -b -s symbol_from,symbol_to"
    " | --jobs 2 -g | -s time --time-quantum 1ms | --latency | --mem-mode | --time 10%-90% -s sym"
)
_INJECTS = _sets("-b | -B | -B | --buildid-all | --mmap2-buildid-all | -B -v")
_JIT_INJECTS = _sets("-j | -j | -b -j | -j -v | -j -f")
_MACHINES = ("arm", "arm-debug-frame", "arm64", "arm64-signed", "ppc64le", "riscv64", "s390x", "x86-64", "x86-64-dwarf4")
_BUILDID_CACHE = _sets(
    "-a app.elf | -a app.elf -v | -u app.elf | -a app.elf -r app.elf | -r app.elf | -p app.elf | -M perf.data | -l | -a app.elf -l | -P"
)


_TRACES_OF_CALLS = _sets(
    "-s | -S | --errno-summary | --summary-mode total | --max-summary 2 | -T | --no-comm | --show-cpu | --failure | --duration 0.1"
    " | --max-events 3 | -e read,write | -e !openat | -e file | -p 7 | -t 8 | -C 0 | -v | -f"
)
#: of tests/unit/unwind/machines/program.c, with arguments
_POINTS = (
    *(
        "leaf",
        "leaf%return",
        "leaf n",
        "leaf $vars",
        "many_registers a b",
        "many_registers $params",
        "many_registers:1",
        "mixed i",
        "*",
        "l*",
    ),
    *("program.c:5", "program.c:22 $vars", "leaf+4 %di", "x=leaf", "g:x=leaf n[0]:string", "leaf;sink", "0x1000", "%sdt_a:b"),
    *("leaf@program.c", "_start", "dynamic n->a.b:s", "add"),
)
_OF_PROBES = _sets(
    "-f | --no-inlines | --max-probes 1 | --source tmp/c | --externs | --range | --filter * | --no-demangle | -v | -q | --symfs ."
)


def _some(rng: random.Random, choices: tuple[Words, ...], most: int) -> Words:
    chosen = [rng.choice(choices) for _ in range(rng.randrange(most + 1))]
    return tuple(word.replace("{}", rng.choice(_TEXTS)) for words in chosen for word in words)


def symbols(rng: random.Random) -> Words:
    """Where symbols are: never in this machine's kernel."""
    return ("--kallsyms", "kallsyms") if rng.random() < 0.95 else ("--symfs", ".")


def report(rng: random.Random, seed: str) -> Words:
    """Of `report`, rows."""
    words = symbols(rng) + _some(rng, _OF_REPORTS, 4)
    chance = rng.random()
    if seed in _REPORTS_OF and chance < 0.7:
        return words + rng.choice(_REPORTS_OF[seed])
    if chance < 0.45:
        return (*words, "-s", rng.choice(_SORTS))
    if chance < 0.55:
        return (*words, "-F", "overhead,overhead_children,sample,period," + rng.choice(_SORTS))
    return words


def export(rng: random.Random, seed: str) -> Words:
    """Of `report`, whole stacks."""
    return (*symbols(rng), *rng.choice(_EXPORTS).split(), *(("--latency",) if seed == "switches" else ()))


def script(rng: random.Random, seed: str) -> Words:
    """Of `script`."""
    words = symbols(rng) + _some(rng, _OF_SCRIPTS, 4)
    fields = (*_FEW_FIELDS, *_FIELDS_OF.get(seed, ())) if rng.random() < 0.7 else _FIELDS
    return (*words, "-F", rng.choice(fields)) if rng.random() < 0.6 else words


def script_dump(rng: random.Random, seed: str) -> Words:
    """Of `script`, bytes."""
    return (rng.choice(("-D", "--dump-unsorted-raw-trace")), *symbols(rng))


def header(rng: random.Random, seed: str) -> Words:
    """Of `report --header-only`."""
    return ("--header-only", "-I") if rng.random() < 0.5 else ("--header-only",)


def evlist(rng: random.Random, seed: str) -> Words:
    """Of `evlist`."""
    return rng.choice(_sets("| -v | -F | -g | --trace-fields | -v -F"))


def buildid_list(rng: random.Random, seed: str) -> Words:
    """Of `buildid-list`."""
    return rng.choice(_sets("| -H | -v"))


def buildid_cache(rng: random.Random, seed: str) -> Words:
    """Of `buildid-cache`."""
    return rng.choice(_BUILDID_CACHE)


def inject(rng: random.Random, seed: str) -> Words:
    """Of `inject`."""
    return ("-o", "out.data", *rng.choice(_JIT_INJECTS if seed.startswith("jit") else _INJECTS))


def stat_report(rng: random.Random, seed: str) -> Words:
    """Of `stat report`."""
    return ("report", *rng.choice(_sets("| -j | -x, | -A | --per-socket | --per-thread | --per-core -x;")))


def diff(rng: random.Random, seed: str) -> Words:
    """Of `diff`."""
    return (*symbols(rng), *_some(rng, _OF_DIFFS, 2), "perf.data", "other.data")


def many(rng: random.Random, seed: str) -> Words:
    """Of `report` of several recordings."""
    return (*(word for name in ("perf.data", "other.data", "perf.data") for word in ("-i", name)), *symbols(rng), *rng.choice(_MANY))


def list_events(rng: random.Random, seed: str) -> Words:
    """Of `list`."""
    return rng.choice(_sets("CACHE.* | -v | -d metrics | -j | CACHE.HIT ratio"))


def sort_keys(rng: random.Random, seed: str) -> Words:
    """Of Recording.report()."""
    return (rng.choice(_SORTS),)


def nothing(rng: random.Random, seed: str) -> Words:
    """Of calls that take no arguments."""
    return ()


def stacks_report(rng: random.Random, _seed: str) -> Words:
    """Callchains that are unwound, with inlined calls and source lines."""
    return ("--stdio", "--symfs", ".", *rng.choice(_STACK_REPORTS), *(rng.choice(_OF_STACKS) if rng.random() < 0.6 else ()))


def stacks_script(rng: random.Random, _seed: str) -> Words:
    """The same, sample by sample."""
    return ("--symfs", ".", "-F", rng.choice(_STACK_FIELDS), *(rng.choice(_OF_STACKS) if rng.random() < 0.6 else ()))


def page(rng: random.Random, seed: str) -> Words:
    """The page of `report --html`."""
    where = ("--symfs", ".") if seed in _MACHINES or rng.random() < 0.2 else ("--kallsyms", "kallsyms")
    return (*where, "--html=out.html", *rng.choice(_PAGES), *(("--no-source",) if rng.random() < 0.3 else ()))


def annotate(rng: random.Random, seed: str) -> Words:
    """Instructions and lines, by capstone."""
    words = tuple(word.replace("{}", rng.choice(_TEXTS)) for word in rng.choice(_ANNOTATIONS))
    return ("--symfs", ".", *words)


def aux_dump(rng: random.Random, seed: str) -> Words:
    """Packets of hardware traces."""
    return ("-i", "aux.data", "-D")


def aux_script(rng: random.Random, seed: str) -> Words:
    """The samples beside hardware traces."""
    return (
        "-i",
        "aux.data",
        *rng.choice(
            _sets(
                "| -D | -F +misc | -v | --show-lost-events | --itrace=i1ibftmaM --ns | --no-itrace | --itrace=be"
                " | --itrace=gi1ixwpes3 -F +addr | --call-ret-trace | --call-trace | --insn-trace"
                " | --itrace=biyxwpeq -F +ipc | --itrace=bipqq | --itrace=Abyi3ie -F +ipc,+flags | --itrace=i1il9g -F +brstack"
                " | --itrace=oIGLbe -F +flags,+brstack | --itrace=G3L5Z | --itrace=ogl -F +iregs,+brstack,+weight | --itrace=qoI"
            )
        ),
    )


def traced_calls(rng: random.Random, seed: str) -> Words:
    """The calls of an Intel PT trace."""
    return ("-i", "aux.data", "--calls", *rng.choice(_sets("| --json -o - | --last 1us | --html calls.html | --chrome-trace calls.json")))


def of_tables(rng: random.Random, seed: str) -> Words:
    """Of exported tables."""
    return ("-i", "tables", *(word.replace("{}", rng.choice(_TEXTS)) for word in rng.choice(_OF_TABLES)))


def script_of_tables(rng: random.Random, seed: str) -> Words:
    """Samples of exported tables."""
    return ("-i", "tables", *rng.choice(_sets("| -F +misc | -F comm,tid,time,event,ip,sym,dso | -G | --time 10%-90% | -v")))


def parquet_export(rng: random.Random, seed: str) -> Words:
    """Tables of recordings, or of tables."""
    source = "tables" if seed in ("one", "several") else "perf.data"
    return (*symbols(rng), "--parquet", "written", source)


def trace(rng: random.Random, seed: str) -> Words:
    """Of `trace -i`."""
    return ("-o", "-", *_some(rng, _TRACES_OF_CALLS, 3))


def why(rng: random.Random, seed: str) -> Words:
    """Of `why -i`."""
    return rng.choice(_sets("| -v | -j | -p 7 | -p 100 | -p 103 -v | -q -f"))


def sched(rng: random.Random, seed: str) -> Words:
    """Of `sched` and its actions."""
    latency = _sets("| -p | -s runtime | -C 0")
    timehist = _sets("| -w | -w -M | -V | -n --state | -s | -S -I | --show-prio | -t 101 | --time 10%-50% | -g")
    actions = (("latency", latency), ("timehist", timehist), ("map", _sets("| --compact | --cpus 0")))
    action, sets = rng.choice(actions)
    return (action, *rng.choice(sets))


def sched_stats(rng: random.Random, seed: str) -> Words:
    """Of `sched stats report`."""
    return ("stats", "report", *rng.choice(_sets("| -v | -C 0 | -D")))


def kwork(rng: random.Random, seed: str) -> Words:
    """Of `kwork` and its actions."""
    return rng.choice(_sets("report -S | latency | timehist -g | top | report -n RCU -C 0 | top -s tid --time ,1.05"))


def kmem(rng: random.Random, seed: str) -> Words:
    """Of `kmem stat`."""
    return rng.choice(_sets("stat | stat --caller --alloc -l 3 | stat --page --caller --live | stat --slab --page --alloc --raw-ip"))


def lock(rng: random.Random, seed: str) -> Words:
    """Of `lock` and its actions."""
    return rng.choice(_sets("contention -o | contention -l | contention | contention -t -x, | report -t | info"))


def timechart(rng: random.Random, seed: str) -> Words:
    """Of `timechart`: the chart on standard output."""
    return ("-o", "-", *rng.choice(_sets("| -P | -T -n 2 | -p 100 --highlight=1us | -w 300 --io-merge-dist=1ms | --html out.html")))


def probe(rng: random.Random, seed: str) -> Words:
    """Of `probe`, what changes no kernel. seed: the name of the program."""
    point = rng.choice(_POINTS)
    action = rng.choice((("-D", point), ("-D", point), ("-L", point.split(" ")[0]), ("-V", point.split(" ")[0]), ("-F",)))
    return ("-x", f"tmp/c/{seed}", *action, *_some(rng, _OF_PROBES, 2))
