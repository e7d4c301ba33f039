"""What a call of `perfpy stat` asks for: its options, checked, as a plan to carry out.

What enters: the values of the options. What leaves: a Plan, or a UsageError
for options that contradict each other; warnings go to stderr.
"""

from __future__ import annotations

import sys

from perfpy.cli.line.options import fail

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from perfpy.capture.counting.measurement import Plan
    from perfpy.cli.line.parser import Given
    from perfpy.counts.aggregation import Aggregation

#: the options that choose an aggregation; when several are given, the last of these wins
_AGGREGATIONS: Final = (
    "per_node",
    "per_socket",
    "per_die",
    "per_cluster",
    "per_cache",
    "per_core",
    "per_thread",
    "no_aggr",
)


def chosen_aggregation(options: Mapping[str, Any]) -> Aggregation | None:
    """The aggregation that -A or a --per-... option asks for."""
    from perfpy.counts.aggregation import Aggregation

    chosen = None
    for name in _AGGREGATIONS:
        if options[name] not in (False, None):
            chosen = Aggregation.NONE if name == "no_aggr" else Aggregation[name.removeprefix("per_").upper()]
    return chosen


def cache_level(options: Mapping[str, Any]) -> int | None:
    """The level of --per-cache; None for the last one."""
    text = options["per_cache"]
    if not text:
        return None
    if len(text) != 2 or text[0] not in "lL" or text[1] not in "1234":
        fail("Cache level must be of form L[1-4], or l[1-4]")
    return int(text[1])


class Request:
    """One call of the command; options are attributes by their parameters' names."""

    def __init__(self, options: Mapping[str, Any], given: Sequence[Given]) -> None:
        self._options = options
        self._given = given

    def __getattr__(self, name: str) -> Any:
        """The options by their parameters' names."""
        try:
            return self._options[name]
        except KeyError:
            raise AttributeError(name) from None

    # -- what does not go together ---------------------------------------------

    def check(self) -> None:
        """Refuse what does not go together. Raises UsageError."""
        if self.separator is not None and self.big_num:
            fail("-B groups digits for people, -x is for programs: choose one")
        if self.output and self.log_fd:
            fail("--output and --log-fd are two places for the text: choose one")
        if self.log_fd < 0:
            fail("--log-fd takes the number of an open file")
        if self.metric_only and self.per_thread:
            fail("--metric-only shows no threads: leave out --per-thread")
        if self.metric_only and self.repeat > 1:
            fail("--metric-only shows one run: leave out -r")
        if self.table and self.repeat <= 1:
            fail("--table shows repeated runs: add -r")
        if self.repeat < 0:
            fail("-r takes the number of runs, 0 for no end")
        if self.all_kernel and self.all_user:
            fail("--all-kernel and --all-user exclude each other")
        self._check_times()

    def _check_times(self) -> None:
        if self.interval_count and not self.interval:
            fail("--interval-count counts the lines of -I: add -I")
        if self.interval < 0 or self.interval_count < 0:
            fail("--interval-print and --interval-count take positive numbers")
        if self.timeout and self.timeout < 10:
            fail("--timeout is at least 10 ms")
        if self.timeout and self.interval:
            fail("--timeout ends a single count: with -I use --interval-count")
        if self.timeout and self.timeout < 100:
            self._tell("warning: below 100 ms much of what --timeout lets run is perfpy's own start and end")

    def _tell(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)

    # -- what to do --------------------------------------------------------------

    def plan(self) -> Plan:
        """Look everything up. Raises UsageError, UnknownEvent, EventSyntaxError."""
        from perfpy.capture.counting import planning
        from perfpy.capture.counting.measurement import Plan
        from perfpy.capture.targets import resolve
        from perfpy.counts.aggregation import Aggregation

        mode = chosen_aggregation(self._options) or Aggregation.GLOBAL
        tasks = self.pid or self.tid
        system_wide = self.all_cpus or not (self.workload or tasks or self.cpu)
        every_thread = mode is Aggregation.THREAD and system_wide and not tasks
        target, warnings = resolve(pid=self.pid, tid=self.tid, cpu=self.cpu, system_wide=system_wide, every_thread=every_thread)
        texts, filters = self._event_texts()
        events, more = planning.choose_events(
            texts, filters, target, detailed=self.detailed, null_run=self.null, event_files=self.event_files
        )
        for warning in (*warnings, *more):
            self._tell(warning)
        names = self._metric_names()
        if names:
            from perfpy.capture.counting.metric_choice import choose

            metric_events, metrics = choose(names, grouped=not self.metric_no_group, merged=not self.metric_no_merge)
            events = metric_events + (events if texts else [])
        plan = Plan(events, planning.widened(target, events), self.workload)
        plan.default_set = not texts and not names
        if names:
            plan.metrics = metrics
        self._add_cgroups(plan)
        planning.group_by(plan, mode, cache_level=cache_level(self._options))
        self._set(plan)
        return plan

    def _metric_names(self) -> str:
        """All -M names, and the group of --topdown."""
        return ",".join([*self.metrics, *([f"TopdownL{self.td_level}"] if self.topdown else [])])

    def _event_texts(self) -> tuple[list[str], list[tuple[int, str]]]:
        """The -e texts, and each filter with the number of texts before it."""
        texts: list[str] = []
        filters: list[tuple[int, str]] = []
        for item in self._given:
            if item.name == "event":
                texts.append(item.value)
            elif item.name == "filter":
                filters.append((len(texts), item.value))
        return texts, filters

    def _add_cgroups(self, plan: Plan) -> None:
        if not (self.cgroup or self.for_each_cgroup):
            return
        from perfpy.capture import cgroups

        if self.cgroup and self.for_each_cgroup:
            fail("--cgroup and --for-each-cgroup both say which cgroups: choose one")
        if self.cgroup:
            cgroups.assign(plan.events if self.event else [], self.cgroup)
        if plan.target.has_tasks:
            fail("cgroups are counted on whole CPUs: add -a or -C")
        if self.for_each_cgroup:
            plan.events = cgroups.expand(plan.events, self.for_each_cgroup)
        plan.cgroup_fds = cgroups.open_folders(plan.events)

    def _set(self, plan: Plan) -> None:
        plan.options.inherit = not self.no_inherit
        plan.options.all_user = self.all_user
        plan.options.all_kernel = self.all_kernel
        plan.repeat = self.repeat
        plan.delay = self.delay
        plan.interval = self.interval
        plan.interval_count = self.interval_count
        plan.timeout = self.timeout
        plan.summary = self.summary
        plan.scale = self.scale
        plan.before = self.pre
        plan.after = self.post
        plan.sync = self.sync
