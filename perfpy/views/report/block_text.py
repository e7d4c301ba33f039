"""perf report --total-cycles, byte for byte: a line for each block of code between two branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.samples.source_texts import SourceTexts
from perfpy.views.report.text import short_number
from perfpy.views.report.tips import tip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.report.branch_blocks import Block, BlockTable
    from perfpy.symbols.symbolizer import Symbolizer

_COLUMNS: Final = (
    ("Sampled Cycles%", 15), ("Sampled Cycles", 14), ("Avg Cycles%", 11), ("Avg Cycles", 10), ("[Program Block Range]", 70),
    ("Shared Object", 20),
)  # fmt: skip


def block_lines(tables: Sequence[BlockTable], lost: int, symbolizer: Symbolizer) -> Iterator[str]:
    """Yield all lines of the report, without line ends."""
    yield from ("#", f"# Total Lost Samples: {lost}", "#")
    sources = SourceTexts(symbolizer)
    for table in tables:
        if not table.branches:
            continue
        yield f"# Samples: {short_number(table.branches)} of event '{table.event.name}'"
        yield f"# Event count (approx.): {table.branches}"
        yield "#"
        yield "# " + "  ".join(f"{name:>{width}}" for name, width in _COLUMNS)
        yield "# " + "  ".join("." * width for _, width in _COLUMNS)
        yield "#"
        for block in table.blocks:
            yield "  " + "  ".join(
                f"{text:>{width}}" for text, (_, width) in zip(_cells(table, block, sources, symbolizer), _COLUMNS, strict=True)
            )
    yield from ("#", f"# ({tip()})", "#")


def _cells(table: BlockTable, block: Block, sources: SourceTexts, symbolizer: Symbolizer) -> tuple[str, ...]:
    return (
        f"{100 * block.cycles / table.cycles:.2f}%",
        _number(block.cycles),
        f"{100 * block.mean / table.means:.2f}%",
        _number(block.mean),
        _range(block, sources),
        symbolizer.dsos[symbolizer.symbols.dso(block.symbol)].short_name,
    )


def _range(block: Block, sources: SourceTexts) -> str:
    lines = sources.lines(np.array([block.first, block.last]))
    if any(line == "??:0" for line in lines):
        return f"[{block.start:7x} -> {block.end:7x}]"
    return f"[{lines[0]} -> {lines[1]}]"


def _number(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    return f"{count / 1000:.1f}K" if count >= 1000 else str(count)
