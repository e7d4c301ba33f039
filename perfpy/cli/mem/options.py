"""Options of `perfpy mem` and its actions: perf mem's (perf-mem(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import fail, option
from perfpy.cli.line.shared import InputOptions, VerboseOptions
from perfpy.events.kinds.memory_events import LATENCY, LOADS, STORES

if TYPE_CHECKING:
    from collections.abc import Mapping

_LACKING: Final[Mapping[str, str]] = {
    "-T,--type-profile": "it needs the types of data in debug information; -s symbol_daddr,dso_daddr shows the data",
}


class MemOptions(VerboseOptions):
    """Options of all actions."""

    kinds: str = option("-t,--type", Value(default=""), "kinds of accesses: load, store (default: load,store)", metavar="<type>")
    phys_data: bool = option("-p,--phys-data", Flag(), "include physical addresses of data")
    data_page_size: bool = option("--data-page-size", Flag(), "include page sizes of data")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")

    @property
    def access_kinds(self) -> tuple[str, ...]:
        """The kinds of -t; both without it. Rejects unknown words."""
        words = tuple(word for word in self.kinds.split(",") if word)
        for word in words:
            if word not in (LOADS, STORES):
                fail(f"-t {word}: unknown kind of access; expected {LOADS} or {STORES}")
        return words or (LOADS, STORES)


class MemReportOptions(MemOptions, InputOptions, lacks=_LACKING):
    """Options of `perfpy mem report`."""

    dump_raw_samples: bool = option("-D,--dump-raw-samples", Flag(), "print every access on a line")
    sort_keys: str = option(
        "-s,--sort", Value(default=""), "sort by these keys: mem, sym, symbol_daddr, dcacheline", metavar="<key[,key2...]>"
    )
    hide_unresolved: bool = option("-U,--hide-unresolved", Flag(), "hide entries without a symbol")
    separator: str = option("-x,--field-separator", Value(default=""), "separate columns with this string", metavar="<separator>")


class MemRecordOptions(MemOptions):
    """Options of `perfpy mem record`."""

    events: tuple[str, ...] = option("-e,--event", Listed(), "memory events; -e list shows this machine's", metavar="<event>")
    kernel_only: bool = option("-K,--all-kernel", Flag(), "sample only the kernel")
    user_only: bool = option("-U,--all-user", Flag(), "sample only user code")
    ldlat: int = option(
        "--ldlat", Value(parse_unsigned, default=LATENCY), f"sample loads that take n cycles or more (default: {LATENCY})", metavar="<n>"
    )
