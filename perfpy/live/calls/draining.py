"""Empty the ring buffers in a thread of its own while the calls are printed, which may take longer than the ring buffers last.

The thread copies only, but it waits for Python's lock while the printing thread waits for a CPU. So if the ring buffers fill up faster than
they are emptied, it raises the priority of the printing thread, too, for some time. The traced tasks run slower then: they have to, or
their calls are lost.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE: Final = 0.02  # seconds between two readings
_SHORT_PAUSE: Final = 0.005  # while calls come in a storm, which fills a small ring buffer in a tenth of a second
_SWITCH: Final = 0.001  # seconds until the printing thread gives Python's lock away
_HIGHEST: Final = -20  # the priority of the thread, if the user may
_STORM: Final = 0.1  # how full ring buffers are
_BUSY: Final = 0.01
_LONG: Final = 1.0  # seconds that the printing thread keeps the priority


class DrainingThread:
    """Reads the ring buffers again and again while it is resumed; a context manager.

    Args:
        read: empties the ring buffers, and returns how full they were, from 0 to 1; called by this thread.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._is_open = True
        self._resumed = threading.Event()
        self._paused = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="perfpy rings", daemon=True)
        self._printer = threading.get_native_id()
        self._usual = os.getpriority(os.PRIO_PROCESS, self._printer)
        self._raised_until = self._fullness = 0.0
        self._switch_interval = sys.getswitchinterval()

    def __enter__(self) -> DrainingThread:
        sys.setswitchinterval(_SWITCH)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_open = False
        self._paused.set()
        self._resumed.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        if self._raised_until:
            _set_priority(self._printer, self._usual)

    def resume(self) -> None:
        """Begin to read."""
        self._paused.clear()
        self._resumed.set()

    def pause(self) -> None:
        """Stop reading, at the latest after the present reading, unless the ring buffers are busy. Raises the error of a reading."""
        if self._fullness < _BUSY:
            self._resumed.clear()
            self._paused.set()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        _set_priority(threading.get_native_id(), _HIGHEST)
        try:
            while self._is_open:
                self._resumed.wait()
                while not self._paused.wait(_SHORT_PAUSE if self._fullness > _STORM else _PAUSE):
                    self._fullness = self._read()
                    self._follow()
        except BaseException as error:  # noqa: BLE001  # the other thread raises it
            self._error = error

    def _follow(self) -> None:
        """Raise the priority of the printing thread if the ring buffers fill up quickly; restore it after some time."""
        now = time.monotonic()
        if self._fullness > _STORM:
            if not self._raised_until:
                _set_priority(self._printer, _HIGHEST)
            self._raised_until = now + _LONG
        elif self._raised_until and now > self._raised_until:
            _set_priority(self._printer, self._usual)
            self._raised_until = 0.0


def _set_priority(thread: int, priority: int) -> None:
    with suppress(OSError):  # only root may raise it
        os.setpriority(os.PRIO_PROCESS, thread, priority)
