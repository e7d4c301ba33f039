"""Options of `perfpy stat`: perf stat's names, letters and defaults (perf-stat(1))."""

from __future__ import annotations

from perfpy.cli.line.kinds import Attached, Counted, Flag, Listed, Value, percent
from perfpy.cli.line.options import CommandOptions, option, program_to_run

_LACKING = {
    "-T,--transaction": "it needs a CPU with transactional memory",
    "-b,--bpf-prog": "it needs perf's BPF programs",
    "--bpf-counters": "it needs perf's BPF programs",
    "--bpf-attr-map": "it needs perf's BPF programs",
    "--smi-cost": "it needs Intel's SMI counters",
    "--pfm-events": "it needs libpfm4; name events as perfpy list does",
    "--iostat": "it needs Intel's IIO counters",
    "--tpebs-mode": "it needs Intel's timed PEBS",
    "--record-tpebs": "it needs Intel's timed PEBS",
}


class PartOptions(CommandOptions):
    """The parts of the machine over which counts are added."""

    per_socket: bool = option("--per-socket", Flag(), "print one line for each socket")
    per_die: bool = option("--per-die", Flag(), "print one line for each die")
    per_cluster: bool = option("--per-cluster", Flag(), "print one line for each cluster")
    per_cache: str | None = option(
        "--per-cache", Attached(""), "print one line for each cache (default: the last level)", metavar="<level>"
    )
    per_core: bool = option("--per-core", Flag(), "print one line for each core")
    per_thread: bool = option("--per-thread", Flag(), "print one line for each thread")
    per_node: bool = option("--per-node", Flag(), "print one line for each NUMA node")


class RunOptions(CommandOptions):
    """The events, the runs, and the output."""

    event: tuple[str, ...] = option("-e,--event", Listed(), "select events; perfpy list shows them", metavar="<event>", negatable=False)
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    event_files: str = option("--event-files", Value(default=""), "also take named events from these JSON files", metavar="<folder>")
    cputype: str = option("--cputype", Value(default=""), "count on this kind of core only, on hybrid machines", metavar="<PMU>")
    pmu_filter: str = option("--pmu-filter", Value(default=""), "use this PMU if an event matches several", metavar="<PMU>")
    no_inherit: bool = option("-i,--no-inherit", Flag(), "do not count child tasks")
    pid: str = option("-p,--pid", Value(default=""), "count these processes", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "count these threads", metavar="<tid>")
    all_cpus: bool = option("-a,--all-cpus", Flag(), "count on all CPUs (default without a command)")
    scale: bool = option("--scale", Flag(default=True), "scale counts of multiplexed events (default)")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")
    repeat: int = option("-r,--repeat", Value(int, default=1), "run the command n times, print mean and spread; 0: forever")
    table: bool = option("--table", Flag(), "print each repeat")
    null: bool = option("-n,--null", Flag(), "count nothing, measure only the time")
    detailed: int = option("-d,--detailed", Counted(), "add cache events; -dd and -ddd add more")
    sync: bool = option("-S,--sync", Flag(), "sync file systems before each run")
    big_num: bool | None = option("-B,--big-num", Flag(default=None), "use the locale's thousands separators")
    cpu: str = option("-C,--cpu", Value(default=""), "count on these CPUs, such as 0-2,5", metavar="<cpu>")
    no_aggr: bool = option("-A,--no-aggr,--no-merge", Flag(), "print one line for each CPU")
    separator: str | None = option("-x,--field-separator", Value(), "separate fields with this string", metavar="<separator>")
    json: bool = option("-j,--json-output", Flag(), "print JSON, one object a line")
    cgroup: str = option("-G,--cgroup", Value(default=""), "count the preceding event in this cgroup", metavar="<name>", negatable=False)
    for_each_cgroup: str = option("--for-each-cgroup", Value(default=""), "count each event in each of these cgroups", metavar="<name>")
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
    """Options of `perfpy stat`, in the order of the help."""

    delay: int = option("-D,--delay", Value(int, default=0), "start counting after n ms; -1: wait for enable on --control")
    metrics: tuple[str, ...] = option(
        "-M,--metrics", Listed(), "compute these metrics or metric groups", metavar="<metric>", negatable=False
    )
    metric_no_group: bool = option("--metric-no-group", Flag(), "do not group the events of a metric")
    metric_no_merge: bool = option("--metric-no-merge", Flag(), "do not share events between metrics")
    metric_no_threshold: bool = option("--metric-no-threshold", Flag(), "ignored: stat never counts events for metric thresholds")
    topdown: bool = option("--topdown", Flag(), "compute the top-down metrics (group TopdownL1)")
    td_level: int = option("--td-level", Value(int, default=1), "set the level of --topdown")
    metric_only: bool = option("--metric-only", Flag(), "print only ratios and metrics")
    hide_zero_events: bool = option("--hide-zero-events", Flag(), "hide events with a count of zero")
    affinity: bool = option("--affinity", Flag(default=True), "let it go from CPU to CPU itself (it need not)", hidden=True)
    hybrid_merge: bool = option("--hybrid-merge", Flag(), "sum up what two kinds of cores count", hidden=True)
    percore_show_thread: bool = option("--percore-show-thread", Flag(), "sums of cores for each of their CPUs", hidden=True)
    all_kernel: bool = option("--all-kernel", Flag(), "count only kernel code")
    all_user: bool = option("--all-user", Flag(), "count only code in user space")
    summary: bool = option("--summary", Flag(), "with -I: print the totals at the end")
    no_csv_summary: bool | None = option("--no-csv-summary", Flag(default=None), "omit the word 'summary' from --summary's lines with -x")
    quiet: bool = option("--quiet", Flag(), "print nothing (only with stat record)")
    control: str = option(
        "--control", Value(default=""), "read enable and disable commands from here, answer ack", metavar="<fd:N[,M]|fifo:PATH[,PATH]>"
    )
    compare: tuple[str, ...] = option(
        "--compare",
        Listed(),
        "compare with this command, run in turns; repeatable",
        metavar="<command>",
    )
    warmup: int = option("--warmup", Value(int, default=1), "with --compare: run each command n times first, uncounted")
    min_change: float = option(
        "--min-change", Value(float, default=1.0), "with --compare: ignore differences below this", metavar="<percent>"
    )
    fail_if_slower: float | None = option(
        "--fail-if-slower",
        Value(percent),
        "with --compare: exit with 90 if a command is slower by more",
        metavar="<percent>",
    )
    ignore_failure: bool = option("--ignore-failure", Flag(), "with --compare: also compare failing runs")
    workload: tuple[str, ...] = program_to_run()
