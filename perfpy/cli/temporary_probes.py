"""Probes that exist as long as one command: -e uprobe:./app:parse, -e ./app:parse%return.

The probe is added before the measurement and removed after it. Its group ends with the pid of this process, _by1234, so that the next
command that adds probes finds those of killed processes and removes them.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import shutil
import signal
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.terminal import print_notes
from perfpy.errors import KernelRefusedError
from perfpy.events.grammar import names_probe
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.probing.definitions import LONGEST, parse_shown
from perfpy.probing.grammar import parse_request
from perfpy.probing.program import open_program
from perfpy.probing.requests import plan
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.untrusted.pinned_files import pin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from perfpy.cli.line.option_parsing import CommandOptions
    from perfpy.probing.definitions import Definition
    from perfpy.untrusted.pinned_files import PinnedFile

    Options = TypeVar("Options", bound=CommandOptions)


_TEXT: Final = re.compile(r"(?:u?probe:)?(?P<path>[^:\s]+):(?P<point>.+)\Z", re.DOTALL)
_OWNED: Final = re.compile(r"\w+_by(?P<pid>\d+)\Z", re.ASCII)
_TRIES: Final = 40  # the kernel frees a closed event a moment later
_PAUSE: Final = 0.05


class TemporaryProbes:
    """Probes for some -e texts, which exist within a with statement.

    A signal that ends the process, and an exception that interrupts the end of the with statement, remove them as well.

    Attributes:
        texts: the texts with the names of the added events, in their order.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self._events = ProbeEvents(Tracefs(mount=mount_as_root))
        self._added: list[Definition] = []
        self._pid = os.getpid()
        self._owner_fd = -1
        self._signals = EndingSignals(self._remove_at_signal)

    def __enter__(self) -> TemporaryProbes:
        remove_orphans(self._events)
        self._signals.__enter__()
        atexit.register(self._remove_all)
        try:
            self._owner_fd = self._events.open()
            for number, text in enumerate(self.texts):
                if names_probe(text):
                    self.texts[number] = self._add(text)
            return self  # in the try statement: a signal may arrive at the last instruction
        except BaseException:
            self._close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _add(self, text: str) -> str:
        """Add the probe of a text, and return the event's name."""
        match = _TEXT.match(text)
        if match is None:
            fail(f"-e {text}: the form is uprobe:PROGRAM:POINT")
        file = _pinned_program(match["path"], text)
        planned = plan(open_program(file, SymbolOptions(buildid_dir=load_config().build_id_folder)), parse_request(match["point"]))
        print_notes([f"note: {note}" for note in planned.notes])
        definitions = [_owned(definition, os.getpid()) for definition in planned.definitions]
        added_names = {one.event for one in self._added}
        names = {one.event: _free_name(one.event, added_names) for one in definitions}
        for definition in definitions:
            renamed = definition._replace(event=names[definition.event])
            with self._signals.hold():
                self._added.append(renamed)  # first: the kernel may have added the probe and answer otherwise
                self._events.add(renamed.text, planned.file)
        return ",".join(dict.fromkeys(f"{definitions[0].group}:{name}" for name in names.values()))

    def _close(self) -> None:
        with self._signals.hold():
            self._remove_all()
            atexit.unregister(self._remove_all)
            if self._owner_fd >= 0:
                os.close(self._owner_fd)
                self._owner_fd = -1
        self._signals.__exit__(None, None, None)

    def _remove_all(self) -> None:
        if os.getpid() != self._pid:  # a child that exits
            return
        notes = [_remove(self._events, *name) for name in self._names()]
        self._added.clear()
        print_notes(filter(None, notes))

    def _names(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((one.group, one.event) for one in self._added))

    def _remove_at_signal(self, ends: bool) -> None:
        """Remove the probes, as far as no counter of this process uses them. A child removes those when this process has ended.

        ends: whether this process ends at once; otherwise an exception closes the counters.
        """
        remaining = [name for name in self._names() if _remove(self._events, *name, tries=1)]
        self._added = [one for one in self._added if (one.group, one.event) in remaining]
        if not remaining or not ends:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: the child needs none
            if os.fork():
                return
        try:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
            os.setsid()
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the counters, and pipes whose readers wait for their end
            while os.getppid() == self._pid:
                time.sleep(_PAUSE / 10)
            for name in remaining:
                _remove(self._events, *name)
        finally:
            os._exit(0)


def run_with_probes(options: Options, measure: Callable[[Options], int]) -> int:
    """Run a command whose -e options name probes; the probes exist meanwhile."""
    texts = [str(one.value) for one in options.in_order("event") if one.value is not None]
    with TemporaryProbes(texts) as probes:
        return measure(options.replace_texts("event", probes.texts))


def remove_orphans(events: ProbeEvents) -> int:
    """Remove the probes of processes that have ended; return their number. Another process may have got an owner's pid."""
    orphans: dict[str, set[str]] = {}
    for line in events.lines(is_kernel=False):
        probe = parse_shown(line, is_kernel=False)
        if probe and _OWNED.match(probe.group):
            orphans.setdefault(probe.group, set()).add(probe.event)
    notes: list[str] = []
    for group, names in orphans.items():
        owner = _OWNED.match(group)
        if owner and not events.may_own(int(owner["pid"]), group):
            notes += [_remove(events, group, name, tries=1) for name in sorted(names)]
    print_notes(filter(None, notes))
    return len(notes)


def _remove(events: ProbeEvents, group: str, event: str, tries: int = _TRIES) -> str:
    """Remove an event. One that is still in use stays for the next command to remove; return a note about it."""
    for number in range(tries):
        try:
            events.remove(group, event, is_kernel=False)
        except KernelRefusedError as refused:
            if refused.errno == errno.ENOENT:
                return ""
            if refused.errno != errno.EBUSY or number == tries - 1:
                return f"note: {refused}"
            time.sleep(_PAUSE)
        else:
            return ""
    return ""


def _pinned_program(path: str, text: str) -> PinnedFile:
    """Open a program; a name without / is searched in PATH."""
    try:
        return pin(path if "/" in path else shutil.which(path) or path)
    except OSError:
        fail(f"-e {text}: no program {path}")


def _owned(definition: Definition, pid: int) -> Definition:
    """Return the definition with this process's pid in its group."""
    mark = f"_by{pid}"
    return definition._replace(group=definition.group[: LONGEST - len(mark)] + mark)


def _free_name(name: str, used_names: set[str]) -> str:
    number, free = 0, name
    while free in used_names:
        number += 1
        free = f"{name[: LONGEST - 6]}_{number}"
    return free


ENDING: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
)


class EndingSignals:
    """Catches signals that would end the process, in the main thread; a context manager.

    Ctrl-C, SIGTERM and their like end perfpy at once, or raise KeyboardInterrupt at any instruction, also in the first one of a finally
    clause. The handler cleans up and then lets the signal do what it would have done. While a change is under way, as between the kernel's
    answer and the note of it, signals wait.

    A mask (pthread_sigmask) would not do: the kernel gives a process's signal to another thread, and Python runs the handler in the main
    one. Handlers of others stay: who installs one (record, stat, trace) ends what it does by itself. SIGKILL cannot be caught.

    Args:
        clean_up: runs once or more often, never during hold(), and raises nothing; its argument: whether the process ends at once.
    """

    def __init__(self, clean_up: Callable[[bool], object]) -> None:
        self._clean_up = clean_up
        self._pid = os.getpid()
        self._handlers: dict[int, Any] = {}  # the former ones
        self._holds = 0
        self._arrived = 0  # the first signal during hold()

    def __enter__(self) -> EndingSignals:
        with contextlib.suppress(ValueError):  # Only the main thread can set handlers.
            for number in ENDING:
                handler = signal.getsignal(number)
                if handler in (signal.SIG_DFL, signal.default_int_handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Let signals wait within a with statement. They take effect at its end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if self._arrived and not self._holds:
                number, self._arrived = self._arrived, 0
                self._take(number, None)

    def _take(self, number: int, _frame: object) -> None:
        if self._holds:
            self._arrived = self._arrived or number
            return
        handler = self._handlers.get(number, signal.SIG_DFL)
        if os.getpid() == self._pid:  # not a child between fork and exec
            self._holds += 1
            try:
                self._clean_up(not callable(handler))
            finally:
                self._holds -= 1
        self._restore()
        if callable(handler):
            handler(number, None)  # raises KeyboardInterrupt
        else:
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, handler in reversed(self._handlers.items()):  # SIGINT last: it may raise; a signal may begin this once more
            if signal.getsignal(number) == self._take:
                signal.signal(number, handler)
