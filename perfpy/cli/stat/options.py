"""The options of `perfpy stat`: perf stat's names, letters and defaults (perf-stat(1)).

What enters: nothing. What leaves: their class, for `stat` and `stat record`, and the group that `stat report` takes, too.
"""

from __future__ import annotations

from perfpy.cli.line.kinds import Attached, Counted, Flag, Listed, Value, percent
from perfpy.cli.line.options import CommandOptions, option, program_to_run

_LACKING = {
    "-T,--transaction": "it needs a CPU with transactional memory",
    "-b,--bpf-prog": "it needs BPF programs of perf's own",
    "--bpf-counters": "it needs BPF programs of perf's own",
    "--bpf-attr-map": "it needs BPF programs of perf's own",
    "--smi-cost": "it needs Intel's SMI counters",
    "--pfm-events": "it needs libpfm4; name events as perfpy list does",
    "--iostat": "it needs Intel's IIO counters",
    "--tpebs-mode": "it needs Intel's timed PEBS",
    "--record-tpebs": "it needs Intel's timed PEBS",
}


class PartOptions(CommandOptions):
    """By what parts of the machine counts are summed."""

    per_socket: bool = option("--per-socket", Flag(), "a line for each socket")
    per_die: bool = option("--per-die", Flag(), "a line for each die")
    per_cluster: bool = option("--per-cluster", Flag(), "a line for each cluster")
    per_cache: str | None = option("--per-cache", Attached(""), "a line for each cache (L1, L2 ...; default: the last)", metavar="<level>")
    per_core: bool = option("--per-core", Flag(), "a line for each core")
    per_thread: bool = option("--per-thread", Flag(), "a line for each thread")
    per_node: bool = option("--per-node", Flag(), "a line for each NUMA node")


class RunOptions(CommandOptions):
    """What is counted, how often, and where the counts go."""

    event: tuple[str, ...] = option(
        "-e,--event", Listed(), "event selector; perfpy list shows the events", metavar="<event>", negatable=False
    )
    filter: tuple[str, ...] = option("--filter", Listed(), "filter of the tracepoints before it", metavar="<filter>", negatable=False)
    event_files: str = option("--event-files", Value(default=""), "take named events from these JSON files, too", metavar="<folder>")
    cputype: str = option("--cputype", Value(default=""), "count on this kind of cores only, where there are several", metavar="<PMU>")
    pmu_filter: str = option("--pmu-filter", Value(default=""), "of several PMUs that an event means, count on this one", metavar="<PMU>")
    no_inherit: bool = option("-i,--no-inherit", Flag(), "child tasks do not inherit counters")
    pid: str = option("-p,--pid", Value(default=""), "count on these processes", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "count on these threads", metavar="<tid>")
    all_cpus: bool = option("-a,--all-cpus", Flag(), "count on all CPUs (default without a command)")
    scale: bool = option("--scale", Flag(default=True), "estimate what multiplexed counters missed (default)")
    verbose: int = option("-v,--verbose", Counted(), "say more; may be repeated")
    repeat: int = option("-r,--repeat", Value(int, default=1), "run the command n times, print mean and spread; 0: for ever")
    table: bool = option("--table", Flag(), "show each of the repeats")
    null: bool = option("-n,--null", Flag(), "count nothing, only take the time")
    detailed: int = option("-d,--detailed", Counted(), "add cache events; -dd and -ddd add more")
    sync: bool = option("-S,--sync", Flag(), "sync file systems before each run")
    big_num: bool | None = option("-B,--big-num", Flag(default=None), "thousands' separators (the locale's)")
    cpu: str = option("-C,--cpu", Value(default=""), "count on these CPUs, such as 0-2,5", metavar="<cpu>")
    no_aggr: bool = option("-A,--no-aggr,--no-merge", Flag(), "a line for each CPU")
    separator: str | None = option("-x,--field-separator", Value(), "fields with this separator", metavar="<separator>")
    json: bool = option("-j,--json-output", Flag(), "JSON, an object a line")
    cgroup: str = option("-G,--cgroup", Value(default=""), "a cgroup for each event before it", metavar="<name>", negatable=False)
    for_each_cgroup: str = option("--for-each-cgroup", Value(default=""), "each event in each of these cgroups", metavar="<name>")
    output: str = option("-o,--output", Value(default=""), "write to this file", metavar="<file>")
    append: bool = option("--append", Flag(), "append to the file of -o")
    log_fd: int = option("--log-fd", Value(int, default=0), "write to this file descriptor instead of stderr")
    pre: str = option("--pre", Value(default=""), "run this before each run", metavar="<command>")
    post: str = option("--post", Value(default=""), "run this after each run", metavar="<command>")
    interval: int = option("-I,--interval-print", Value(int, default=0), "print counts every n ms")
    interval_count: int = option("--interval-count", Value(int, default=0), "stop after n intervals")
    interval_clear: bool = option("--interval-clear", Flag(), "clear the screen before each interval")
    timeout: int = option("--timeout", Value(int, default=0), "stop after n ms (at least 10)")


class StatCommandOptions(RunOptions, PartOptions, lacks=_LACKING):
    """What the command takes; help shows it in this order."""

    delay: int = option("-D,--delay", Value(int, default=0), "count from n ms after the start on (-1: until --control enables)")
    metrics: tuple[str, ...] = option(
        "-M,--metrics", Listed(), "compute these metrics or groups of metrics", metavar="<metric>", negatable=False
    )
    metric_no_group: bool = option("--metric-no-group", Flag(), "count the events of metrics one by one")
    metric_no_merge: bool = option("--metric-no-merge", Flag(), "count an event of several metrics once for each")
    metric_no_threshold: bool = option("--metric-no-threshold", Flag(), "count no events for thresholds of metrics (perfpy never does)")
    topdown: bool = option("--topdown", Flag(), "compute the top-down metrics (those of the group TopdownL1)")
    td_level: int = option("--td-level", Value(int, default=1), "the level of --topdown")
    metric_only: bool = option("--metric-only", Flag(), "print only ratios and metrics")
    hide_zero_events: bool = option("--hide-zero-events", Flag(), "show no events that were counted and did not happen")
    affinity: bool = option("--affinity", Flag(default=True), "let it go from CPU to CPU itself (it need not)", hidden=True)
    hybrid_merge: bool = option("--hybrid-merge", Flag(), "sum up what two kinds of cores count", hidden=True)
    percore_show_thread: bool = option("--percore-show-thread", Flag(), "sums of cores for each of their CPUs", hidden=True)
    all_kernel: bool = option("--all-kernel", Flag(), "count in the kernel only")
    all_user: bool = option("--all-user", Flag(), "count in user space only")
    summary: bool = option("--summary", Flag(), "with -I: print the sums at the end")
    no_csv_summary: bool | None = option("--no-csv-summary", Flag(default=None), "no 'summary' before the lines of --summary with -x")
    quiet: bool = option("--quiet", Flag(), "print nothing (with record)")
    control: str = option(
        "--control", Value(default=""), "take enable and disable from there, answer ack", metavar="<fd:N[,M]|fifo:PATH[,PATH]>"
    )
    compare: tuple[str, ...] = option(
        "--compare",
        Listed(),
        "run this command, too, in turn with the other, and tell how it differs; more than once for more",
        metavar="<command>",
    )
    warmup: int = option("--warmup", Value(int, default=1), "with --compare: runs of each before those that count")
    min_change: float = option(
        "--min-change", Value(float, default=1.0), "with --compare: differences below this are too small to matter", metavar="<percent>"
    )
    fail_if_slower: float | None = option(
        "--fail-if-slower",
        Value(percent),
        "with --compare: exit status 90 where a command takes longer by more",
        metavar="<percent>",
    )
    ignore_failure: bool = option("--ignore-failure", Flag(), "with --compare: compare programs that fail, too")
    workload: tuple[str, ...] = program_to_run()
