"""Functions by their names without parameters: `annotate checksum` for checksum(unsigned char const*, int).

What enters: an open recording and the name that was typed. What leaves: the whole names that begin with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.analysis.report.layout import Wanted
from perfpy.analysis.report.options import ReportOptions

if TYPE_CHECKING:
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_LEVEL: Final = re.compile(r"^\[.\] ")
_CLONES: Final = re.compile(r"(?: \[clone [^\]]*\])+$")
_QUALIFIERS: Final = re.compile(r"\)(?: (?:const|volatile|noexcept))*(?: ?&&?)?$")


def functions_named(recording: Recording, name: str, symbols: SymbolOptions, others: SampleFilter) -> list[str]:
    """Return the sampled functions with this name in front of their parameters, the hottest first.

    others: the filters but that for the function.
    """
    options = ReportOptions(wanted=Wanted(sort="symbol"), sample_filter=others)
    report = recording.report(options=options, symbols=symbols)
    rows = [row for histogram in report.histograms for row in histogram.top(len(histogram.order))]
    names = (_LEVEL.sub("", row.texts["symbol"].strip()) for row in sorted(rows, key=lambda row: -row.percent))
    return [full for full in dict.fromkeys(names) if full != name and without_parameters(full) == name]


def without_parameters(name: str) -> str:
    """Return a demangled name up to its parameters; a name without parameters as it is.

    >>> without_parameters("checksum(unsigned char const*, int)"), without_parameters("main")
    ('checksum', 'main')
    >>> without_parameters("Table<int (*)(char)>::operator()(int) const [clone .cold]")
    'Table<int (*)(char)>::operator()'
    """
    text = _CLONES.sub("", name)
    end = _QUALIFIERS.search(text)
    if end is None:
        return name
    depth = 0
    for position in range(end.start(), -1, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if not depth:
            return text[:position] or name
    return name
