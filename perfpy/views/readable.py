"""Names of functions as people read them, where a runtime has packed more than the name into them.

What enters: a symbol's name. What leaves: text for a terminal, a page, a viewer: `Parser.parse (parser.py)` for CPython's
`py::Parser.parse:/srv/app/parser.py` (docs.python.org, "Python support for the Linux perf profiler"). Text that scripts
parse (--stdio, JSON, folded stacks, script) keeps the names as perf prints them.
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.symbols.demangling.managed_names import without_tier
from perfpy.symbols.demangling.short_names import shortened

#: a function's qualified name, and the file of its code; C++ has namespaces of that name
_PYTHON: Final = re.compile(r"(?:^|(?<=\] ))py::([^:(]+):(?!:)(.+)$")
_PACKAGE: Final = ("__init__.py", "__main__.py")


def readable(name: str) -> str:
    """The name, alone or after a level as in `[.] name`.

    >>> readable("py::Parser.parse:/srv/app/parser.py"), readable("[.] py::loads:/usr/lib/python3.11/json/__init__.py")
    ('Parser.parse (parser.py)', '[.] loads (json/__init__.py)')
    """
    return _PYTHON.sub(lambda match: f"{match[1]} ({_short(match[2])})", name) if "py::" in name else without_tier(name)


def at_a_glance(name: str) -> str:
    """The name as a screen shows it: as people read it, and short where it is C++'s or Rust's.

    >>> at_a_glance("py::Parser.parse:/srv/app/parser.py"), at_a_glance("std::vector<int, std::allocator<int> >::size()")
    ('Parser.parse (parser.py)', 'std::vector<…>::size()')
    """
    known = readable(name)
    return shortened(name) if known == name else known


def source_file(name: str) -> str:
    """The file that a name tells of, "" where it tells of none.

    >>> source_file("py::Parser.parse:/srv/app/parser.py"), source_file("main")
    ('/srv/app/parser.py', '')
    """
    match = _PYTHON.match(name)
    return match[2] if match else ""


def _short(path: str) -> str:
    """The name of the file, with its folder where many files have that name."""
    folder, _, file = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{file}" if file in _PACKAGE and folder else file or path
