"""The request of one `perfpy top`: its command line as options of the library."""

from __future__ import annotations

import os
import pwd
import sys
from typing import TYPE_CHECKING, Any

from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph, ChainOptions, ReportOptions, RowOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.capture.option_values import Callchain, parse_branch_filter, parse_callchain, parse_pages
from perfpy.capture.record_options import BufferOptions, OffCpuOptions, RecordOptions, SamplingOptions, SideBandOptions
from perfpy.capture.targets import TargetOptions, online_cpus
from perfpy.cli.line.options import fail
from perfpy.cli.report.call_graph import call_graph_parts
from perfpy.cli.report.columns import configured_percentage, hidden_keys
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.refusals import may_count_cpus, paranoid_level
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.views.top.rates import Subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.top.options import TopCommandOptions
    from perfpy.disassembly.objdump import CodeStyle
    from perfpy.live.rings import LiveRings

_SORT_OF = {"process": "tgid", "thread": "pid", "cgroup": "cgroup", "container": "container"}  # --by
_CGROUP_KEYS = {"cgroup", "container"}
_DEFAULT_SORT = "dso,symbol"
_PYTHON_SORT = "pyfunc"
_PYTHON_RATE = 499  # samples per second; each copies a stack
_WAIT_SORT = "comm,state,symbol"
_FIRST_PART = 0.7  # of an interval, from the start of the program to the first update, whose symbols take the rest
_LEAST_WAIT = 0.25  # seconds
_NOBODY_ALLOWED = 3  # of kernel.perf_event_paranoid: users may not measure anything


class TopRequest:
    """The options of a live view, for the library. tell: called with each line for the user."""

    def __init__(self, options: TopCommandOptions, config: Config, tell: Callable[[str], None]) -> None:
        self._options = options
        self._config = config
        mode, self._graph_parts = _split_call_graph(options.call_graph or "")
        self._chain = self._callchain(mode)
        self._user = self._default_user(tell)

    def _callchain(self, mode: str) -> Callchain | None:
        options = self._options
        if not self._has_chains or (options.python and not mode):  # --python has a mode of its own
            return None
        return parse_callchain(mode or self._config.get("call-graph.record-mode", "fp"))._replace(addresses=False)

    @property
    def _has_branches(self) -> bool:
        return bool(self._options.branch_any or self._options.branch_filter)

    @property
    def _has_chains(self) -> bool:
        options = self._options
        return options.callchains or options.call_graph is not None or options.python

    def _default_user(self, tell: Callable[[str], None]) -> str:
        """Return the user to watch: as given, or this one if users may not watch whole CPUs."""
        options = self._options
        is_chosen = options.pid or options.tid or options.user or options.cpu or options.cgroups or options.all_cpus
        level = paranoid_level() or 0
        if is_chosen or may_count_cpus() or level >= _NOBODY_ALLOWED:
            return options.user
        tell(f"note: kernel.perf_event_paranoid is {level}; watching only your processes that run now (sysctl ...=0 or root: all)")
        return str(os.getuid())

    def record_options(self) -> RecordOptions:
        """Return the options of the events."""
        options = self._options
        keys = f"{options.sort or _SORT_OF.get(options.by, '')},{options.fields or ''}"
        return RecordOptions(
            sampling=SamplingOptions(
                freq=_PYTHON_RATE if options.python and options.freq is None and options.period is None else options.freq,
                period=options.period,
                callchain=self._chain,
                branch_filter=options.branch_filter or (parse_branch_filter("any") if options.branch_any else 0),
            ),
            target=options.fill(
                TargetOptions,
                user=self._user,
                inherit=not options.no_inherit,
            ),
            side_band=SideBandOptions(
                namespaces=options.namespaces or "cgroup_id" in keys,
                all_cgroups=options.all_cgroups or not _CGROUP_KEYS.isdisjoint(keys.split(",")),
                bpf_events=not options.no_bpf_event,
            ),
            buffers=BufferOptions(mmap_pages=parse_pages(options.mmap_pages) if options.mmap_pages else 0, overwrite=options.overwrite),
            python=options.python,
            off_cpu=OffCpuOptions(options.off_cpu),
            command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
        )

    def report_options(self, *, of_tracepoints: bool, is_screen: bool = False) -> ReportOptions:
        """Return the options of the rows. Raises UsageError for invalid options.

        Args:
            of_tracepoints: whether all events are tracepoints.
            is_screen: whether rows can be opened; text has the trees of Python functions only on request.
        """
        options = self._options
        is_requested = options.callchains or options.call_graph is not None or bool(options.children)
        shows_trees = self._has_chains and (is_screen or is_requested)
        by_default = self._config.flag("top.children", True) and not options.hierarchy
        children = shows_trees and (by_default if options.children is None else options.children)
        sample_filter = self._sample_filter()
        percentage = options.percentage or configured_percentage(self._config)
        return ReportOptions(
            columns=ColumnOptions(
                sort=options.sort or _SORT_OF.get(options.by) or self._default_sort(of_tracepoints=of_tracepoints),
                fields=options.fields,
                children=children,
                raw_trace=options.raw_trace,
                metrics=tuple(self._metrics()),
                mode=Mode.BRANCH if self._has_branches else Mode.NORMAL,
                hidden=tuple(key for key, _, _ in hidden_keys(sample_filter)),
            ),
            sample_filter=sample_filter,
            chains=ChainOptions(self._call_graph(children=children) if shows_trees else None, children, options.max_stack),
            rows=RowOptions(hierarchy=options.hierarchy, relative_percentages=percentage == "relative", rows_filtered=True),
        )

    def _default_sort(self, *, of_tracepoints: bool) -> str | None:
        options = self._options
        if options.fields:
            return None
        if options.off_cpu:
            return _WAIT_SORT
        if self._has_branches:
            return None  # the default of branches
        return "trace" if of_tracepoints else _PYTHON_SORT if options.python else _DEFAULT_SORT

    def _call_graph(self, *, children: bool) -> CallGraph:
        """Return how callchains are shown; with callers' overhead from callers to callees, as perf does."""
        return CallGraph(**{"order": "caller" if children else "callee", **self._graph_parts})

    def _sample_filter(self) -> SampleFilter:
        return self._options.fill(SampleFilter)

    def _metrics(self) -> list[str]:
        options = self._options
        chosen = (("sample", options.show_nr_samples), ("period", options.show_total_period))
        return [name for name, is_chosen in chosen if is_chosen]

    def symbol_options(self) -> SymbolOptions:
        """Return where to look for symbols."""
        options = self._options
        for name, path in (("kallsyms", options.kallsyms), ("vmlinux", options.vmlinux)):
            if path and not os.path.isfile(path):
                fail(f"--{name} {path}: no such file")
        return SymbolOptions(
            kallsyms=options.kallsyms,
            vmlinux=options.vmlinux,
            ignore_vmlinux=options.ignore_vmlinux,
            demangle_kernel=options.demangle_kernel,
            os_release=os.uname().release,
            buildid_dir=self._config.build_id_folder,
            inline=Inline.NONE,
            fold_interpreters=options.python,
        )

    def subject(self, rings: LiveRings) -> Subject:
        """Return what is measured, for the header line."""
        options, sampled = self._options, rings.sampled_events
        event = rings.counters.events[sampled[0]]
        return Subject(
            event.name,
            event.attr.sample_period,
            *(not options.period and rings.waits is None, len(sampled) == 1),
            *(options.pid, options.tid, _user_name(self._user), options.cpu),
            len(online_cpus()),
        )


def code_style(options: TopCommandOptions) -> CodeStyle:
    """Return how code is shown."""
    from perfpy.disassembly.objdump import CodeStyle  # not needed for the first screen

    return CodeStyle(
        source=options.source,
        raw=options.asm_raw,
        syntax=options.disassembler_style,
        prefix=options.prefix,
        prefix_strip=options.prefix_strip,
        program=options.objdump,
    )


def first_wait(delay: float) -> float:
    """Return the seconds from now until the first update: on a busy machine the start has taken part of the interval.

    Args:
        delay: seconds between two updates.
    """
    planned = _FIRST_PART * delay - ProcFs().seconds_since_start()
    return min(max(planned, _LEAST_WAIT * min(delay, 1)), delay / 2)


def _user_name(user: str) -> str:
    if not user.isdecimal():
        return user
    try:
        return pwd.getpwuid(int(user)).pw_name
    except KeyError:
        return user


def _split_call_graph(text: str) -> tuple[str, dict[str, Any]]:
    """Split --call-graph into the mode of recording ("" if not given) and the parts of a CallGraph."""
    words = text.split(",")
    mode = words.pop(0) if words[0] in ("fp", "dwarf", "lbr") else ""
    if mode == "dwarf" and words and words[0].isdecimal():
        mode = f"dwarf,{words.pop(0)}"
    parts = call_graph_parts(",".join(words))
    parts.pop("branches", None)
    return mode, parts
