"""Format names of functions for people, if a runtime has packed more than the name into them.

`parse (app.js:12)` for V8's
`JS:*parse file:///srv/app.js:12:34`, `Parser.parse (parser.py)` for CPython's `py::Parser.parse:/srv/app/parser.py`
(docs.python.org, "Python support for the Linux perf profiler"). Output for scripts (--stdio, JSON, folded stacks, script)
keeps the names as perf prints them.
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.abi.python_addresses import PYTHON_MARK
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.demangling.short_names import shorten_name

#: a function's qualified name, and the file of its code; C++ may have a namespace py, too
_PYTHON: Final = re.compile(r"(?:^|(?<=\] ))" + PYTHON_MARK + r"([^:(]+):(?!:)(.+)$")
#: V8's names in perf maps: KIND:NAME FILE:LINE:COLUMN, with a mark of the compiler's tier before the name
_V8: Final = re.compile(r"(?:^|(?<=\] ))(?:LazyCompile|Function|JS|Script|Eval):[~^+*]?(\S*) (?:file://)?(\S.*?):(\d+):\d+$")
_PACKAGE: Final = ("__init__.py", "__main__.py", "index.js", "index.mjs", "index.ts")


def readable(name: str) -> str:
    """Return the readable name, alone or after a level as in `[.] name`.

    >>> readable("py::Parser.parse:/srv/app/parser.py"), readable("[.] py::loads:/usr/lib/python3.11/json/__init__.py")
    ('Parser.parse (parser.py)', '[.] loads (json/__init__.py)')
    >>> readable("JS:*parse file:///srv/app.js:12:34"), readable("JS: /srv/app.js:1:1"), readable("JS:^next node:internal/queue:69:14")
    ('parse (app.js:12)', '(anonymous) (app.js:1)', 'next (node:internal/queue:69)')
    """
    if PYTHON_MARK in name:
        return _PYTHON.sub(lambda match: f"{match[1]} ({short_path(match[2])})", name)
    return without_tier(_V8.sub(_script, name)) if ":" in name else name


def at_a_glance(name: str) -> str:
    """Return the name for screens: readable, and shortened if it is C++'s or Rust's.

    >>> at_a_glance("py::Parser.parse:/srv/app/parser.py"), at_a_glance("std::vector<int, std::allocator<int> >::size()")
    ('Parser.parse (parser.py)', 'std::vector<…>::size()')
    """
    readable_name = readable(name)
    return shorten_name(name) if readable_name == name else readable_name


def source_file(name: str) -> str:
    """Return the file in a name, "" for none.

    >>> source_file("py::Parser.parse:/srv/app/parser.py"), source_file("main")
    ('/srv/app/parser.py', '')
    """
    match = _PYTHON.match(name)
    return match[2] if match else ""


def _script(match: re.Match[str]) -> str:
    file = match[2] if match[2].startswith("node:") else short_path(match[2])
    return f"{match[1] or '(anonymous)'} ({file}:{match[3]})"


def short_path(path: str) -> str:
    """Return the name of the file, with its folder for names that many files have."""
    folder, _, file = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{file}" if file in _PACKAGE and folder else file or path
