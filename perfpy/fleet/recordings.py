"""Many recordings as one: what perfpy.open_many() returns.

What enters: paths, patterns and folders. What leaves: reports, stacks and flame graphs of all of them. Each recording is
folded by itself (perfpy.fleet.folding), by as many processes as there are CPUs or by a cluster; what that gives is merged.
"""

from __future__ import annotations

import glob
import os
from contextlib import ExitStack
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perfpy.analysis.filters.conditions import texts
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.plan import plan_report
from perfpy.analysis.report.report import report_of
from perfpy.errors import BadPerfDataError, OutputFailedError, PerfError, UsageError
from perfpy.fleet.folding import Conditions, FoldingRequest, WantedStacks, folded_group, merged_groups, narrowed_by
from perfpy.fleet.late_symbols import with_symbols_from_here
from perfpy.fleet.many_samples import ManySamples, SharedEvents, joined_columns, own_columns
from perfpy.fleet.merged_profile import MergedProfile, several_builds
from perfpy.fleet.opening import opened, told_of_first
from perfpy.fleet.portable import RecordingProblem
from perfpy.fleet.remote import is_url, local_name, shown, urls_named
from perfpy.perfdata.recording_folder import main_file
from perfpy.perfdata.tables_folder import recordings_in
from perfpy.recording import TracepointSamples
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.shared_files import SharedFiles
from perfpy.workers.forked import ForkedWorkers, can_fork
from perfpy.workers.jobs import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Self

    from perfpy.analysis.aggregate.scan import Progress
    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.analysis.report.group_changes import GroupChanges
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sortkeys.key_texts import MemoryWords
    from perfpy.analysis.sortkeys.sort_key import Mode
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.fleet.folding import Asked, FoldedGroup
    from perfpy.fleet.portable import PortableProfile
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.recording import Recording
    from perfpy.views.parquet.export import Exported

#: what names recordings: paths, patterns, folders
Names: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

WEIGHTS: Final = ("time", "samples", "equal")
#: recordings that a process folds and merges before it hands anything on
_GROUP: Final = 4


def recordings_named(names: Names) -> list[str]:
    """The recordings that paths, patterns and folders name, each once, patterns and folders in order of their names.

    A folder that is a recording itself (record --threads) is one; of a folder of tables (perfpy export) those in it are; of
    other folders the files *.data, and perf.data; URLs and patterns of such are perfpy.fleet.remote's. Raises BadPerfDataError for a
    pattern or folder that has none.
    """
    found: dict[str, None] = {}
    for one in [names] if isinstance(names, (str, os.PathLike)) else names:
        name = local_name(os.fspath(one))
        if is_url(name):
            paths = urls_named(name)
        elif exported := recordings_in(name):
            paths = exported
        elif os.path.isdir(name) and not os.path.exists(main_file(name)):
            paths = sorted(glob.glob(os.path.join(glob.escape(name), "*.data")))
        elif glob.has_magic(name) and not os.path.exists(name):
            paths = sorted(glob.glob(name, recursive=True))
        else:
            paths = [name]
        if not paths:
            raise BadPerfDataError(name, "no recordings there", remedy="name files, patterns of files, or folders with files *.data")
        found.update(dict.fromkeys(paths))
    return list(found)


class Recordings:
    """Many recordings, with the methods of one: reports, stacks, pages, columns are of all of them. Each recording is opened when it comes.

    >>> import perfpy
    >>> recordings = perfpy.open_many(["perf.data", "perf.data"])
    >>> for row in recordings.report(by=["host"]):
    ...     print(f"{row.percent:6.2f}%", row.texts["host"], row.samples)
    100.00% here 10
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        symbols: SymbolOptions | None = None,
        weight: str = "time",
        check_owner: bool = False,
        jobs: int = 0,
        cluster: str = "",
        progress: Progress | None = None,
    ) -> None:
        if weight not in WEIGHTS:
            raise UsageError(f"weight {weight!r}: it is one of {', '.join(WEIGHTS)}")
        self.paths = list(paths)  #: those that were named
        self.failed: list[RecordingProblem] = []  #: those that could not be read the last time, and why
        self.warnings: list[RecordingProblem] = []  #: what could not be read of others
        self._symbols = symbols
        self._check_owner = check_owner
        self.conditions: list[Conditions] = []  #: of where()
        self.weight, self._jobs = weight, jobs
        self._cluster, self._progress = cluster, progress

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from perfpy.former_names import former_attribute

            return former_attribute(self, name, {"unread": "failed"})

    def __len__(self) -> int:
        return len(self.paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing: each recording is open only while it is read."""

    def __iter__(self) -> Iterator[Recording]:
        """Each recording, open while it is looked at, for what is one machine's own (header, records); with what where() left of it."""
        self.failed = []
        for path in self.paths:
            with ExitStack() as open_one:
                try:
                    recording = open_one.enter_context(opened(path, check_owner=self._check_owner, symbols=self._symbols))
                except PerfError as error:
                    self.failed.append(RecordingProblem.of(shown(path), error))
                    continue
                narrowed = narrowed_by(recording, self.conditions)
                if narrowed is not None:
                    yield narrowed

    def where(self, *, host: str | Iterable[str] | None = None, **conditions: Any) -> Self:
        """The same recordings, narrowed to some samples. host: of these machines; the rest as Recording.where takes it.

        A recording that does not know an event that is named is left out.

        >>> import perfpy
        >>> recordings = perfpy.open_many("perf.data").where(host="here", comm="busy", time=(None, "50%"))
        >>> len(recordings.samples["ip"])
        5
        """
        narrowed = copy(self)
        narrowed.conditions = [*self.conditions, Conditions(texts("host", host), conditions)]
        return narrowed

    @property
    def events(self) -> list[FileEvent]:
        """The events of all, each once: those of one meaning are one."""
        return SharedEvents(self).events

    @property
    def samples(self) -> ManySamples:
        """All samples as columns, as Recording.samples has them, and "host" and "recording"; one recording after the other."""
        return ManySamples(self, self._none_read)

    def tracepoint(self, name: str) -> TracepointSamples:
        """The samples of a tracepoint, as Recording.tracepoint has them, of all recordings that have some. Raises UsageError."""
        found, refused = [], None
        for recording in self:
            try:
                samples, fields = recording.tracepoint(name)
            except UsageError as error:
                refused = error
                continue
            found.append(TracepointSamples({**samples, **own_columns(recording, len(samples["time"]))}, fields))
        if not found:
            raise refused or UsageError(f"no recording to look for {name} in")
        return TracepointSamples(*(joined_columns([one[part] for one in found]) for part in range(2)))

    def to_parquet(self, folder: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> list[Exported]:
        """Add the recordings to the tables in a folder: see Recording.to_parquet."""
        return [recording.to_parquet(os.fspath(folder), symbols=symbols) for recording in self]

    @property
    def title(self) -> str:
        """How many recordings there are, without those that could not be read."""
        return f"{len(self) - len(self.failed)} recordings"

    def report(
        self,
        by: str | Sequence[str] | None = None,
        *,
        callers: bool = False,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        asked: Asked | None = None,
    ) -> Report:
        """A histogram of the samples of all recordings, for each event: as Recording.report, with the further sort keys host and recording.

        options: instead of by and callers; asked: what gives them for each recording. Raises UsageError, and PerfError where no
        recording can be read.
        """
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import CallGraph, ReportOptions

        if options is None:
            keys = (by if isinstance(by, str) else ",".join(by)) if by else "comm,dso,symbol"
            graph = CallGraph(order="caller") if callers else None
            options = ReportOptions(wanted=Wanted(sort=keys), call_graph=graph, children=callers)
        return self.folded_report(options, asked, symbols)[1]

    def folded_report(
        self, options: ReportOptions, asked: Asked | None = None, symbols: SymbolOptions | None = None
    ) -> tuple[MergedProfile, Report]:
        """What all recordings are folded to, and its report. Raises as `report`."""
        symbols = symbols or self._symbols
        found = self.folded(asked or (lambda _recording: (options, symbols)), options.wanted.mode, symbols)
        profile = MergedProfile(found, symbols or SymbolOptions())
        plan = plan_report(profile, options, profile.fields(raw=options.wanted.raw_trace))
        report = report_of(plan, profile, profile.symbolizer, profile.words(_memory_words(options)), found.listed)
        report.lost, report.dropped, report.truncated = found.lost, found.dropped, found.truncated
        report.note_chains = lambda: several_builds(found, plan.layout)
        return profile, report

    def changes(
        self,
        after: Recordings,
        by: str | Sequence[str] = "dso,symbol",
        *,
        symbols: SymbolOptions | None = None,
        unit: str = "",
        full_names: bool = False,
        options: ReportOptions | None = None,
        asked: Asked | None = None,
    ) -> list[GroupChanges]:
        """What changed from this group of recordings to another one, by more than hosts differ: see perfpy.diff.

        by: sort keys; symbols: where to look for symbols, in place of what the groups were opened with; unit: what is one observation,
        "host" or "recording" (default: hosts, or recordings where a group has but one host); full_names: each instance of a
        template by itself; options: in place of by; asked: what gives options for each recording. Raises as `report`.

        >>> import perfpy, shutil
        >>> after = shutil.copy("perf.data", "after.data")
        >>> changes = perfpy.open_many("perf.dat?").changes(perfpy.open_many(after))[0]
        >>> changes.before.samples, changes.above()
        (10, [])
        """
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.fleet.group_difference import FoldedGroupReport, changes_between, comparable

        if options is None:
            options = ReportOptions(wanted=Wanted(sort=by if isinstance(by, str) else ",".join(by)), group=False)
        options = comparable(options, self.paths, after.paths, unit)
        groups = [(one.weight, *one.folded_report(options, asked, symbols)) for one in (self, after)]
        first, second = (FoldedGroupReport(weight, profile.found, report) for weight, profile, report in groups)
        return changes_between(first, second, unit, full_names=full_names)

    def annotate(
        self, function: str | None = None, *, options: ReportOptions | None = None, symbols: SymbolOptions | None = None
    ) -> Annotation:
        """The code of functions, of each build of a file apart, with the samples of all recordings: as Recording.annotate.

        Code is that of this machine's files of the same builds (their build-ids): of the kernel there is none.
        """
        from perfpy.analysis.annotation.annotation import Annotation
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions

        wanted = options or ReportOptions(sample_filter=SampleFilter(symbols=(function,) if function else None))
        wanted = wanted._replace(wanted=Wanted(sort="dso,build_id,symbol"), by_address=True, call_graph=None, children=False)
        profile, report = self.folded_report(wanted, symbols=symbols)
        return Annotation(report, profile.symbolizer)

    def stacks(
        self,
        symbols: SymbolOptions | None = None,
        *,
        sample_filter: SampleFilter | None = None,
        latency: bool = False,
        sites: bool = False,
        asked: Asked | None = None,
    ) -> list[Stacks]:
        """The whole stacks of each event of all recordings: as Recording.stacks, without single samples."""
        from perfpy.analysis.stacks.stack_builder import stacks_of

        wanted = WantedStacks(sample_filter or SampleFilter(), latency, sites)
        options = symbols or self._symbols
        found = self.folded(asked or (lambda _recording: (wanted, options)), symbols=options)
        profile = MergedProfile(found)
        return stacks_of(found.events, found.comms, wanted.sample_filter, profile, profile.symbolizer, sites=sites)

    def told_of_first(self, tell: Callable[[Recording], Any]) -> Any:
        """What is told of the first recording that can be read, by whoever reads them. Raises PerfError where none can."""

        def first(paths: list[str]) -> Any:
            return told_of_first(paths, tell, check_owner=self._check_owner)

        if self._cluster:
            from perfpy.fleet.cluster import told_by_cluster  # few have one

            return told_by_cluster(self._cluster, self.paths, tell, check_owner=self._check_owner)
        if not (can_fork() and any(is_url(path) for path in self.paths)):
            return first(self.paths)
        with ForkedWorkers([self.paths], first, 1) as worker:  # what fetches leaves threads behind, beside which nothing can be forked
            return next(worker.results())

    def page(self, stacks: Sequence[Stacks] | None = None, *, symbols: SymbolOptions | None = None) -> str:
        """The profile of all as a page, as Recording.page, without times and code. stacks: of which it is made."""
        from perfpy.views.page.page import PageText, render

        return render(self.stacks(symbols) if stacks is None else stacks, PageText(self.title))

    def flamegraph(self, path: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> None:
        """Write page() to a file: one HTML file for any browser, complete in itself. Raises OutputFailedError.

        >>> import perfpy
        >>> perfpy.open_many(["perf.data", "perf.data"]).flamegraph("flame.html")
        """
        try:
            with open(path, "wb") as file:
                file.write(self.page(symbols=symbols).encode(errors="replace"))
        except OSError as error:
            raise OutputFailedError(os.fspath(path), error.strerror or str(error)) from None

    def folded(self, asked: Asked, mode: Mode | None = None, symbols: SymbolOptions | None = None) -> PortableProfile:
        """All recordings folded, each by what is asked of it, and merged. Raises PerfError where none can be read.

        symbols: where to look here for what workers elsewhere did not find.
        """
        request = FoldingRequest(asked, self.weight, self._check_owner, mode, tuple(self.conditions))
        groups = [self.paths[begin : begin + _GROUP] for begin in range(0, len(self.paths), _GROUP)]
        if self._cluster:
            from perfpy.fleet.cluster import folded_by_cluster  # few have one

            found = folded_by_cluster(self._cluster, self.paths, request, self._progress)
        else:
            found = merged_groups(self._folded_here(groups, request))
        self.failed = found.failed
        if found.part is None:
            if found.refused:
                raise UsageError(found.refused)
            raise PerfError(self._none_read())
        self.warnings = found.part.warnings
        return with_symbols_from_here(found.part, symbols or SymbolOptions()) if self._cluster else found.part

    def _folded_here(self, groups: list[list[str]], request: FoldingRequest) -> Iterator[FoldedGroup]:
        """Each group, folded by this process or by some that are forked off it."""
        jobs = min(self._jobs or available_cores(), len(groups))
        shared = SharedFiles()

        def work(group: list[str]) -> FoldedGroup:
            return folded_group(group, request, shared)

        if jobs < 2 or not can_fork():
            yield from (self._told(number, work(group), len(groups)) for number, group in enumerate(groups))
            return
        with ForkedWorkers(groups, work, jobs) as workers:
            yield from (self._told(number, group, len(groups)) for number, group in enumerate(workers.results()))

    def _told(self, number: int, group: FoldedGroup, count: int) -> FoldedGroup:
        if self._progress is not None:
            self._progress((number + 1) / count)
        return group

    def _none_read(self) -> str:
        """Word the error if no recording can be read."""
        first = f": {self.failed[0].path}: {self.failed[0].reason}" if self.failed else ""
        return f"none of {len(self)} recordings can be read{first}"


def open_many(names: Names, *, symbols: SymbolOptions | None = None, weight: str = "time", jobs: int = 0, cluster: str = "") -> Recordings:
    """Recordings of several hosts, or days, to be reported as one; those that cannot be read are left out, and in `failed`.

    names: paths, patterns ("hosts/*.data"), folders with files *.data; weight: each counts by its events ("time"), its "samples", or
    all "equal"; jobs: how many processes read them (0: as many as CPUs); cluster: the address of a Dask scheduler whose workers do
    that instead. Raises BadPerfDataError.

    >>> import perfpy
    >>> [(row.texts["host"], row.samples) for row in perfpy.open_many("perf.dat?").report(by="host")]
    [('here', 10)]
    """
    return Recordings(recordings_named(names), symbols=symbols, weight=weight, jobs=jobs, cluster=cluster)


def _memory_words(options: ReportOptions) -> MemoryWords | None:
    from perfpy.analysis.sortkeys.sort_key import Mode

    if options.wanted.mode is not Mode.MEMORY:
        return None
    from perfpy.views.script import memory_text

    return memory_text
