"""Check the options of `perfpy stat`, and convert them to a Plan. Warnings go to stderr."""

from __future__ import annotations

import os
import sys

from perfpy.cli.line.options import fail
from perfpy.cli.line.shared import events_with_filters

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.capture.counting.counters import CountingOptions
    from perfpy.capture.counting.plan import Plan
    from perfpy.capture.targets import Target
    from perfpy.cli.stat.options import PartOptions, StatCommandOptions
    from perfpy.counts.aggregation import Aggregation
    from perfpy.counts.metrics import Metric
    from perfpy.events.event import Event

    Metrics = Mapping[Event, Sequence[Metric]]

_SECOND_KIND = "/sys/bus/event_source/devices/cpu_atom"  # the second kind of cores on hybrid machines


def chosen_aggregation(options: PartOptions, *, no_aggr: bool) -> Aggregation | None:
    """Return the aggregation of -A or a --per-... option; if several are given, the last in this list wins."""
    from perfpy.counts.aggregation import Aggregation

    aggregations = (
        (Aggregation.NODE, options.per_node),
        (Aggregation.SOCKET, options.per_socket),
        (Aggregation.DIE, options.per_die),
        (Aggregation.CLUSTER, options.per_cluster),
        (Aggregation.CACHE, options.per_cache is not None),
        (Aggregation.CORE, options.per_core),
        (Aggregation.THREAD, options.per_thread),
        (Aggregation.NONE, no_aggr),
    )
    return next((aggregation for aggregation, is_given in reversed(aggregations) if is_given), None)


def cache_level(options: PartOptions) -> int | None:
    """Return the level of --per-cache; None for the last one."""
    text = options.per_cache
    if not text:
        return None
    if len(text) != 2 or text[0] not in "lL" or text[1] not in "1234":
        fail("--per-cache takes L1, L2, L3 or L4")
    return int(text[1])


def check(options: StatCommandOptions) -> None:
    """Raise UsageError for options that exclude each other."""
    if options.separator is not None and options.big_num:
        fail("-B and -x exclude each other")
    if options.output and options.log_fd:
        fail("--output and --log-fd exclude each other")
    if options.log_fd < 0:
        fail("--log-fd requires the number of an open file")
    if options.metric_only and options.per_thread:
        fail("--metric-only excludes --per-thread")
    if options.metric_only and options.repeat > 1:
        fail("--metric-only excludes -r")
    if options.hybrid_merge and os.path.exists(_SECOND_KIND):
        fail("--hybrid-merge: perfpy shows the counts of each core type separately")
    if options.interval_clear and not _on_terminal(options):
        fail("--interval-clear requires a terminal as output")
    if options.table and options.repeat <= 1:
        fail("--table requires -r")
    if options.fail_if_slower is not None and not options.compare:
        fail("--fail-if-slower requires --compare: --compare 'command B' -- command A")
    if options.repeat < 0:
        fail("-r requires a number of runs; 0 repeats until Ctrl-C")
    if options.all_kernel and options.all_user:
        fail("--all-kernel and --all-user exclude each other")
    _check_times(options)


def _check_times(options: StatCommandOptions) -> None:
    if options.interval_count and not options.interval:
        fail("--interval-count requires -I")
    if options.interval < 0 or options.interval_count < 0:
        fail("--interval-print and --interval-count require positive numbers")
    if options.timeout and options.timeout < 10:
        fail("--timeout must be at least 10 ms")
    if options.timeout and options.interval:
        fail("--timeout excludes -I; use --interval-count with -I")
    if options.timeout and options.timeout < 100:
        _print_warning(options, "warning: with --timeout below 100 ms, much of the measured time is perfpy's own start and end")


def _on_terminal(options: StatCommandOptions) -> bool:
    return not (options.output or options.log_fd) and sys.stderr.isatty()


def _print_warning(options: StatCommandOptions, text: str) -> None:
    if not options.quiet:
        print(text, file=sys.stderr)


def plan_of(options: StatCommandOptions) -> Plan:
    """Resolve the events and the target. Raises UsageError, UnknownEventError, EventSyntaxError."""
    from perfpy.capture.counting import planning
    from perfpy.capture.counting.plan import Plan
    from perfpy.counts.aggregation import Aggregation

    mode = chosen_aggregation(options, no_aggr=options.no_aggr) or Aggregation.GLOBAL
    target = _target(options, per_thread=mode is Aggregation.THREAD)
    events, metrics = _events(options, target)
    target = planning.widen_target(target, events)
    events, metrics, cgroup_fds = _in_cgroups(events, metrics, target, options)
    return Plan(
        events,
        target,
        options.workload,
        options=_counting_options(options),
        grouping=planning.grouping_of(events, target, mode, cache_level=cache_level(options)),
        package_of=planning.packages_of(events),
        cgroup_fds=cgroup_fds,
        metrics=metrics,
        default_set=not options.event and not _metric_names(options),
        hides_zeros=options.hide_zero_events,
        delay=options.delay,
        repeat=options.repeat,
        interval=options.interval,
        interval_count=options.interval_count,
        timeout=options.timeout,
        summary=options.summary,
        scale=options.scale,
        before=options.pre,
        after=options.post,
        sync=options.sync,
    )


def _counting_options(options: StatCommandOptions) -> CountingOptions:
    from perfpy.capture.counting.counters import CountingOptions

    return CountingOptions(inherit=not options.no_inherit, all_user=options.all_user, all_kernel=options.all_kernel)


def _target(options: StatCommandOptions, *, per_thread: bool) -> Target:
    from perfpy.capture.targets import TargetOptions, resolve

    chosen = options.fill(TargetOptions, all_cpus=_is_system_wide(options))
    target, warnings = resolve(chosen, every_thread=per_thread and chosen.all_cpus and not (chosen.pid or chosen.tid))
    for warning in warnings:
        _print_warning(options, warning)
    return target


def _is_system_wide(options: StatCommandOptions) -> bool:
    return bool(options.all_cpus or not (options.workload or options.pid or options.tid or options.cpu))


def _events(options: StatCommandOptions, target: Target) -> tuple[list[Event], Metrics]:
    """Return the events to count, and the metrics of each."""
    from perfpy.capture.counting import planning

    texts, filters = events_with_filters(options)
    events, warnings = planning.choose_events(
        texts,
        filters,
        target,
        detailed=options.detailed,
        null_run=options.null,
        event_files=options.event_files,
        cores=options.cputype,
        only=options.pmu_filter,
    )
    for warning in warnings:
        _print_warning(options, warning)
    names = _metric_names(options)
    if not names:
        return events, {}
    from perfpy.capture.counting.metric_choice import choose

    grouped, merged = not options.metric_no_group, not options.metric_no_merge
    of_metrics, metrics = choose(names, grouped=grouped, merged=merged, system_wide=_is_system_wide(options))
    return of_metrics + (events if texts else []), metrics


def _metric_names(options: StatCommandOptions) -> str:
    """Return all -M names, and the group of --topdown."""
    return ",".join([*options.metrics, *([f"TopdownL{options.td_level}"] if options.topdown else [])])


def _in_cgroups(
    events: list[Event], metrics: Metrics, target: Target, options: StatCommandOptions
) -> tuple[list[Event], Metrics, dict[str, int]]:
    """Return the events in cgroups instead of the system's, their metrics, and each cgroup's open folder."""
    if not (options.cgroup or options.for_each_cgroup):
        return events, metrics, {}
    from perfpy.capture import cgroups

    if options.cgroup and options.for_each_cgroup:
        fail("--cgroup and --for-each-cgroup exclude each other")
    if options.cgroup:
        assigned = cgroups.assign(events if options.event else [], options.cgroup)
        if metrics:
            from perfpy.counts.metrics import of_counterparts

            metrics = of_counterparts(metrics, dict(zip(events, assigned, strict=True)))
        events = assigned
    if target.has_tasks:
        fail("counting cgroups requires -a or -C")
    if options.for_each_cgroup:
        events = cgroups.expand(events, options.for_each_cgroup)
    return events, metrics, cgroups.open_folders(events)
