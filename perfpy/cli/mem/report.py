"""`perfpy mem report`: perfpy report of memory accesses, with perf mem's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.events.kinds.memory_events import LOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.mem.options import MemReportOptions


def report_arguments(options: MemReportOptions) -> list[str]:
    """Return the arguments of `perfpy report` for the options of `perfpy mem report`."""
    arguments = ["--mem-mode", "-n"]
    keys = ",".join(_sort_keys(options))
    arguments += [f"--sort={keys}"] if keys else []
    arguments += [f"--input={options.input}"] if options.input else []
    arguments += [f"--cpu={options.cpu}"] if options.cpu else []
    arguments += ["--force"] if options.force else []
    arguments += ["--hide-unresolved"] if options.hide_unresolved else []
    arguments += [f"--field-separator={options.separator}"] if options.separator else []
    return arguments + ["-v"] * options.verbose


def _sort_keys(options: MemReportOptions) -> Iterator[str]:
    """Yield perf mem's sort keys; nothing for those of report --mem-mode."""
    more = ["phys_daddr"] if options.phys_data else []
    more += ["data_page_size"] if options.data_page_size else []
    if options.sort_keys:
        yield options.sort_keys
        yield from more
        return
    if LOADS in options.access_kinds and not more:
        return
    if LOADS in options.access_kinds:
        yield "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked"
    else:
        yield "mem,sym,dso,symbol_daddr,dso_daddr,tlb,locked"
    yield from more
