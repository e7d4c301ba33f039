"""A progress line on stderr for tasks that take longer than a second; none if stderr is no terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from perfpy.cli.output.terminal import is_screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE: Final = 1.0
_INTERVAL: Final = 0.2


@contextmanager
def progress_line(task: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a function to call with the completed share (0 to 1); None if stderr is no terminal."""
    if not is_screen(sys.stderr):
        yield None
        return
    line = _Line(task)
    try:
        yield line.show
    finally:
        line.wipe()


class _Line:
    def __init__(self, task: str) -> None:
        self._task = task
        self._next = time.monotonic() + _PATIENCE
        self._width = 0

    def show(self, share: float) -> None:
        from perfpy.untrusted.terminal import control

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        text = f"{self._task}: {share:4.0%}"
        self._width = len(text)
        control(sys.stderr, f"\r{text}")
        sys.stderr.flush()

    def wipe(self) -> None:
        from perfpy.untrusted.terminal import control

        if self._width:
            control(sys.stderr, f"\r{' ' * self._width}\r")
            sys.stderr.flush()
