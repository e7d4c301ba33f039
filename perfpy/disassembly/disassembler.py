"""Disassemble functions of a recording with the available tool.

The tool for the next function runs while the previous function's lines are processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.disassembly import objdump
from perfpy.disassembly.function_code import FunctionCode, NoCodeError, function_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.disassembly.code_lines import AsmLine
    from perfpy.disassembly.objdump import CodeStyle, Running
    from perfpy.symbols.symbolizer import Symbolizer


class Disassembly:
    """The location of a function's code and its lines."""

    def __init__(self, code: FunctionCode, lines: list[AsmLine]) -> None:
        self.code = code
        self.lines = lines


class Disassembler:
    """A disassembler for the files of one recording."""

    def __init__(self, symbolizer: Symbolizer, style: CodeStyle) -> None:
        self._symbolizer = symbolizer
        self._style = style

    def functions(self, symbols: Iterable[int]) -> Iterator[Disassembly | NoCodeError]:
        """Yield the code of each symbol, or the error that explains why there is none."""
        waiting: tuple[FunctionCode, Running | None] | NoCodeError | None = None
        try:
            for symbol in symbols:
                ahead = self._begin(symbol)
                if waiting is not None:
                    last, waiting = waiting, ahead
                    yield self._finish(last)
                waiting = ahead
            if waiting is not None:
                last, waiting = waiting, None
                yield self._finish(last)
        finally:
            if isinstance(waiting, tuple) and waiting[1] is not None:
                waiting[1].stop()

    def _begin(self, symbol: int) -> tuple[FunctionCode, Running | None] | NoCodeError:
        try:
            code = function_code(self._symbolizer, symbol)
            path = objdump.program(code, self._style)
            return code, (objdump.start(code, self._style, path) if path else None)
        except NoCodeError as reason:
            return reason

    def _finish(self, begun: tuple[FunctionCode, Running | None] | NoCodeError) -> Disassembly | NoCodeError:
        if isinstance(begun, NoCodeError):
            return begun
        code, running = begun
        try:
            return Disassembly(code, running.lines() if running else self._run_capstone(code))
        except NoCodeError as reason:
            if running is None or self._style.program:
                return reason
        try:  # this machine's binutils may support fewer machines than capstone
            return Disassembly(code, self._run_capstone(code))
        except NoCodeError as reason:
            return reason

    def _run_capstone(self, code: FunctionCode) -> list[AsmLine]:
        from perfpy.disassembly.by_capstone import instructions  # most machines have objdump

        return instructions(code, self._style)
