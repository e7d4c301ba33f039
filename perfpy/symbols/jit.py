"""/tmp/perf-PID.map, in which interpreters and JIT compilers name the code that they made.

What enters: the text, lines of `START SIZE NAME` (hexadecimal, without 0x;
tools/perf/Documentation/jit-interface.txt). What leaves: a SymbolTable by
address. Code that was thrown away and made anew is in the file more than once;
the last line wins.
"""

from __future__ import annotations

import re

import numpy as np

from perfpy.symbols.symbol_table import Symbols, SymbolTable, named

_LINE = re.compile(rb"(?:0x)?([0-9a-fA-F]+)[ \t]+(?:0x)?([0-9a-fA-F]+)[ \t]([^\n]+)$", re.MULTILINE)


def load(path: str) -> SymbolTable:
    """The symbols of a perf map; OSError where it cannot be read."""
    with open(path, "rb") as file:
        return SymbolTable(parse(file.read()))


def parse(text: bytes) -> Symbols:
    """The symbols of a perf map's text, sorted; of several with one start, the last."""
    lines = _LINE.findall(text)
    start = np.array([int(line[0], 16) for line in lines], np.uint64)
    end = start + np.array([int(line[1], 16) for line in lines], np.uint64)
    symbols = named(start, end, [line[2] for line in lines])
    order = np.argsort(start, kind="stable")
    last = np.append(start[order][1:] != start[order][:-1], True) if len(order) else order
    return symbols.pick(order[last])
