"""Tracepoints in tracefs: systems, events, ids and formats.

An existing but unreadable folder raises KernelRefusedError; a missing tracepoint does not. Layout: Documentation/trace/events.rst.
"""

from __future__ import annotations

import os
from errno import EACCES, ENOENT

from perfpy.abi.light_types import cached_property
from perfpy.errors import KernelRefusedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

#: the mount points of tracefs, the preferred one first
MOUNT_POINTS: Final = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


#: the mount points that this process mounted
mounted_here: Final[list[str]] = []


def mount_as_root(path: str) -> None:
    """Mount tracefs if this process is root's, as perf does. Raises OSError."""
    if os.geteuid():
        return
    import ctypes  # few machines need it

    if ctypes.CDLL(None, use_errno=True).mount(b"nodev", os.fsencode(path), b"tracefs", 0, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    mounted_here.append(path)


class Tracefs:
    """The tracepoints of one machine.

    Args:
        mount_points: paths to try; the first with events/ is used
        mount: called with the first path if tracefs is not mounted, as on a machine that has just started
    """

    def __init__(self, mount_points: Sequence[str] = MOUNT_POINTS, mount: Callable[[str], None] | None = None) -> None:
        self.mount_points = tuple(mount_points)
        self._mount = mount

    @cached_property
    def root(self) -> str:
        """The mount point of tracefs. Raises KernelRefusedError if it is not mounted or may not be entered."""
        refused = None
        for path in self.mount_points:
            try:
                os.stat(f"{path}/events")
                return path
            except PermissionError:
                refused = refused or path
            except OSError:
                continue
        if refused:
            raise _no_permission(refused)
        if self._mounts():
            return self.mount_points[0]
        raise KernelRefusedError(
            "tracefs",
            ENOENT,
            cause="tracefs is not mounted, so no tracepoint can be found",
            remedy=f"mount -t tracefs nodev {self.mount_points[0]}",
        )

    def _mounts(self) -> bool:
        """Mount tracefs if possible, and return whether it is mounted now."""
        if self._mount is None or not os.path.isdir(self.mount_points[0]):
            return False
        try:
            self._mount(self.mount_points[0])
        except OSError:  # a container lacks the permission
            return False
        return os.path.isdir(f"{self.mount_points[0]}/events")

    @cached_property
    def systems(self) -> list[str]:
        """The systems (sched, block, syscalls ...) in the kernel's order. Raises KernelRefusedError."""
        return self._folders(f"{self.root}/events")

    def events(self, system: str) -> list[str]:
        """Return a system's tracepoints in the kernel's order; [] for an unknown system. Raises KernelRefusedError."""
        try:
            return self._folders(f"{self.root}/events/{system}")
        except FileNotFoundError:
            return []

    def event_id(self, system: str, event: str) -> int | None:
        """Return the tracepoint's id (attr.config); None for an unknown tracepoint. Raises KernelRefusedError."""
        text = self._read(f"{self.root}/events/{system}/{event}/id")
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def format(self, system: str, event: str) -> str | None:
        """Return the text of the tracepoint's format file; None for an unknown tracepoint. Raises KernelRefusedError."""
        return self._read(f"{self.root}/events/{system}/{event}/format")

    def _read(self, path: str) -> str | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # perfpy list reads thousands, and open() would take 3 times as long
        except PermissionError:
            raise _no_permission(path) from None
        except OSError:
            return None
        try:
            text = b""
            while piece := os.read(descriptor, 1 << 16):
                text += piece
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return text.decode("utf-8", "replace")

    def _folders(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except PermissionError:
            raise _no_permission(path) from None


def _no_permission(path: str) -> KernelRefusedError:
    return KernelRefusedError(
        "tracefs",
        EACCES,
        cause=f"no permission to read {path}",
        remedy="run as root, or let your group read tracefs: mount -o remount,mode=755,gid=GROUP " + MOUNT_POINTS[0],
    )
