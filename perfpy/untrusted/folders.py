"""Folders of our own, to write to.

A Folder is created (0700) if it is missing. Raises OSError if others could replace it or put links into it: it has another owner, or
others may write to it or to a folder above it. Inside a Folder, no symbolic link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from perfpy.untrusted.destinations import FileDestination

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE: Final = 0o700
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class ForeignFolderError(PermissionError):
    """A folder of another user, or one into which others may write."""


class Folder:
    """An open folder. Close it, or use it in a with statement."""

    def __init__(self, fd: int, path: str, *, is_private: bool = True) -> None:
        self.fd = fd
        self.path = path  # for messages
        self.is_private = is_private  # only we may read and write in it

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; a second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def inner(self, *names: str, make: bool = True) -> Folder:
        """Open a folder inside, one name for each level. The names come from untrusted.files."""
        held, path = os.dup(self.fd), self.path
        for name in names:
            path = f"{path}/{name}"
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, _MODE if self.is_private else 0o777, dir_fd=held)
                fd = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=held)
            finally:
                os.close(held)
            held = fd
            if self.is_private:
                _require_ours(fd, path)
        return Folder(held, path, is_private=self.is_private)

    def create(self, name: str) -> int:
        """Create a file, and open it for reading and writing; in a private folder only we can read it. Raises FileExistsError."""
        mode = 0o600 if self.is_private else 0o666
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.fd)

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file under a new name, and rename it when it is complete; an existing file is replaced. Raises OSError."""
        unfinished = f"new-{os.urandom(8).hex()}"
        try:
            with open(self.create(unfinished), "wb") as file:
                file.writelines(pieces)
            os.replace(unfinished, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=self.fd)
            raise

    def has(self, name: str) -> bool:
        """Whether an entry with a name exists."""
        with contextlib.suppress(OSError):
            os.lstat(name, dir_fd=self.fd)
            return True
        return False


def own(path: str, *, make: bool = True) -> Folder:
    """Open the current user's folder at a path that the user chose; links in the path are the user's own. Raises OSError.

    Args:
        path: of the folder.
        make: create the folder and missing parents, unless the path is unsafe.
    """
    _require_safe_names(path)
    _require_safe_way(os.path.realpath(path))
    existing, missing = path.rstrip("/") or "/", list[str]()
    while make and not os.path.isdir(existing or "."):
        existing, _, name = existing.rpartition("/")
        missing.insert(0, name)
        existing = existing.rstrip("/") or ("/" if path.startswith("/") else "")
    fd = os.open(existing or ".", _FLAGS)
    if missing:
        with Folder(fd, existing) as folder:
            return folder.inner(*missing)
    try:
        _require_ours(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return Folder(fd, path)


def new_folder(destination: FileDestination) -> Folder:
    """Create a folder that an option names. Raises OSError, also if the name has been taken meanwhile."""
    os.mkdir(destination.name, _MODE, dir_fd=destination.folder)
    folder = Folder(os.open(destination.name, _FLAGS | os.O_NOFOLLOW, dir_fd=destination.folder), destination.path)
    try:
        _require_ours(folder.fd, destination.path)
        if os.listdir(folder.fd):
            raise ForeignFolderError(errno.ENOTEMPTY, "another folder has its name", destination.path)
    except BaseException:
        folder.close()
        raise
    return folder


def shared_folder(path: str) -> Folder:
    """Open a folder that an option names, of any owner; create it and missing parents. Raises OSError.

    Its methods follow no links. The folder may be a link of root or the current user.
    """
    from perfpy.untrusted.destinations import FileDestination  # few folders are shared

    whole = path.rstrip("/") or "/"
    if os.path.basename(whole) in ("", ".", ".."):
        return Folder(os.open(whole, _FLAGS), path, is_private=False)
    try:
        destination = FileDestination(whole)
    except FileNotFoundError:  # the folder above
        shared_folder(os.path.dirname(whole)).close()
        destination = FileDestination(whole)
    with destination:
        if destination.state is None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(destination.name, dir_fd=destination.folder)
        return Folder(os.open(destination.name, _FLAGS | os.O_NOFOLLOW, dir_fd=destination.folder), path, is_private=False)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """Yield the path of a new folder in the temporary folder; remove it at the end, and also those that killed processes have left.

    A lock on the folder shows that its process, or another one that completes its files, still runs.

    Args:
        prefix: of the name; the same for all folders of one purpose.
    """
    import fcntl  # few commands need a temporary folder
    import shutil
    import tempfile

    _remove_left_folders(tempfile.gettempdir(), prefix)
    while True:
        path = tempfile.mkdtemp(prefix=prefix)
        fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:  # else another process found it before it was locked
            break
        os.close(fd)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def _remove_left_folders(top: str, prefix: str) -> None:
    """Remove our folders that no process has locked, and the files in them."""
    import fcntl

    with contextlib.suppress(OSError):
        for path in [os.path.join(top, name) for name in os.listdir(top) if name.startswith(prefix)]:
            with contextlib.suppress(OSError), Folder(os.open(path, _FLAGS | os.O_NOFOLLOW), path) as folder:
                _require_ours(folder.fd, path)
                fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in os.listdir(folder.fd):
                    os.unlink(name, dir_fd=folder.fd)
                os.rmdir(path)


def require_own(path: str) -> None:
    """Create a folder if it is missing. Raises OSError unless only the current user controls it."""
    with own(path):
        pass


def trusted_program(path: str) -> str:
    """Return the real path of a program that only root and the current user can replace, including its folders. Raises OSError.

    A folder like /tmp is not safe enough, although others cannot rename our programs there: interpreters search libraries in the folders
    above themselves.
    """
    real = os.path.realpath(path)
    trusted = {0, os.geteuid(), os.stat("/").st_uid}
    inner = real
    while True:
        state = os.stat(inner)
        if state.st_uid not in trusted:
            raise ForeignFolderError(errno.EACCES, f"{inner} belongs to user {state.st_uid}", path)
        if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and state.st_gid not in {0, os.getegid()}):
            raise ForeignFolderError(errno.EACCES, f"others may write to {inner}", path)
        if inner == "/":
            return real
        inner = os.path.dirname(inner)


def _require_ours(fd: int, path: str) -> None:
    state = os.fstat(fd)
    if state.st_uid != os.geteuid():
        raise ForeignFolderError(errno.EACCES, f"belongs to user {state.st_uid}", path)
    group_is_ours = state.st_gid == os.getegid() == os.geteuid()  # a private group, as distributions create for each user
    if state.st_mode & (stat.S_IWOTH if group_is_ours else _OTHERS):
        raise ForeignFolderError(errno.EACCES, "others may write in it (chmod go-w)", path)


def _require_safe_names(path: str) -> None:
    """Require that no folder or link in the path belongs to others, who could replace it.

    Folders above the home are not checked, as in sshd: control over the home is worth more than a cache.
    """
    whole, home = os.path.abspath(path), os.path.abspath(os.environ.get("HOME") or "/")
    name = home if whole.startswith(home.rstrip("/") + "/") else "/"
    for part in whole[len(name.rstrip("/")) :].split("/"):
        name = f"{name.rstrip('/')}/{part}" if part else name
        try:
            state = os.lstat(name)
        except FileNotFoundError:
            return
        if name != whole or stat.S_ISLNK(state.st_mode):
            _require_safe(state, name)


def _require_safe_way(path: str) -> None:
    """Require that only root and the current user can rename a folder of the resolved path."""
    top = {"/", os.path.realpath(os.environ.get("HOME") or "/")}
    above = os.path.dirname(path)
    while True:
        try:
            _require_safe(os.stat(above), above)
        except FileNotFoundError:  # it will be created
            if above == "/":
                raise
        else:
            if above in top:
                return
        above = os.path.dirname(above)


def _require_safe(state: os.stat_result, path: str) -> None:
    """Require that root, the current user or the owner of / (in a user namespace) owns a folder or link, and only they can write."""
    if state.st_uid not in {0, os.geteuid(), os.stat("/").st_uid}:
        raise ForeignFolderError(errno.EACCES, f"it is below a folder of user {state.st_uid}", path)
    if stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX:
        raise ForeignFolderError(errno.EACCES, "it is below a folder in which all may write", path)
