"""The sentences of a verdict, and the words they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.verdict.function_names import name_in_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: the rule whose sentence takes the place of the note on few samples
FEW_SAMPLES: Final = "few samples"
_NUMBERS: Final = "no one two three four five six seven eight nine ten eleven twelve".split()
_LONGEST_IN_MS: Final = 0.0995  # seconds; longer ones would be rounded to 1e+02 ms
_SURELY: Final = 0.995  # larger shares would be rounded to 100 %


class Sentence(NamedTuple):
    """One sentence of a verdict.

    Attributes:
        rule: the name of the rule that made it.
        text: the sentence, with a full stop.
        numbers: the numbers in the sentence, and those that its thresholds were compared with.
        names: the recorded names in the sentence.
    """

    rule: str
    text: str
    numbers: Mapping[str, float]
    names: Mapping[str, str] = {}


def percent(share: float) -> str:
    """Return a share as a whole percentage; only all is 100 %.

    >>> percent(0.973), percent(0.9987), percent(1.0), percent(0.004)
    ('97 %', 'over 99 %', '100 %', '0.4 %')
    """
    if _SURELY <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    """Return a time with two digits that matter.

    >>> seconds(0.934), seconds(12.34), seconds(0.0123), seconds(130), seconds(0.0999)
    ('0.93 s', '12 s', '12 ms', '130 s', '0.1 s')
    """
    return f"{value * 1000:.2g} ms" if value < _LONGEST_IN_MS else f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def number_word(count: int) -> str:
    """Return small numbers as words.

    >>> number_word(8), number_word(1203)
    ('eight', '1,203')
    """
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def function_text(name: str) -> str:
    """Return a function as a sentence names it.

    >>> function_text("checksum(char const*, int)"), function_text("py::Parser.parse:/srv/app.py")
    ('checksum()', 'Parser.parse()')
    >>> function_text("std::vector<int>::size() const"), function_text("py::search.<locals>.<genexpr>:/srv/app.py")
    ('std::vector<int>::size()', 'a generator expression in search()')
    >>> function_text("malloc@@GLIBC_2.2.5"), function_text("JS:*handle file:///srv/app.js:12:34")
    ('malloc()', 'handle()')
    """
    return visible(name_in_sentence(name))


def program_text(name: str) -> str:
    """Return the name of a program or thread in quotation marks: many are words that a sentence has anyway.

    >>> program_text("sleep")
    '"sleep"'
    """
    return f'"{visible(name)}"'


def source(name: str, line: tuple[str, int] | None, file: str = "") -> str:
    """Return where a function is, as a suffix: its line, or else its file.

    >>> source("main", ("/src/prog.cpp", 41)), source("memcpy", None, "libc.so.6"), source("JS:*f file:///srv/app.js:12:34", None)
    (' (prog.cpp:41)', ' (libc.so.6)', ' (function at app.js:12)')
    """
    if line is not None and line[1]:
        return f" ({visible(line[0].rpartition('/')[2])}:{line[1]})"
    text = at_a_glance(name)
    if name.partition(":")[0].isalpha() and "::" not in name and text.endswith(")") and " (" in text:
        return f" (function at {visible(text.rpartition(' (')[2])}" if ":" in text else f" ({visible(text.rpartition(' (')[2])}"
    return f" ({visible(file)})" if file else ""


def beginning(text: str) -> str:
    """Return a text with its first letter as a capital.

    >>> beginning("most of the CPU time"), beginning("CPU time")
    ('Most of the CPU time', 'CPU time')
    """
    return text[:1].upper() + text[1:]


def join_names(names: Sequence[str]) -> str:
    """Join names.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
