"""Many recordings as one: what perfpy.open_many() returns.

Each recording is folded independently (perfpy.fleet.folding), by one process per CPU or on a cluster; the results are merged.
"""

from __future__ import annotations

import glob
import os
from contextlib import ExitStack
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.analysis.filters import SampleFilter, texts
from perfpy.analysis.group_differences import RECORDING, GroupTable, group_changes
from perfpy.analysis.named_samples import Samples
from perfpy.analysis.report.options import plan_report
from perfpy.analysis.report.report import Losses, report_of
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, is_time
from perfpy.analysis.stacks import StackOptions, stacks_of
from perfpy.errors import BadPerfDataError, PerfError, UsageError, plural
from perfpy.fleet.folding import Conditions, FoldingRequest, fold_group, merge_groups, restrict_to
from perfpy.fleet.merging import MergedProfile, add_local_symbols, describe_builds, renumber_event
from perfpy.fleet.portable_profile import RecordingProblem, event_keys
from perfpy.fleet.remote import find_urls, is_url, local_name, open_recording, public_name, read_first
from perfpy.perfdata.reader import main_file, recordings_in
from perfpy.recording import TracepointSamples
from perfpy.symbols.demangling.short_names import without_instance
from perfpy.symbols.files.debug_files import SharedFiles, SymbolOptions
from perfpy.workers import ForkedWorkers, available_cores, can_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Self

    from perfpy.analysis.aggregate.scan import Progress
    from perfpy.analysis.annotation import Annotation
    from perfpy.analysis.group_differences import GroupChanges
    from perfpy.analysis.named_samples import SampleBatch
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sort_key import MemoryWords, Mode, RecordingText
    from perfpy.analysis.stacks import Stacks
    from perfpy.fleet.folding import FoldedGroup, OptionsOf
    from perfpy.fleet.portable_profile import PortableProfile
    from perfpy.perfdata.events import FileEvent
    from perfpy.recording import Recording
    from perfpy.views.parquet import Exported


#: names of recordings: paths, patterns, folders
Names: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

WEIGHTS: Final = ("time", "samples", "equal")
#: recordings that a process folds and merges before it returns a result
_GROUP: Final = 4


def find_recordings(names: Names) -> list[str]:
    """Return the recordings that paths, patterns and folders name, each once, those of patterns and folders sorted by name.

    A folder may be a recording itself (record --threads), or a folder of tables (perfpy export) with recordings; in
    other folders the files *.data count. perfpy.fleet.remote resolves URLs. Raises BadPerfDataError for a
    pattern or folder without recordings.
    """
    unique_paths: dict[str, None] = {}
    for one in [names] if isinstance(names, (str, os.PathLike)) else names:
        name = local_name(os.fspath(one))
        if is_url(name):
            paths = find_urls(name)
        elif exported := recordings_in(name):
            paths = exported
        elif os.path.isdir(name) and not os.path.exists(main_file(name)):
            paths = sorted(glob.glob(os.path.join(glob.escape(name), "*.data")))
        elif glob.has_magic(name) and not os.path.exists(name):
            paths = sorted(glob.glob(name, recursive=True))
        else:
            paths = [name]
        if not paths:
            raise BadPerfDataError(name, "no recordings found", remedy="name files, patterns of files, or folders with files *.data")
        unique_paths.update(dict.fromkeys(paths))
    return list(unique_paths)


class Recordings:
    """Many recordings, with the methods of one: reports, stacks, pages and columns cover all of them. Each file is opened when it is read.

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
            raise UsageError(f"unknown weight {weight!r}; weights: {', '.join(WEIGHTS)}")
        self.paths = list(paths)  #: the named recordings
        self.failed: list[RecordingProblem] = []  #: the recordings that the last operation could not read, and why
        self.warnings: list[RecordingProblem] = []  #: skipped parts of other recordings
        self._symbols = symbols
        self._check_owner = check_owner
        self.conditions: list[Conditions] = []  #: of where()
        self.weight, self._jobs = weight, jobs
        self._cluster, self._progress = cluster, progress

    def __len__(self) -> int:
        return len(self.paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """No-op: each recording is open only while it is read."""

    def __iter__(self) -> Iterator[Recording]:
        """Yield each readable recording, restricted by where(), for one machine's data; it closes after its iteration."""
        self.failed = []
        for path in self.paths:
            with ExitStack() as open_one:
                try:
                    recording = open_one.enter_context(open_recording(path, check_owner=self._check_owner, symbols=self._symbols))
                except PerfError as error:
                    self.failed.append(RecordingProblem.of(public_name(path), error))
                    continue
                restricted = restrict_to(recording, self.conditions)
                if restricted is not None:
                    yield restricted

    def where(self, *, host: str | Iterable[str] | None = None, **conditions: Any) -> Self:
        """Return the same recordings, restricted to some samples. host: of these machines; conditions: as Recording.where takes them.

        A recording without the named event is skipped.

        >>> import perfpy
        >>> recordings = perfpy.open_many("perf.data").where(host="here", comm="busy", time=(None, "50%"))
        >>> len(recordings.samples["ip"])
        5
        """
        restricted = copy(self)
        restricted.conditions = [*self.conditions, Conditions(texts("host", host), conditions)]
        return restricted

    @property
    def events(self) -> list[FileEvent]:
        """The events of all recordings; events of the same meaning are one."""
        return SharedEvents(self).events

    @property
    def samples(self) -> ManySamples:
        """All samples as columns like Recording.samples, with "host" and "recording"; one recording after the other."""
        return ManySamples(self, self._none_read)

    def tracepoint(self, name: str) -> TracepointSamples:
        """Return the samples of a tracepoint like Recording.tracepoint, of all recordings that have it. Raises UsageError."""
        parts, refused = [], None
        for recording in self:
            try:
                samples, fields = recording.tracepoint(name)
            except UsageError as error:
                refused = error
                continue
            parts.append(TracepointSamples({**samples, **own_columns(recording, len(samples["time"]))}, fields))
        if not parts:
            raise refused or UsageError(f"no recordings to search for {name}")
        return TracepointSamples(*(joined_columns([one[part] for one in parts]) for part in range(2)))

    def to_parquet(self, folder: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> list[Exported]:
        """Add the recordings to the tables in a folder: see Recording.to_parquet."""
        return [recording.to_parquet(os.fspath(folder), symbols=symbols) for recording in self]

    @property
    def title(self) -> str:
        """The number of recordings that could be read, as text."""
        read = len(self) - len(self.failed)
        return f"{read} {plural(read, 'recording')}"

    def report(
        self,
        by: str | Sequence[str] | None = None,
        *,
        callers: bool = False,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        options_of: OptionsOf | None = None,
    ) -> Report:
        """Return a histogram of the samples of all recordings, for each event, like Recording.report. Further sort keys: host, recording.

        Raises UsageError, and PerfError if no recording can be read.

        Args:
            by: sort keys.
            callers: count callers, too.
            options: replace by and callers.
            symbols: where to look for symbols.
            options_of: returns the options of each recording.
        """
        from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions

        if options is None:
            keys = (by if isinstance(by, str) else ",".join(by)) if by else "comm,dso,symbol"
            graph = CallGraph(order="caller") if callers else None
            options = ReportOptions(chains=ChainOptions(call_graph=graph, children=callers), columns=ColumnOptions(sort=keys))
        return self.folded_report(options, options_of, symbols)[1]

    def folded_report(
        self, options: ReportOptions, options_of: OptionsOf | None = None, symbols: SymbolOptions | None = None
    ) -> tuple[MergedProfile, Report]:
        """Return the merged profile of all recordings, and its report. Raises as `report`."""
        symbols = symbols or self._symbols
        profile_data = self.fold(options_of or (lambda _recording: (options, symbols)), options.columns.mode, symbols)
        profile = MergedProfile(profile_data, symbols or SymbolOptions())
        plan = plan_report(profile, options, profile.fields(raw=options.columns.raw_trace))
        report = report_of(plan, profile, profile.symbolizer, profile.words(_memory_words(options)), profile_data.listed)
        report.losses, report.truncated = Losses(profile_data.lost, profile_data.dropped, 0), profile_data.truncated
        report.note_chains = lambda: describe_builds(profile_data, plan.layout)
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
        options_of: OptionsOf | None = None,
    ) -> list[GroupChanges]:
        """Compare with another group of recordings; return the changes beyond the spread between hosts: see perfpy.diff.

        Raises as `report`.

        Args:
            after: the other group.
            by: sort keys.
            symbols: where to look for symbols; overrides the groups' own.
            unit: the observations, "host" or "recording" (default: hosts, or recordings if a group has one host).
            full_names: each instance of a template separately.
            options: replace by.
            options_of: returns the options of each recording.

        >>> import perfpy, shutil
        >>> after = shutil.copy("perf.data", "after.data")
        >>> changes = perfpy.open_many("perf.dat?").changes(perfpy.open_many(after))[0]
        >>> changes.before.samples, changes.above()
        (10, [])
        """
        from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions

        if options is None:
            options = ReportOptions(rows=RowOptions(group=False), columns=ColumnOptions(sort=by if isinstance(by, str) else ",".join(by)))
        options = comparable(options, self.paths, after.paths, unit)
        groups = [(one.weight, *one.folded_report(options, options_of, symbols)) for one in (self, after)]
        first, second = (FoldedGroupReport(weight, profile.profile, report) for weight, profile, report in groups)
        return changes_between(first, second, unit, full_names=full_names)

    def annotate(
        self, function: str | None = None, *, options: ReportOptions | None = None, symbols: SymbolOptions | None = None
    ) -> Annotation:
        """Return the code of functions, for each build of a file, with the samples of all recordings: like Recording.annotate.

        The code is from this machine's files of the same build-ids; the kernel has none.
        """
        from perfpy.analysis.annotation import Annotation
        from perfpy.analysis.report.options import ColumnOptions, ReportOptions

        report_options = options or ReportOptions(sample_filter=SampleFilter(symbols=(function,) if function else None))
        report_options = report_options.by_address(ColumnOptions(sort="dso,build_id,symbol"))
        profile, report = self.folded_report(report_options, symbols=symbols)
        return Annotation(report, profile.symbolizer)

    def stacks(
        self, symbols: SymbolOptions | None = None, options: StackOptions | None = None, *, options_of: OptionsOf | None = None
    ) -> list[Stacks]:
        """Return the whole stacks of each event of all recordings: like Recording.stacks, without single samples and threads."""
        options, symbols = options or StackOptions(), symbols or self._symbols
        profile_data = self.fold(options_of or (lambda _recording: (options, symbols)), symbols=symbols)
        profile = MergedProfile(profile_data)
        return stacks_of(profile_data.events, profile_data.comms, options.sample_filter, profile, profile.symbolizer, sites=options.sites)

    def read_first(self, tell: Callable[[Recording], Any]) -> Any:
        """Return tell()'s result for the first recording that can be read, here or on the cluster. Raises PerfError if none can."""

        def first(paths: list[str]) -> Any:
            return read_first(paths, tell, check_owner=self._check_owner)

        if self._cluster:
            from perfpy.fleet.cluster import read_first_on_cluster  # few have one

            return read_first_on_cluster(self._cluster, self.paths, tell, check_owner=self._check_owner)
        if not (can_fork() and any(is_url(path) for path in self.paths)):
            return first(self.paths)
        with ForkedWorkers([self.paths], first, 1) as worker:  # fetching leaves threads behind, which prevent later forks
            return next(worker.results())

    def page(self, stacks: Sequence[Stacks] | None = None, *, symbols: SymbolOptions | None = None) -> str:
        """Return the profile of all recordings as a page: like Recording.page, without times and code. stacks: shown in the page."""
        from perfpy.views.page.page import PageText, render

        return render(self.stacks(symbols) if stacks is None else stacks, PageText(self.title))

    def flamegraph(self, path: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> None:
        """Write page() to a file: one self-contained HTML file for any browser. Raises OutputFailedError.

        >>> import perfpy
        >>> perfpy.open_many(["perf.data", "perf.data"]).flamegraph("flame.html")
        """
        from perfpy.untrusted.destinations import write_whole

        write_whole(os.fspath(path), self.page(symbols=symbols).encode(errors="replace"))

    def fold(self, options_of: OptionsOf, mode: Mode | None = None, symbols: SymbolOptions | None = None) -> PortableProfile:
        """Fold all recordings by their options, and merge them. Raises PerfError if none can be read.

        symbols: where to look here for symbols that workers elsewhere did not find.
        """
        request = FoldingRequest(options_of, self.weight, self._check_owner, mode, tuple(self.conditions))
        groups = [self.paths[begin : begin + _GROUP] for begin in range(0, len(self.paths), _GROUP)]
        if self._cluster:
            from perfpy.fleet.cluster import fold_on_cluster  # few have one

            group = fold_on_cluster(self._cluster, self.paths, request, self._progress)
        else:
            group = merge_groups(self._folded_here(groups, request))
        self.failed = group.failed
        if group.part is None:
            if group.refused:
                raise UsageError(group.refused)
            raise PerfError(self._none_read())
        self.warnings = group.part.warnings
        return add_local_symbols(group.part, symbols or SymbolOptions()) if self._cluster else group.part

    def _folded_here(self, groups: list[list[str]], request: FoldingRequest) -> Iterator[FoldedGroup]:
        """Fold each group, in this process or in forked ones."""
        jobs = min(self._jobs or available_cores(), len(groups))
        shared = SharedFiles()

        def work(group: list[str]) -> FoldedGroup:
            return fold_group(group, request, shared)

        with ExitStack() as stack:
            forks = jobs > 1 and can_fork()
            folded = stack.enter_context(ForkedWorkers(groups, work, jobs)).results() if forks else map(work, groups)
            for number, group in enumerate(folded, 1):
                if self._progress is not None:
                    self._progress(number / len(groups))
                yield group

    def _none_read(self) -> str:
        """Return the error text if no recording can be read."""
        first = f": {self.failed[0].path}: {self.failed[0].reason}" if self.failed else ""
        return f"none of {len(self)} recordings can be read{first}"


def open_many(names: Names, *, symbols: SymbolOptions | None = None, weight: str = "time", jobs: int = 0, cluster: str = "") -> Recordings:
    """Open recordings of several hosts, or days, to report them as one. Unreadable ones are skipped, and listed in `failed`.

    Raises BadPerfDataError.

    Args:
        names: paths, patterns ("hosts/*.data"), folders with files *.data.
        symbols: where to look for symbols.
        weight: a recording's weight: its events ("time"), its "samples", or "equal".
        jobs: processes that read them (0: one per CPU).
        cluster: the address of a Dask scheduler whose workers read them instead.

    >>> import perfpy
    >>> [(row.texts["host"], row.samples) for row in perfpy.open_many("perf.dat?").report(by="host")]
    [('here', 10)]
    """
    return Recordings(find_recordings(names), symbols=symbols, weight=weight, jobs=jobs, cluster=cluster)


def _memory_words(options: ReportOptions) -> MemoryWords | None:
    from perfpy.analysis.sort_key import Mode

    if options.columns.mode is not Mode.MEMORY:
        return None
    from perfpy.views.script import field_text

    return field_text


# The samples of many recordings as columns, and the events that they share.


#: columns that identify the recording
_OWN: Final = ("host", "recording")


class SharedEvents:
    """The events of several recordings; events of the same key are one."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.events: list[FileEvent] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        for recording in recordings:
            self.numbers(recording)

    def numbers(self, recording: Recording) -> Any:
        """Return the number of each event of a recording."""
        numbers = []
        for event, key in zip(recording.events, event_keys(recording.events), strict=True):
            number = self._numbers.setdefault(key, len(self.events))
            if number == len(self.events):
                self.events.append(renumber_event(event, number))
            numbers.append(number)
        return np.array(numbers, np.int32)


class ManySamples(Samples):
    """The samples of many recordings as columns, one recording after the other, in each in order of delivery.

    "event" indexes the `events` of all; "time" is by each machine's own clock; "host" and "recording" identify the recording.
    The columns are those that every recording has.

    >>> import perfpy
    >>> samples = perfpy.open_many(["perf.data", "perf.data"]).samples
    >>> samples["host"].tolist(), len(samples["ip"]), samples["symbol"][0]
    (['here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here'], 10, '[unknown]')
    """

    def __init__(self, recordings: Iterable[Recording], none_read: Callable[[], str]) -> None:
        """Set the recordings; none_read: returns the error text if there is no recording."""
        self._recordings = recordings
        self._none_read = none_read
        self._columns: dict[str, Any] = {}
        self._keys_and_names: tuple[list[str], list[str]] | None = None

    def keys(self) -> list[str]:
        """Return the names of the kernel's fields."""
        return self._shared_columns()[0]

    @property
    def names(self) -> list[str]:
        """The names of the columns with names."""
        return self._shared_columns()[1]

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in self.names

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over each file. Raises KeyError for an unknown name."""
        missing = [name for name in names if name not in self._columns]
        for name in missing:
            self.check(name)
        if not missing:
            return
        events, parts = SharedEvents(()), []
        for recording in self._recordings:
            own = recording.samples.to_dict(["event", *(name for name in missing if name not in (*_OWN, "event"))])
            numbers = own["event"]
            parts.append({**own, "event": events.numbers(recording)[numbers], **own_columns(recording, len(numbers))})
        self._columns.update({name: column for name, column in joined_columns(parts).items() if name in missing})

    def in_batches(self) -> Iterator[SampleBatch]:
        """Yield batches of some thousand samples as columns with names; batch["event"] indexes batch.events, those of its recording."""
        for recording in self._recordings:
            for batch in recording.samples.in_batches():
                for name, column in own_columns(recording, len(batch)).items():
                    batch.add(name, column)
                yield batch

    def _shared_columns(self) -> tuple[list[str], list[str]]:
        if self._keys_and_names is None:
            names_of_each = [(recording.samples.keys(), recording.samples.names) for recording in self._recordings]
            if not names_of_each:
                raise PerfError(self._none_read())
            keys, names = ([name for name in lists[0] if all(name in one for one in lists)] for lists in zip(*names_of_each, strict=True))
            self._keys_and_names = keys, [*_OWN, *names]
        return self._keys_and_names


def own_columns(recording: Recording, count: int) -> dict[str, Any]:
    """Return the columns "host" and "recording" of `count` samples."""
    from perfpy.analysis.report.report import recording_text

    recorded = recording_text(recording.data)
    return {"host": np.full(count, recorded.host, object), "recording": np.full(count, recorded.path, object)}


def joined_columns(parts: Sequence[Any]) -> dict[str, Any]:
    """Concatenate the columns that all parts have."""
    join: Callable[[list[Any]], Any]
    joined: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        columns = [part[name] for part in parts if name in part]
        if len(columns) == len(parts):
            join = Ragged.concat if isinstance(columns[0], Ragged) else np.concatenate
            joined[name] = join(columns)
    return joined


# Comparison of two groups of recordings: hosts before and after, days, releases.

#: the units of observation
UNITS: Final = ("host", RECORDING)
_UNKNOWN_HOST: Final = "?"


class FoldedGroupReport(NamedTuple):
    """One of the groups.

    Attributes:
        weight: how its recordings count.
        profile: the merged recordings.
        report: of the profile, separated by recording.
    """

    weight: str
    profile: PortableProfile
    report: Report


def changes_between(before: FoldedGroupReport, after: FoldedGroupReport, unit: str, *, full_names: bool) -> list[GroupChanges]:
    """Return the changes of each event that both groups have.

    Args:
        before, after: the groups.
        unit: "host", "recording", or "" for hosts, and recordings if a group has one host.
        full_names: whether each instance of a template is separate.
    """
    groups = before, after
    chosen = unit or _unit([group.profile.recordings for group in groups])
    first, second = (_tables(group, chosen, full_names=full_names) for group in groups)
    equal = any(group.weight == "equal" for group in groups)
    return [group_changes(table, second[key], chosen, equal=equal) for key, table in first.items() if key in second]


def comparable(options: ReportOptions, before: Sequence[str], after: Sequence[str], unit: str) -> ReportOptions:
    """Return the options with recordings separated. Raises UsageError if the groups cannot be compared.

    before, after: paths.
    """
    if unit not in ("", *UNITS):
        raise UsageError(f"unknown unit {unit!r}; units: {', '.join(UNITS)}")
    if both := set(map(os.path.realpath, before)) & set(map(os.path.realpath, after)):
        raise UsageError(f"{min(both)}: in both groups; name it once")
    if own := [key for key in (options.columns.sort or "").split(",") if key in UNITS]:
        raise UsageError(f"-s {own[0]}: {own[0]}s are the observations of each group and cannot be rows")
    return with_recordings(options)


def with_recordings(options: ReportOptions) -> ReportOptions:
    """Return the options with recordings separated."""
    return options._replace(
        rows=options.rows._replace(rows_filtered=False), columns=options.columns._replace(sort=f"{options.columns.sort},{RECORDING}")
    )


def _tables(group: FoldedGroupReport, unit: str, *, full_names: bool) -> dict[tuple[object, ...], GroupTable]:
    """Return the table of each event with samples, by the event's key."""
    unit_of = _units(group.profile.recordings, unit)

    def name(key: str, text: str) -> str:
        text = text.strip()
        return without_instance(text) if key == "symbol" and not full_names else text

    tables = (table for table in group.report.histograms if table.leader.samples)
    profile = group.profile
    timed = group.weight == "time" and all(one.seconds > 0 for one in profile.recordings)
    numbered = [(table.leader.event.index, table) for table in tables]
    return {
        profile.event_keys[number]: GroupTable(table, unit_of, name, _rates(profile, number, unit_of) if timed else {})
        for number, table in numbered
    }


def _rates(profile: PortableProfile, event: int, unit_of: Callable[[str], str]) -> dict[str, float]:
    """Return the rate of an event per second, after filters, of each unit."""
    rows = profile.folded
    own = (rows.event == event) & ~rows.filtered
    periods = np.bincount(rows.dimensions[RECORDING][own], rows.period[own], len(profile.recordings))
    totals: dict[str, list[float]] = {}
    for one, period in zip(profile.recordings, periods.tolist(), strict=True):
        total = totals.setdefault(unit_of(one.path), [0.0, 0.0])
        total[0] += period
        total[1] += one.seconds
    scale = NANOSECONDS_A_SECOND if is_time(profile.events[event]) else 1
    return {unit: period / scale / seconds for unit, (period, seconds) in totals.items()}


def _unit(groups: Sequence[Sequence[RecordingText]]) -> str:
    """Return "host" if both groups have several, else "recording"."""
    return "host" if all(len({one.host for one in group} - {_UNKNOWN_HOST}) > 1 for group in groups) else RECORDING


def _units(recordings: Sequence[RecordingText], unit: str) -> Callable[[str], str]:
    """Return a function from path to host, or to the path itself if the recording is the unit."""
    hosts = {one.path: one.host for one in recordings if one.host != _UNKNOWN_HOST} if unit == "host" else {}
    return lambda path: hosts.get(path, path)
