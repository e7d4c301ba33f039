"""Names of code that JVMs have compiled, for a live view: their perf maps are requested while they run (`top --jit`).

Other runtimes write their perf maps themselves, if they were started for it, and the view reads what was added
(perfpy.symbols.loader). A JVM writes its map on request only, so a new one is requested when samples hit code without a name.
The requests run in a thread of their own: a JVM may need seconds for its answer, or never give one.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.capture.runtimes.attaching import ask, lacks, runtime_of_process
from perfpy.capture.runtimes.java_attach import is_java
from perfpy.capture.runtimes.table import PYTHON
from perfpy.symbols.dso import DsoKind, perf_map_pid
from perfpy.untrusted import paths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from perfpy.live.symbolizing import LiveSymbols
    from perfpy.symbols.symbolizer import Symbolizer

_PAUSE: Final = 1.0  # seconds between two maps of one process: writing one takes the JVM some hundredths of a second
_MOST_PROCESSES: Final = 256


class LiveJitNames:
    """Requests perf maps of JVMs. One thread uses it.

    Args:
        pids: the processes that may be asked; empty: all that samples hit.
    """

    def __init__(self, pids: Collection[int] = ()) -> None:
        self._pids = frozenset(pids)
        self._requests: SimpleQueue[int | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, list[str]]] = SimpleQueue()
        self._due: dict[int, float] = {}  # pid -> when its next map may be requested; infinity: never
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._run, name="perfpy perf maps", daemon=True)
        self._is_running = False

    def begin(self, *, with_callers: bool) -> Iterator[str]:
        """Request the maps of the given processes; yield a line for each process whose names will be missing.

        with_callers: whether the view has callchains.
        """
        for pid in sorted(self._pids):
            if is_java(pid):
                self._request(pid)
            if runtime_of_process(pid) is PYTHON:
                yield f"process {pid} is Python; top --python shows its functions"
            elif hint := lacks(pid, unwinds=not with_callers):
                yield hint

    def prepare(self, symbols: LiveSymbols) -> None:
        """Let the symbols be read again from maps that were written since the last call."""
        while not self._answers.empty():
            pid, failures = self._answers.get()
            self._failures += failures
            self._due[pid] = float("inf") if failures else time.monotonic() + _PAUSE
            if not failures:
                symbols.forget({paths.perf_map(pid)})

    def see(self, symbolizer: Symbolizer) -> None:
        """Request the maps of JVMs whose code has frames without a name."""
        frames = symbolizer.frames
        for number in np.unique(frames.dso[frames.symbol < 0]).tolist():
            dso = symbolizer.dsos[number]
            pid = perf_map_pid(dso.name) if number >= 0 and dso.kind is DsoKind.JIT else None
            if pid is not None and pid in (self._pids or (pid,)) and (pid in self._due or is_java(pid)):
                self._request(pid)

    def failures(self) -> list[str]:
        """Return a line for each process that gave no map, once."""
        failures, self._failures = self._failures, []
        return failures

    def close(self) -> None:
        """End the thread, but do not wait for the answer of a JVM."""
        self._requests.put(None)

    def _request(self, pid: int) -> None:
        if time.monotonic() < self._due.get(pid, 0):
            return
        if len(self._due) >= _MOST_PROCESSES and pid not in self._due:
            self._due.clear()
        self._due[pid] = float("inf")  # until it answers
        if not self._is_running:
            self._thread.start()
            self._is_running = True
        self._requests.put(pid)

    def _run(self) -> None:
        while (pid := self._requests.get()) is not None:
            self._answers.put((pid, list(_failures_of(ask([pid])))))


def _failures_of(answers: Iterable[str]) -> Iterator[str]:
    """Yield the failures of a request, whatever its cause."""
    try:
        yield from answers
    except Exception as error:  # noqa: BLE001  # the view shows addresses instead of names
        yield f"cannot get a perf map: {error}"
