"""The progress of repeated runs, with the remaining time, as one line on stderr; nothing if stderr is no terminal."""

from __future__ import annotations

import sys
import time

from perfpy.cli.output.terminal import is_screen
from perfpy.untrusted.terminal import control

_BAR = 24


class Progress:
    """The progress of one row of runs."""

    def __init__(self) -> None:
        self._visible = is_screen(sys.stderr)
        self._started = time.monotonic()

    def show(self, finished: int, total: int) -> None:
        """Show the number of completed runs."""
        if not self._visible or not total:
            return
        filled = _BAR * finished // total
        text = f"\r[{'=' * filled}{' ' * (_BAR - filled)}] run {min(finished + 1, total)} of {total}"
        if finished:
            remaining = (time.monotonic() - self._started) / finished * (total - finished)
            text += f", {_duration(remaining)} left"
        control(sys.stderr, text + "\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        if self._visible:
            control(sys.stderr, "\r\033[K")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"
