"""--switch-output: when a recording goes on in a new file, and which old files are kept.

What enters: the option's value, the size of the current file, the time. What
leaves: whether to switch now; files beyond the number to keep are removed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfpy.capture.option_values import SwitchOutput


class OutputSwitch:
    """Decides about one recording. rule: None = never; keep: files at most, 0 = all."""

    def __init__(self, rule: SwitchOutput | None, keep: int) -> None:
        self._rule = rule
        self._keep = keep
        self._asked = False
        self.files: list[str] = []  # that are complete, and still there
        self._next: float | None = None

    def begin(self, start: float) -> None:
        """The measurement starts, and with it the time between switches."""
        self._next = start + self._rule.seconds if self._rule and self._rule.seconds else None

    def ask(self) -> None:
        """A signal asks for it; without the option it means nothing."""
        self._asked = self._rule is not None

    def due(self, size: int, now: float) -> bool:
        """Whether to switch now; counts as done then."""
        rule = self._rule
        if rule is None:
            return False
        is_time = self._next is not None and now >= self._next
        if not (self._asked or is_time or (rule.size and size >= rule.size)):
            return False
        self._asked = False
        if is_time:
            self._next = now + rule.seconds
        return True

    def wait(self, now: float) -> float | None:
        """Seconds until a switch by the clock; None when there is none."""
        return None if self._next is None else max(self._next - now, 0.0)

    def finished(self, name: str) -> None:
        """A file is complete: remove the oldest beyond the number to keep."""
        self.files.append(name)
        while self._keep and len(self.files) > self._keep:
            with contextlib.suppress(OSError):
                os.unlink(self.files.pop(0))
