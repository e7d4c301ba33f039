"""The kernel's dynamic probes in tracefs: list, add and remove.

Layout: uprobe_events and kprobe_events have a line for each probe; "-:GROUP/EVENT" removes an event. error_log explains refused lines.
Documentation/trace/uprobetracer.rst and kprobetrace.rst.
"""

from __future__ import annotations

import os
import re
from errno import EACCES, EBUSY, EINVAL, ENOENT, EPERM, ESTALE
from typing import TYPE_CHECKING, Final

from perfpy.errors import KernelRefusedError
from perfpy.untrusted.process_files import began

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.kernel.sysfs import Tracefs
    from perfpy.untrusted.pinned_files import PinnedFile

_ERROR: Final = re.compile(r"trace_[uk]?probe: error: (?P<reason>.*)\n  Command: (?P<command>.*)\n")
_LOG_MOST: Final = 1 << 16
_SLACK: Final = 2  # seconds: the kernel tells the time of its start in whole seconds


class ProbeEvents:
    """The dynamic probes of one machine. Raises KernelRefusedError if tracefs is missing or may not be used."""

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs

    def lines(self, *, is_kernel: bool) -> list[str]:
        """Return the definitions of all probes in programs or in the kernel; [] if this kernel has none of that kind."""
        path = self._path(is_kernel=is_kernel)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused("list probes", path, error, "") from None

    def open(self) -> int:
        """Open the list of probes in programs, and return the descriptor. It marks this process as the owner of temporary probes."""
        path = self._path(is_kernel=False)
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise self._refused("add probes", path, error, "") from None

    def add(self, definition: str, file: PinnedFile | None) -> None:
        """Add a probe.

        Args:
            definition: a line of the kernel's list.
            file: the program that the definition names, which is the one that the kernel probes; None for a probe in the kernel.
        """
        self._write(definition, is_kernel=file is None, purpose=f"add the probe '{definition.split(' ', 1)[0]}'", file=file)

    def remove(self, group: str, event: str, *, is_kernel: bool) -> None:
        """Remove all probes of an event."""
        self._write(f"-:{group}/{event}", is_kernel=is_kernel, purpose=f"remove the probe '{group}:{event}'")

    def may_own(self, pid: int, group: str) -> bool:
        """Whether a process may have added a group of probes: it began before the group, or has the list of probes in programs open.

        Otherwise it has got the pid of the process that did. A clock that is set meanwhile changes its age, but not what it has open.
        """
        start = began(pid)
        if start is None:
            return os.path.exists(f"/proc/{pid}")
        try:
            is_younger = start > os.stat(f"{self._tracefs.root}/events/{group}").st_mtime + _SLACK
        except OSError:
            return True
        return not is_younger or self._is_open_in(pid)

    def _is_open_in(self, pid: int) -> bool:
        """Whether a process has the list of probes in programs open; also True if its descriptors cannot be read."""
        folder = f"/proc/{pid}/fd"
        try:
            state = os.stat(self._path(is_kernel=False))
            numbers = os.listdir(folder)
        except (FileNotFoundError, ProcessLookupError):
            return False
        except OSError:
            return True
        for number in numbers:
            try:
                if os.path.samestat(os.stat(f"{folder}/{number}"), state):
                    return True
            except OSError:  # closed meanwhile
                continue
        return False

    def has_kind(self, *, is_kernel: bool) -> bool:
        """Whether this kernel has probes in programs, or in itself."""
        return os.path.exists(self._path(is_kernel=is_kernel))

    def misses(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many hits of each event uprobe_profile counts, by GROUP... event name, as far as the file has them."""
        wanted_names, hits = set(names), dict[str, int]()
        try:
            with open(f"{self._tracefs.root}/uprobe_profile", encoding="utf-8", errors="surrogateescape") as file:
                rows = [line.split() for line in file]
        except OSError:
            return {}
        for row in rows:
            if len(row) >= 3 and row[-2] in wanted_names and row[-1].isdigit():
                hits[row[-2]] = hits.get(row[-2], 0) + int(row[-1])
        return hits

    def _path(self, *, is_kernel: bool) -> str:
        return f"{self._tracefs.root}/{'kprobe' if is_kernel else 'uprobe'}_events"

    def _write(self, text: str, *, is_kernel: bool, purpose: str, file: PinnedFile | None = None) -> None:
        path = self._path(is_kernel=is_kernel)
        if "\n" in text or "#" in text:
            raise KernelRefusedError(f"cannot {purpose}: tracefs", EINVAL, cause="more than one line, or a comment", remedy="")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            line = os.fsencode(text) + b"\n"
            try:
                if file is None:
                    os.write(descriptor, line)
                else:
                    from perfpy.untrusted.pinned_files import run_with_path  # removing probes needs none

                    run_with_path(file, self._tracefs.root, lambda: os.write(descriptor, line))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refused(purpose, path, error, text) from None

    def _refused(self, purpose: str, path: str, error: OSError, text: str) -> KernelRefusedError:
        code = error.errno or EINVAL
        cause, remedy = os.strerror(code), ""
        if code == ENOENT and not os.path.exists(path):
            kind = "KPROBE" if path.endswith("kprobe_events") else "UPROBE"
            cause, remedy = f"this kernel has no {os.path.basename(path)}", f"it needs CONFIG_{kind}_EVENTS"
        elif code in (EACCES, EPERM):
            cause, remedy = f"no permission to write {path}", "run as root"
        elif code == ESTALE:
            cause, remedy = error.strerror or cause, "run it outside of the container, or copy the program into a folder of root's"
        elif code == EBUSY:
            cause, remedy = "the event is in use", "end the recordings that have it"
        elif code == EINVAL:
            cause = self._reason(text) or cause
        return KernelRefusedError(f"cannot {purpose}: tracefs", code, cause=cause, remedy=remedy)

    def _reason(self, text: str) -> str:
        """Return the kernel's reason for refusing a line, "" if it has none."""
        try:
            with open(f"{self._tracefs.root}/error_log", encoding="utf-8", errors="surrogateescape") as file:
                log = file.read(_LOG_MOST)
        except OSError:
            return ""
        reasons = [match["reason"] for match in _ERROR.finditer(log) if match["command"].strip() == text]
        return f"the kernel's reason is: {reasons[-1]}" if reasons else ""
