"""Memory accesses, one a line: perf mem report -D.

perf 6.12 prints a wrong address and padding in the first line; here it is like the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.sortkeys.payload_columns import page_size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.views.recorded import Recorded

_FIELDS = frozenset(("ip", "pid", "tid", "addr", "weight", "data_src", "phys_addr", "data_page_size", "cpumode"))


class AccessColumns(NamedTuple):
    """The columns of each line.

    Attributes:
        physical: with physical addresses.
        page_sizes: with page sizes.
        only_named: drop accesses by code without a symbol.
        separator: between columns.
    """

    physical: bool
    page_sizes: bool
    only_named: bool
    separator: str


def access_lines(recording: Recorded, columns: AccessColumns) -> Iterator[str]:
    """Yield a heading and a line for each access."""
    more = ["PHYS ADDR"] * columns.physical + ["DATA PAGE SIZE"] * columns.page_sizes
    yield f"# {', '.join(['PID, TID, IP, ADDR', *more, 'LOCAL WEIGHT, DSRC, SYMBOL'])}"
    symbolizer = recording.symbolizer()
    attrs = [event.attr for event in recording.events]
    for batch in recording.batches(_FIELDS):
        order = DeliveryOrder(batch.key, batch.key, np.arange(len(batch)))
        view = SampleView(batch.columns, batch.event, order, attrs, recording.timeline, symbolizer)
        yield from _lines(view, columns)


def _lines(view: SampleView, columns: AccessColumns) -> Iterator[str]:
    symbolizer = view.symbolizer
    frames = view.frames_at("ip")
    table = symbolizer.resolve()
    symbols, dsos = table.symbol[frames].tolist(), table.dso[frames].tolist()
    numbers = [view.column(name).tolist() for name in ("pid", "tid", "ip", "addr", "phys_addr", "data_page_size", "weight", "data_src")]
    for symbol, dso, pid, tid, ip, address, physical, size, weight, source in zip(symbols, dsos, *numbers, strict=True):
        if symbol < 0 and columns.only_named:
            continue
        cells = [str(pid), str(tid), f"0x{ip:x}", f"0x{address:x}"]
        cells += [f"0x{physical:016x}"] * columns.physical + [page_size_text(size)] * columns.page_sizes
        file = symbolizer.dsos[dso].name if dso >= 0 else "???"
        name = symbolizer.symbols.name(symbol) if symbol >= 0 else "???"
        yield columns.separator.join([*cells, str(weight), f"0x{source:x}", f"{file}:{name}"])
