"""Options of `perfpy kmem`: perf kmem's (perf-kmem(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.cli.line.kinds import Flag, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, fail, option
from perfpy.cli.line.shared import InputOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Collection


class KmemKindOptions(CommandOptions):
    """The allocators."""

    slab: bool = option("--slab", Flag(), "objects of the slab allocator (default)")
    page: bool = option("--page", Flag(), "pages")

    @property
    def has_slab(self) -> bool:
        """Whether to look at the slab allocator."""
        return self.slab or not self.page


class KmemOptions(InputOptions, VerboseOptions, KmemKindOptions):
    """Options of `perfpy kmem` and of `kmem stat`."""

    alloc: bool = option("--alloc", Flag(), "one row per object or page")
    caller: bool = option("--caller", Flag(), "one row per call site")
    sort: str = option("-s,--sort", Value(default=""), "sort by: frag, hit, bytes, pingpong, ptr, callsite", metavar="<key[,key2...]>")
    line: int = option("-l,--line", Value(parse_unsigned, default=-1), "show n rows of the last table named before", metavar="<num>")
    raw_ip: bool = option("--raw-ip", Flag(), "show addresses instead of functions")
    live: bool = option("--live", Flag(), "only pages that were not freed")
    time: str = option("--time", Value(default=""), "only this time: start,stop", metavar="<str>")
    vmlinux: str = option("--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")


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
