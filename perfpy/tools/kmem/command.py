"""`perfpy kmem`: memory that the kernel allocates for itself and for programs. Options are perf kmem's (perf-kmem(1))."""

from __future__ import annotations

from functools import cached_property

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, TypeVar
from perfpy.cli.forwarded_actions import ForwardingAction, run_record
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Flag, Value, fail, option, parse_unsigned
from perfpy.cli.line.shared_options import InputOptions, KernelSymbolOptions, VerboseOptions, kernel_symbolizer
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.cli.output.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.filters import TimeRanges
    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.kmem.pages import PageEvents, PageRow


class KmemKindOptions(CommandOptions):
    """The allocators."""

    slab: bool = option("--slab", Flag(), "objects of the slab allocator (default)")
    page: bool = option("--page", Flag(), "pages")

    @property
    def has_slab(self) -> bool:
        """Whether to look at the slab allocator."""
        return self.slab or not self.page


class KmemOptions(InputOptions, VerboseOptions, KmemKindOptions, KernelSymbolOptions):
    """Options of `perfpy kmem` and of `kmem stat`."""

    alloc: bool = option("--alloc", Flag(), "one row per object or page")
    caller: bool = option("--caller", Flag(), "one row per call site")
    sort: str = option("-s,--sort", Value(default=""), "sort by: frag, hit, bytes, pingpong, ptr, callsite", metavar="<key[,key2...]>")
    line: int = option("-l,--line", Value(parse_unsigned, default=-1), "show n rows of the last table named before", metavar="<num>")
    raw_ip: bool = option("--raw-ip", Flag(), "show addresses instead of functions")
    live: bool = option("--live", Flag(), "only pages that were not freed")
    time: str = option("--time", Value(default=""), "only this time: start,stop", metavar="<str>")


class KmemTableOptions(NamedTuple):
    """Options for one of the tables.

    Attributes:
        sort: texts of -s.
        rows: their limit; -1: all.
    """

    sort: tuple[str, ...]
    rows: int

    def keys(self, known: Collection[str], default: tuple[str, ...]) -> list[str]:
        """Return the sort keys of one allocator. Rejects words that are none."""
        words = [word for text in self.sort for word in text.split(",") if word]
        for word in words:
            if word not in known:
                fail(f"-s {word}: unknown sort key; expected {', '.join(known)}")
        return words or list(default)


def table_options(options: KmemOptions) -> tuple[KmemTableOptions, KmemTableOptions]:
    """Return the options of the tables by call site and by allocation.

    -s and -l belong to the table that was named last before them, that of allocations without one.
    """
    sorts: dict[str, list[str]] = {"caller": [], "alloc": []}
    rows = {"caller": -1, "alloc": -1}
    table = "alloc"
    for one in options.in_order("alloc", "caller", "sort", "line"):
        if one.name in rows:
            table = one.name
        elif one.name == "sort" and one.value is not None:
            sorts[table].append(one.value)
        elif one.value is not None:
            rows[table] = int(one.value)
    return KmemTableOptions(tuple(sorts["caller"]), rows["caller"]), KmemTableOptions(tuple(sorts["alloc"]), rows["alloc"])


def _record(options: KmemKindOptions, arguments: list[str]) -> int:
    kinds = [*(["slab"] if options.has_slab else []), *(["page"] if options.page else [])]
    callchains = ["-g"] if options.page else []  # the tracepoints of pages have no call site
    return run_record("kmem", arguments, kinds=kinds, options=callchains)


def stat(options: KmemOptions) -> int:
    """Show what the kernel allocated, and how much of it is waste."""
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        allocations = _Allocations(recording, options)
        tables = [allocations.slab()] if options.has_slab else []
        tables += [allocations.pages()] if options.page else []
        for lines in tables:
            print_lines(lines)
    return 0


command = CommandWithActions(
    KmemOptions,
    {
        "record": ForwardingAction(KmemKindOptions, _record, "record", "record allocations on all CPUs; also takes the options of record"),
        "stat": Action(KmemOptions, stat, "allocations by call site, object or page, and their sums"),
    },
    "Show the memory that the kernel allocates: objects of the slab allocator, and pages.",
)


_Row = TypeVar("_Row")


class _Allocations:
    """The allocations of an open recording."""

    def __init__(self, recording: Recording, options: KmemOptions) -> None:
        self._recording = recording
        self._options = options
        self._of_callers, self._of_allocations = table_options(options)

    def slab(self) -> Iterable[str]:
        """Return the lines of the slab allocator's objects."""
        from perfpy.tools.kmem.slab import DEFAULT_SORT, SORT_KEYS, has_slab, read_slab, slab_lines, slab_summary, sorted_slab

        if not has_slab(self._recording.data):
            fail(f"{self._recording.path}: no allocations of objects; record them: perfpy kmem --slab record -- COMMAND")
        of_callers, of_objects = ((table.keys(SORT_KEYS, DEFAULT_SORT), table.rows) for table in (self._of_callers, self._of_allocations))
        use = read_slab(self._recording.data, self._times, self._node_of_cpu())
        lines: list[str] = []
        if self._options.caller:
            rows, has_more = _limited(sorted_slab(use.sites, of_callers[0]), of_callers[1])
            lines += slab_lines(rows, "Callsite", lambda row: self._site(row.key), has_more=has_more)
        if self._options.alloc:
            rows, has_more = _limited(sorted_slab(use.objects, of_objects[0]), of_objects[1])
            lines += slab_lines(rows, "Alloc Ptr", lambda row: f"{row.key:#x}", has_more=has_more)
        return [*lines, *slab_summary(use.totals)]

    def pages(self) -> Iterable[str]:
        """Return the lines of pages."""
        import numpy as np

        from perfpy.tools.kmem.pages import count_by_order, has_pages, page_summary, read_pages

        if not has_pages(self._recording.data):
            fail(f"{self._recording.path}: no allocations of pages; record them: perfpy kmem --page record -- COMMAND")
        events = read_pages(self._recording.data, self._times)
        counts = ~events.has_failed & ~(events.is_freed if self._options.live else np.zeros(len(events.page), bool))
        rows = np.flatnonzero(counts)
        tables = self._page_tables(events, rows) if self._options.caller or self._options.alloc else ()
        return [*tables, *page_summary(events, count_by_order(events, rows))]

    def _page_tables(self, events: PageEvents, rows: NDArray[np.int64]) -> Iterator[str]:
        from perfpy.tools.kmem import pages

        names = pages.names_of_flags(self._recording.data, pages.ALLOCATION, events.flags[~events.has_failed].tolist(), self._symbolizer)
        sites = None if events.chains is None else pages.find_call_sites(events.chains, events.key, self._symbolizer)
        which = None if sites is None else (sites.which, sites.addresses)
        yield from pages.flag_lines(names)
        tables = ((self._options.caller, pages.by_site, self._of_callers), (self._options.alloc, pages.by_page, self._of_allocations))
        for is_shown, group, table in tables:
            if not is_shown:
                continue
            grouped = group(events, rows, which)
            if self._options.live:
                grouped.reverse()  # perf's order of equal rows
            shown, has_more = _limited(pages.sorted_pages(grouped, table.keys(pages.SORT_KEYS, pages.DEFAULT_SORT)), table.rows)

            def site_of(row: PageRow) -> str:
                name = "" if sites is None or row.site < 0 or self._options.raw_ip else sites.names[row.site]
                return name or f"{row.site_address:x}"

            is_by_page, is_live = group is pages.by_page, self._options.live
            yield from pages.page_lines(shown, names, site_of, by_page=is_by_page, is_live=is_live, has_more=has_more)

    def _site(self, address: int) -> str:
        """Return the text of a call site: function+offset, or its address."""
        symbol = None if self._options.raw_ip else self._symbolizer.kernel_symbol(address)
        return f"{symbol[0]}+{symbol[1]:x}" if symbol else f"{address:#x}"

    @cached_property
    def _times(self) -> TimeRanges | None:
        from perfpy.analysis.filters import ranges_of

        return ranges_of(self._options.time, self._recording.times()) if self._options.time else None

    def _node_of_cpu(self) -> dict[int, int]:
        """Return the NUMA node of each CPU of the recorded machine."""
        nodes: dict[int, int] = {}
        for node in self._recording.header.get("numa_topology") or ():
            nodes.update(dict.fromkeys(parse_cpu_list(node.cpus), node.node))
        return nodes

    @cached_property
    def _symbolizer(self) -> Symbolizer:
        return kernel_symbolizer(self._options, self._recording, force=self._options.force)


def _limited(rows: list[_Row], limit: int) -> tuple[list[_Row], bool]:
    """Return the first rows, and whether to print dots below: if rows were left out, or, as perf, without rows and limit (-1)."""
    return (rows, not rows) if limit < 0 else (rows[:limit], limit < len(rows))
