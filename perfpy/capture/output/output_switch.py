"""--switch-output: when a recording continues in a new file, and which old files are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfpy.capture.option_values import SwitchOutput


class OutputSwitch:
    """The state for one recording. rule None means never; keep is the limit of files, 0 for all."""

    def __init__(self, rule: SwitchOutput | None, keep: int) -> None:
        self._rule = rule
        self._keep = keep
        self._is_requested = False
        self.files: list[str] = []  # complete files that still exist
        self._next: float | None = None

    def begin(self, start: float) -> None:
        """Start the time between switches, with the measurement."""
        self._next = start + self._rule.seconds if self._rule and self._rule.seconds else None

    def ask(self) -> None:
        """Request a switch, after a signal; ignored without the option."""
        self._is_requested = self._rule is not None

    def due(self, size: int, now: float) -> bool:
        """Return whether to switch now, and reset the request."""
        rule = self._rule
        if rule is None:
            return False
        is_time = self._next is not None and now >= self._next
        if not (self._is_requested or is_time or (rule.size and size >= rule.size)):
            return False
        self._is_requested = False
        if is_time:
            self._next = now + rule.seconds
        return True

    def wait(self, now: float) -> float | None:
        """Return the seconds until a timed switch; None if there is none."""
        return None if self._next is None else max(self._next - now, 0.0)

    def add_file(self, name: str) -> list[str]:
        """Add a complete file; return the oldest beyond the limit, which are to be removed."""
        self.files.append(name)
        surplus = self.files[: -self._keep] if self._keep else []
        del self.files[: len(surplus)]
        return surplus
