"""Format names of functions for people, if a runtime has packed more than the name into them.

`parse (app.js:12)` for V8's
`JS:*parse file:///srv/app.js:12:34`, `Parser.parse (parser.py)` for CPython's `py::Parser.parse:/srv/app/parser.py`
(docs.python.org, "Python support for the Linux perf profiler"). Output for scripts (--stdio, JSON, folded stacks, script)
keeps the names as perf prints them.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.perfpy_encodings import BUILT_IN, BUILT_IN_BY_CALL, PYTHON_MARK
from perfpy.analysis.callchains import whole_chains_of
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.demangling.short_names import shorten_name
from perfpy.untrusted.text import one_line_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.symbols.symbolizer import Symbolizer


_PRECISE_CLOCK: Final = re.compile(r"^((?:task|cpu)-clock):p+(\w*)$")
#: a function's qualified name, and the file of its code; C++ may have a namespace py, too
_PYTHON: Final = re.compile(r"(?:^|(?<=\] ))" + PYTHON_MARK + r"([^:(]+):(?!:)(.+)$")
#: V8's names in perf maps: KIND:NAME FILE:LINE:COLUMN, with a mark of the compiler's tier before the name
_V8: Final = re.compile(r"(?:^|(?<=\] ))(?:LazyCompile|Function|JS|Script|Eval):[~^+*]?(\S*) (?:file://)?(\S.*?):(\d+):\d+$")
_PACKAGE: Final = ("__init__.py", "__main__.py", "index.js", "index.mjs", "index.ts")


def readable(name: str) -> str:
    """Return the readable name, alone or after a level as in `[.] name`.

    >>> readable("py::Parser.parse:/srv/app/parser.py"), readable("[.] py::loads:/usr/lib/python3.11/json/__init__.py")
    ('Parser.parse (parser.py)', '[.] loads (json/__init__.py)')
    >>> readable("py::str.join:<built-in>"), readable("py::add:<built-in, by its call>")
    ('str.join (built-in)', 'add (built-in, by its call)')
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


def event_name(name: str) -> str:
    """Return an event's name for people: the modifier of precision means nothing for a clock.

    >>> event_name("task-clock:ppp"), event_name("cpu-clock:pppu"), event_name("cycles:ppp")
    ('task-clock', 'cpu-clock:u', 'cycles:ppp')
    """
    return _PRECISE_CLOCK.sub(lambda match: match[1] + (f":{match[2]}" if match[2] else ""), name)


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
    """Return the name of the file, with its folder for names that many files have; of C functions how their name is known."""
    if path in (BUILT_IN, BUILT_IN_BY_CALL):
        return path[1:-1]
    folder, _, file = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{file}" if file in _PACKAGE and folder else file or path


# Callchains of switches on one line: `schedule_timeout <- wait_for_completion`, as `sched timehist` prints them.
#
# perf does not resolve frames of user space there, because it ignores their mappings; neither does this text.


#: functions of the scheduler at the top of each switch, which perf hides
HIDDEN: Final = frozenset((b"schedule", b"__schedule", b"preempt_schedule"))
_HIDDEN_MOST: Final = 2  # of them are read beyond the limit of frames
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")


_IN_DOUBLE_QUOTES: Final = re.compile(r"([\\\"$`])")


def command_text(words: Iterable[str]) -> str:
    r"""Return a command as a shell reads it, with few quotes.

    >>> print(command_text(["sh", "-c", "echo 'a b'"]), command_text(["echo", "$HOME"]), command_text(["it's $1"]))
    sh -c "echo 'a b'" echo '$HOME' "it's \$1"
    """
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Return a word in single quotes, or in double ones if it has single ones, and no "!", which interactive shells read in them."""
    if "'" not in word or "!" in word:
        return shlex.quote(word)
    return '"' + _IN_DOUBLE_QUOTES.sub(r"\\\1", word) + '"'


def chain_texts(
    columns: Columns, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer, max_stack: int, *, is_switch: bool = True
) -> list[bytes]:
    """Return the text of each callchain, with the blanks before it.

    Args:
        columns: with the column callchain, and user_frames of unwound stacks.
        pid, key: of the samples.
        symbolizer: of the recording.
        max_stack: the most frames.
        is_switch: whether to hide the functions of the scheduler.
    """
    width = max_stack + (_HIDDEN_MOST if is_switch else 0)
    frames, counts = whole_chains_of(columns, pid, key, symbolizer, width)
    symbolizer.resolve()
    hidden = HIDDEN if is_switch else frozenset()
    starts = np.cumsum(counts) - counts
    matrix = np.full((len(counts), width), _NONE, np.int32)
    for level in range(width):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = frames[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    texts = [_text([_name(frame, symbolizer) for frame in row if frame != _NONE], hidden) for row in distinct.tolist()]
    return [texts[index] for index in which.ravel().tolist()]


def _text(names: list[bytes], hidden: frozenset[bytes]) -> bytes:
    shown = b" <- ".join(name for name in names if name not in hidden)
    return b"   " + shown if shown else b"  "


def _name(frame: int, symbolizer: Symbolizer) -> bytes:
    symbol = int(symbolizer.frames.symbol[frame])
    is_kernel = int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL
    name = symbolizer.symbols.name(symbol) if symbol >= 0 and is_kernel else "[unknown]"
    return one_line_bytes(name.encode("utf-8", "surrogateescape"))
