"""The options of `perfpy stat`: perf stat's names, letters and defaults (perf-stat(1))."""

from __future__ import annotations

from perfpy.cli.line.decorators import lacking_options, old_option, together

_LACKING = {
    "-T,--transaction": "it needs a CPU with transactional memory",
    "-b,--bpf-prog": "it needs BPF programs of perf's own",
    "--bpf-counters": "it needs BPF programs of perf's own",
    "--bpf-attr-map": "it needs BPF programs of perf's own",
    "--smi-cost": "it needs Intel's SMI counters",
    "--pfm-events": "it needs libpfm4; name events as perfpy list does",
    "--iostat": "it needs Intel's IIO counters",
    "--cputype": "it is for CPUs with two kinds of cores; name the PMU in the event: cpu_core/cycles/",
    "--hybrid-merge": "it is for CPUs with two kinds of cores; their counts are shown one by one",
    "--percore-show-thread": "it goes with the term percore, which perfpy does not have",
    "--record-tpebs": "it needs Intel's timed PEBS",
}

part_options = (
    old_option("--per-socket", is_flag=True, help="a line for each socket"),
    old_option("--per-die", is_flag=True, help="a line for each die"),
    old_option("--per-cluster", is_flag=True, help="a line for each cluster"),
    old_option("--per-cache", bare="", default=None, metavar="<level>", help="a line for each cache (L1, L2 ...; default: the last)"),
    old_option("--per-core", is_flag=True, help="a line for each core"),
    old_option("--per-thread", is_flag=True, help="a line for each thread"),
    old_option("--per-node", is_flag=True, help="a line for each NUMA node"),
)
"""By what parts of the machine counts are summed: of stat, and of stat report."""

stat_options = together(
    old_option("-e", "--event", multiple=True, negatable=False, metavar="<event>", help="event selector; perfpy list shows the events"),
    old_option("--filter", multiple=True, negatable=False, metavar="<filter>", help="filter of the tracepoints before it"),
    old_option("--event-files", metavar="<folder>", default="", help="take named events from these JSON files, too"),
    old_option("-i", "--no-inherit", is_flag=True, help="child tasks do not inherit counters"),
    old_option("-p", "--pid", default="", metavar="<pid>", help="count on these processes"),
    old_option("-t", "--tid", default="", metavar="<tid>", help="count on these threads"),
    old_option("-a", "--all-cpus", is_flag=True, help="count on all CPUs (default without a command)"),
    old_option("--scale", is_flag=True, default=True, help="estimate what multiplexed counters missed (default)"),
    old_option("-v", "--verbose", count=True, help="say more; may be repeated"),
    old_option("-r", "--repeat", type=int, default=1, metavar="<n>", help="run the command n times, print mean and spread; 0: for ever"),
    old_option("--table", is_flag=True, help="show each of the repeats"),
    old_option("-n", "--null", is_flag=True, help="count nothing, only take the time"),
    old_option("-d", "--detailed", count=True, help="add cache events; -dd and -ddd add more"),
    old_option("-S", "--sync", is_flag=True, help="sync file systems before each run"),
    old_option("-B", "--big-num", "big_num", is_flag=True, default=None, help="thousands' separators (the locale's)"),
    old_option("-C", "--cpu", default="", metavar="<cpu>", help="count on these CPUs, such as 0-2,5"),
    old_option("-A", "--no-aggr", "--no-merge", "no_aggr", is_flag=True, help="a line for each CPU"),
    old_option("-x", "--field-separator", "separator", default=None, metavar="<separator>", help="fields with this separator"),
    old_option("-j", "--json-output", "json", is_flag=True, help="JSON, an object a line"),
    old_option("-G", "--cgroup", default="", negatable=False, metavar="<name>", help="a cgroup for each event before it"),
    old_option("--for-each-cgroup", default="", metavar="<name>", help="each event in each of these cgroups"),
    old_option("-o", "--output", default="", metavar="<file>", help="write to this file"),
    old_option("--append", is_flag=True, help="append to the file of -o"),
    old_option("--log-fd", type=int, default=0, metavar="<n>", help="write to this file descriptor instead of stderr"),
    old_option("--pre", default="", metavar="<command>", help="run this before each run"),
    old_option("--post", default="", metavar="<command>", help="run this after each run"),
    old_option("-I", "--interval-print", "interval", type=int, default=0, metavar="<n>", help="print counts every n ms"),
    old_option("--interval-count", type=int, default=0, metavar="<n>", help="stop after n intervals"),
    old_option("--interval-clear", is_flag=True, help="clear the screen before each interval"),
    old_option("--timeout", type=int, default=0, metavar="<n>", help="stop after n ms (at least 10)"),
    *part_options,
    old_option(
        "-D", "--delay", type=int, default=0, metavar="<n>", help="count from n ms after the start on (-1: until --control enables)"
    ),
    old_option("-M", "--metrics", multiple=True, negatable=False, metavar="<metric>", help="compute these metrics or groups of metrics"),
    old_option("--metric-no-group", is_flag=True, help="count the events of metrics one by one"),
    old_option("--metric-no-merge", is_flag=True, help="count an event of several metrics once for each"),
    old_option("--metric-no-threshold", is_flag=True, help="count no events for thresholds of metrics (perfpy never does)"),
    old_option("--topdown", is_flag=True, help="compute the top-down metrics (those of the group TopdownL1)"),
    old_option("--td-level", type=int, default=1, metavar="<n>", help="the level of --topdown"),
    old_option("--metric-only", is_flag=True, help="print only ratios and metrics"),
    old_option("--all-kernel", is_flag=True, help="count in the kernel only"),
    old_option("--all-user", is_flag=True, help="count in user space only"),
    old_option("--summary", is_flag=True, help="with -I: print the sums at the end"),
    old_option("--no-csv-summary", is_flag=True, help="no 'summary' before the lines of --summary with -x"),
    old_option("--quiet", is_flag=True, help="print nothing (with record)"),
    old_option("--control", default="", metavar="<fd:N[,M]|fifo:PATH[,PATH]>", help="take enable and disable from there, answer ack"),
    old_option("--compare", default="", metavar="<command>", help="run this command, too, in turn with the other, and tell how it differs"),
    old_option("--warmup", type=int, default=1, metavar="<n>", help="with --compare: runs of each before those that count"),
)
"""What the command takes; help shows them in this order."""

options_of_perf_only = lacking_options(_LACKING)
"""What only perf takes."""
