"""Copy ring buffers to the files of their CPUs in threads (record --threads).

Each thread waits for its own ring buffers, on the CPUs of its mask. The GIL is only held between system calls: copying and
waiting, which take the time, run on all CPUs at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING, Final

from perfpy.capture.output.attention import FIRST_PATIENCE
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfpy.capture.output.draining import Held
    from perfpy.capture.output.moved_text_watch import MovedTextWatch
    from perfpy.capture.output.ring_files import RingFile, RingFilesOutput
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.capture.thread_masks import ThreadMask
    from perfpy.kernel.ring import Ring

_WORTH_ANOTHER_PASS: Final = 1 << 16  # bytes
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class ThreadedDrain:
    """Reads the ring buffers of some counters, as a Drain does.

    Args:
        masks: one for each thread.
        flush: bytes that a ring buffer must have before it is written.
        patience: seconds after which a ring buffer is written however little it has; None for never.
        new_watch: makes the object that finds text that processes move, one for each thread.

    Attributes:
        tids: of the threads.
        watch: None, as each thread has its own.
        inspect: called with the contents of each ring buffer, if set.
    """

    def __init__(
        self,
        counters: SampleCounters,
        output: RingFilesOutput,
        masks: Sequence[ThreadMask],
        *,
        flush: int = 1,
        patience: float | None = None,
        new_watch: Callable[[], MovedTextWatch],
    ) -> None:
        self._counters = counters
        self._output = output
        self.inspect: Callable[[Held], None] | None = None
        self.watch: MovedTextWatch | None = None
        home = {one.ring: one.target.cpu for one in counters.opened}
        cpus = sorted(set(home.values()))
        output.open_files(len(cpus))
        files = dict(zip(cpus, output.files, strict=True))
        read = [(ring, home[index], fd) for index, (ring, fd) in enumerate(zip(counters.rings, counters.ring_fds(), strict=True))]
        # As in perf, CPUs without a thread are not recorded.
        shares = [[(ring, files[cpu], fd) for ring, cpu, fd in read if cpu in mask.rings] for mask in masks]
        self._rings = [(ring, file) for share in shares for ring, file, _ in share]
        self._stop, self._stopping = os.pipe2(os.O_CLOEXEC)
        self._threads = [
            _Thread(self, mask.runs_on, share, self._stop, flush, patience, new_watch()) for mask, share in zip(masks, shares, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        self.tids = tuple(thread.native_id for thread in self._threads if thread.native_id)

    def forward(self) -> int:
        """No-op: the threads do it."""
        return 0

    def take(self, rings: Iterable[tuple[Ring, Held, RingFile]], least: int, watch: MovedTextWatch | None = None) -> int:
        """Write the ring buffers that have at least this many bytes."""
        total = 0
        for ring, held, file in rings:
            size = sum(map(len, held))
            if size < least:
                continue
            if inspect := self.inspect:
                inspect(held)
            file.write(held)
            if watch:
                watch.look(held)
                file.write([memoryview(record) for record in watch.take()])
            file.end_round()
            ring.consume()
            total += size
        return total

    def fail(self, failure: OutputFailedError) -> None:
        """Report a failure; called by a thread."""
        self._output.notices.tell(failure)

    def pass_ended(self) -> None:
        """Report the end of a pass; called by a thread."""
        self._output.pass_ended()

    def rest(self) -> int:
        """End the threads, and write the current contents of the forward ring buffers, however little."""
        self.close()
        self._output.notices.take()
        return self.take([(ring, ring.pending(), file) for ring, file in self._rings if not ring.backward], 1)

    def backward(self) -> int:
        """Write a snapshot of the backward ring buffers, if there are any."""
        backward = [(ring, file) for ring, file in self._rings if ring.backward]
        if not backward:
            return 0
        self._counters.pause(True)
        try:
            return self.take([(ring, ring.pending(), file) for ring, file in backward], 1)
        finally:
            self._counters.pause(False)

    def close(self) -> None:
        """End the threads; calling it twice is harmless."""
        if self._stopping < 0:
            return
        os.close(self._stopping)
        self._stopping = -1
        for thread in self._threads:
            thread.join()
        os.close(self._stop)


class _Thread(threading.Thread):
    """A thread that reads its ring buffers until the other end of `stop` is closed."""

    def __init__(
        self,
        drain: ThreadedDrain,
        runs_on: frozenset[int],
        rings: Sequence[tuple[Ring, RingFile, int]],
        stop: int,
        flush: int,
        patience: float | None,
        watch: MovedTextWatch,
    ) -> None:
        super().__init__(name="perfpy-rings", daemon=True)
        self._drain = drain
        self._runs_on = runs_on
        self._rings = [(ring, file) for ring, file, _ in rings if not ring.backward]
        self._stop_fd = stop
        self._flush = flush
        self._patience = None if patience is None else patience * 1000
        self._wait = None if patience is None else FIRST_PATIENCE * 1000
        self._watch = watch
        self._poller = select.poll()
        for fd in (stop, *(fd for ring, _, fd in rings if not ring.backward)):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Run until stopped or failed."""
        with contextlib.suppress(OSError):  # the CPU is offline or not permitted; the thread stays where it is
            os.sched_setaffinity(0, self._runs_on)
        try:
            size = 0
            while self._goes_on(wait=size < _WORTH_ANOTHER_PASS):
                size = self._drain.take(((ring, ring.pending(), file) for ring, file in self._rings), self._flush, self._watch)
                if size:
                    self._drain.pass_ended()
        except OutputFailedError as failure:
            self._drain.fail(failure)

    def _goes_on(self, *, wait: bool) -> bool:
        ready = self._poller.poll(self._wait if wait else 0)
        if self._wait and self._patience:
            self._wait = min(2 * self._wait, self._patience)
        for fd, events in ready:
            if fd == self._stop_fd:
                return False
            if events & _GONE:
                self._poller.unregister(fd)
        return True
