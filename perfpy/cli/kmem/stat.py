"""`perfpy kmem stat`: what the kernel allocated."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from perfpy.cli.kmem.options import table_options
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.allocations.call_sites import CallSites
    from perfpy.analysis.allocations.pages import PageEvents, PageRow
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.cli.kmem.options import KmemOptions
    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer

_Row = TypeVar("_Row")


def run(options: KmemOptions) -> int:
    """Show what the kernel allocated."""
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        shown = _Allocations(recording, options)
        texts = [shown.slab] if options.has_slab else []
        texts += [shown.pages] if options.page else []
        tables = [lines() for lines in texts]
        for lines in tables:
            print_lines(lines)
    return 0


class _Allocations:
    """The allocations of an open recording."""

    def __init__(self, recording: Recording, options: KmemOptions) -> None:
        self._recording = recording
        self._options = options
        self._of_callers, self._of_allocations = table_options(options)

    def slab(self) -> Iterable[str]:
        """Return the lines of the slab allocator's objects."""
        from perfpy.analysis.allocations.slab import DEFAULT_SORT, SORT_KEYS, has_slab, read_slab, sorted_slab
        from perfpy.views.allocations.slab_lines import slab_lines, slab_summary

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

        from perfpy.analysis.allocations.pages import count_by_order, has_pages, read_pages
        from perfpy.views.allocations.page_lines import page_summary

        if not has_pages(self._recording.data):
            fail(f"{self._recording.path}: no allocations of pages; record them: perfpy kmem --page record -- COMMAND")
        events = read_pages(self._recording.data, self._times)
        counts = ~events.has_failed & ~(events.is_freed if self._options.live else np.zeros(len(events.page), bool))
        rows = np.flatnonzero(counts)
        tables = self._page_tables(events, rows) if self._options.caller or self._options.alloc else ()
        return [*tables, *page_summary(events, count_by_order(events, rows))]

    def _page_tables(self, events: PageEvents, rows: NDArray[np.int64]) -> Iterator[str]:
        from perfpy.analysis.allocations.pages import DEFAULT_SORT, SORT_KEYS, by_page, by_site, sorted_pages
        from perfpy.views.allocations.page_lines import flag_lines, page_lines

        names = self._flag_names(events)
        sites = self._call_sites(events)
        which = None if sites is None else (sites.which, sites.addresses)
        yield from flag_lines(names)
        for is_shown, group, table in (
            (self._options.caller, by_site, self._of_callers), (self._options.alloc, by_page, self._of_allocations)
        ):  # fmt: skip
            if not is_shown:
                continue
            grouped = group(events, rows, which)
            if self._options.live:
                grouped.reverse()  # perf's order of equal rows
            shown, has_more = _limited(sorted_pages(grouped, table.keys(SORT_KEYS, DEFAULT_SORT)), table.rows)

            def site_of(row: PageRow) -> str:
                name = "" if sites is None or row.site < 0 or self._options.raw_ip else sites.names[row.site]
                return name or f"{row.site_address:x}"

            yield from page_lines(shown, names, site_of, by_page=group is by_page, is_live=self._options.live, has_more=has_more)

    def _call_sites(self, events: PageEvents) -> CallSites | None:
        from perfpy.analysis.allocations.call_sites import find_call_sites

        return None if events.chains is None else find_call_sites(events.chains, events.key, self._symbolizer)

    def _flag_names(self, events: PageEvents) -> dict[int, str]:
        """Return the names of all flags of requests, by the recorded format."""
        from perfpy.analysis.allocations.pages import ALLOCATION
        from perfpy.views.allocations.flag_names import names_of_flags

        return names_of_flags(self._recording.data, ALLOCATION, events.flags[~events.has_failed].tolist(), self._symbolizer)

    def _site(self, address: int) -> str:
        """Return the text of a call site: function+offset, or its address."""
        symbol = None if self._options.raw_ip else self._symbolizer.kernel_symbol(address)
        return f"{symbol[0]}+{symbol[1]:x}" if symbol else f"{address:#x}"

    @cached_property
    def _times(self) -> TimeRanges | None:
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._options.time, self._recording.times()) if self._options.time else None

    def _node_of_cpu(self) -> dict[int, int]:
        """Return the NUMA node of each CPU of the recorded machine."""
        from perfpy.abi.cpu_list import parse_cpu_list

        nodes: dict[int, int] = {}
        for node in self._recording.header.get("numa_topology") or ():
            nodes.update(dict.fromkeys(parse_cpu_list(node.cpus), node.node))
        return nodes

    @cached_property
    def _symbolizer(self) -> Symbolizer:
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.shared import SymbolFileOptions
        from perfpy.cli.line.symbol_values import symbol_options_of

        files = SymbolFileOptions(kallsyms=self._options.kallsyms, vmlinux=self._options.vmlinux)
        return self._recording.symbolizer(symbol_options_of(files, load(), self._recording, force=self._options.force))


def _limited(rows: list[_Row], limit: int) -> tuple[list[_Row], bool]:
    """Return the first rows, and whether to print dots below: if rows were left out, or, as perf, without rows and limit (-1)."""
    return (rows, not rows) if limit < 0 else (rows[:limit], limit < len(rows))
