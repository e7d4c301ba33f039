"""The options of `perfpy stat`: perf stat's names, letters and defaults (perf-stat(1))."""

from __future__ import annotations

from perfpy.cli.line.options import Option, lacking_options, together

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
    Option("--per-socket", is_flag=True, help="a line for each socket"),
    Option("--per-die", is_flag=True, help="a line for each die"),
    Option("--per-cluster", is_flag=True, help="a line for each cluster"),
    Option("--per-cache", bare="", default=None, metavar="<level>", help="a line for each cache (L1, L2 ...; default: the last)"),
    Option("--per-core", is_flag=True, help="a line for each core"),
    Option("--per-thread", is_flag=True, help="a line for each thread"),
    Option("--per-node", is_flag=True, help="a line for each NUMA node"),
)
"""By what parts of the machine counts are summed: of stat, and of stat report."""

stat_options = together(
    Option("-e", "--event", multiple=True, negatable=False, metavar="<event>", help="event selector; perfpy list shows the events"),
    Option("--filter", multiple=True, negatable=False, metavar="<filter>", help="filter of the tracepoints before it"),
    Option("--event-files", metavar="<folder>", default="", help="take named events from these JSON files, too"),
    Option("-i", "--no-inherit", is_flag=True, help="child tasks do not inherit counters"),
    Option("-p", "--pid", default="", metavar="<pid>", help="count on these processes"),
    Option("-t", "--tid", default="", metavar="<tid>", help="count on these threads"),
    Option("-a", "--all-cpus", is_flag=True, help="count on all CPUs (default without a command)"),
    Option("--scale", is_flag=True, default=True, help="estimate what multiplexed counters missed (default)"),
    Option("-v", "--verbose", count=True, help="say more; may be repeated"),
    Option("-r", "--repeat", type=int, default=1, metavar="<n>", help="run the command n times, print mean and spread; 0: for ever"),
    Option("--table", is_flag=True, help="show each of the repeats"),
    Option("-n", "--null", is_flag=True, help="count nothing, only take the time"),
    Option("-d", "--detailed", count=True, help="add cache events; -dd and -ddd add more"),
    Option("-S", "--sync", is_flag=True, help="sync file systems before each run"),
    Option("-B", "--big-num", "big_num", is_flag=True, default=None, help="thousands' separators (the locale's)"),
    Option("-C", "--cpu", default="", metavar="<cpu>", help="count on these CPUs, such as 0-2,5"),
    Option("-A", "--no-aggr", "--no-merge", "no_aggr", is_flag=True, help="a line for each CPU"),
    Option("-x", "--field-separator", "separator", default=None, metavar="<separator>", help="fields with this separator"),
    Option("-j", "--json-output", "json", is_flag=True, help="JSON, an object a line"),
    Option("-G", "--cgroup", default="", negatable=False, metavar="<name>", help="a cgroup for each event before it"),
    Option("--for-each-cgroup", default="", metavar="<name>", help="each event in each of these cgroups"),
    Option("-o", "--output", default="", metavar="<file>", help="write to this file"),
    Option("--append", is_flag=True, help="append to the file of -o"),
    Option("--log-fd", type=int, default=0, metavar="<n>", help="write to this file descriptor instead of stderr"),
    Option("--pre", default="", metavar="<command>", help="run this before each run"),
    Option("--post", default="", metavar="<command>", help="run this after each run"),
    Option("-I", "--interval-print", "interval", type=int, default=0, metavar="<n>", help="print counts every n ms"),
    Option("--interval-count", type=int, default=0, metavar="<n>", help="stop after n intervals"),
    Option("--interval-clear", is_flag=True, help="clear the screen before each interval"),
    Option("--timeout", type=int, default=0, metavar="<n>", help="stop after n ms (at least 10)"),
    *part_options,
    Option("-D", "--delay", type=int, default=0, metavar="<n>", help="count from n ms after the start on (-1: until --control enables)"),
    Option("-M", "--metrics", multiple=True, negatable=False, metavar="<metric>", help="compute these metrics or groups of metrics"),
    Option("--metric-no-group", is_flag=True, help="count the events of metrics one by one"),
    Option("--metric-no-merge", is_flag=True, help="count an event of several metrics once for each"),
    Option("--metric-no-threshold", is_flag=True, help="count no events for thresholds of metrics (perfpy never does)"),
    Option("--topdown", is_flag=True, help="compute the top-down metrics (those of the group TopdownL1)"),
    Option("--td-level", type=int, default=1, metavar="<n>", help="the level of --topdown"),
    Option("--metric-only", is_flag=True, help="print only ratios and metrics"),
    Option("--all-kernel", is_flag=True, help="count in the kernel only"),
    Option("--all-user", is_flag=True, help="count in user space only"),
    Option("--summary", is_flag=True, help="with -I: print the sums at the end"),
    Option("--no-csv-summary", is_flag=True, help="no 'summary' before the lines of --summary with -x"),
    Option("--quiet", is_flag=True, help="print nothing (with record)"),
    Option("--control", default="", metavar="<fd:N[,M]|fifo:PATH[,PATH]>", help="take enable and disable from there, answer ack"),
    Option("--compare", default="", metavar="<command>", help="run this command, too, in turn with the other, and tell how it differs"),
    Option("--warmup", type=int, default=1, metavar="<n>", help="with --compare: runs of each before those that count"),
)
"""What the command takes; help shows them in this order."""

options_of_perf_only = lacking_options(_LACKING)
"""What only perf takes."""
