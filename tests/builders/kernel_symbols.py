"""A file with a tenth of this kernel's symbols, for comparisons with perf in which the names of kernel functions are not the point.

perf reads the whole /proc/kallsyms each time it starts, which takes five times as long as everything else that it does with a small
recording. Comparisons of names (versus_perf/test_symbol_names.py and others) use all symbols.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SHARE: Final = 10
#: where the kernel begins and ends, and what options of tests name
_NAMED: Final = re.compile(r" (?:_[se]?text|_[se]inittext|do_syscall_64|entry_SYSCALL\w*)$")


def few_symbols(folder: Path) -> tuple[str, ...]:
    """Write such a file into the folder; return the options that make perf and perfpy read it (none if the kernel hides its addresses)."""
    path = folder / "few.kallsyms"
    if not path.exists():
        lines = Path("/proc/kallsyms").read_text(encoding="ascii", errors="replace").splitlines()
        if all(line.startswith("0000000000000000 ") for line in lines):
            return ()
        kept = (line for number, line in enumerate(lines) if not number % _SHARE or _NAMED.search(line))
        path.write_text("\n".join(kept) + "\n", encoding="ascii", errors="replace")
    return "--kallsyms", str(path)
