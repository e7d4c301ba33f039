"""Open what options name for writing: results, recordings, streams.

Another user can exchange every name in a folder of that user at any moment. A path is therefore walked once: its folder is opened, links at
its end are followed if they are root's or the current user's, and the file that has the name is opened without any access (O_PATH).
Checks apply to this descriptor, and writing does, too. New names are made, renamed and removed below the descriptor of the folder.

Which folder a path leads to is not checked: links in the middle of a path are followed, whoever made them.

A result is written to a new file beside its destination, through one descriptor, and renamed when it is complete, so that neither
Ctrl-C nor a full disk truncates an existing file. Devices and fifos are written in place, and so are files in folders that permit no new
files, and files onto which another one is mounted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from perfpy.errors import OutputFailedError
from perfpy.untrusted.files import ForeignFileError, trusted_file_owners

TYPE_CHECKING = False  # see perfpy.cli
TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import BinaryIO, Final


_MOST_LINKS = 8
_O_PATH = getattr(os, "O_PATH", 0)  # Linux only
_FOLDER = _O_PATH | os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALSO = os.O_CLOEXEC | os.O_NOCTTY
_ATTEMPTS = 100  # for a name that others take and free again
_LONGEST_BEGINNING = 220  # bytes; a name has 255 at most
_LONGEST_NUMBER = 10  # digits of a descriptor
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_PUBLIC_DEVICES = (1, 5)  # major numbers: null, zero, full; the current terminal. In user namespaces they belong to an unknown user.
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MODES = 0o777
_PIECE = 1 << 20  # bytes that are copied at once


def open_named(path: str, flags: int, mode: int = 0o600, *, foreign_fifos: bool = False) -> int:
    """Open a path of an option for writing; with O_CREAT create a missing file. Raises OSError; see FileDestination.open."""
    for _ in range(_ATTEMPTS):
        with FileDestination(path) as destination:
            if destination.state is not None or not flags & os.O_CREAT:
                return destination.open(flags, foreign_fifos=foreign_fifos)
            try:
                return os.open(destination.name, flags & ~os.O_TRUNC | _NEW & ~os.O_RDWR, mode, dir_fd=destination.folder)
            except FileExistsError:  # created meanwhile
                pass
    raise FileExistsError(errno.EEXIST, "others create and remove it again and again", path)


def opener(path: str, flags: int) -> int:
    """Open a path of an option, as the opener of open(); see open_named. Raises OSError."""
    return open_named(path, flags, 0o666)


def create_named(path: str, folder: int | None = None) -> int:
    """Create a recording that an option names, empty, for reading and writing; also open an existing device or fifo. Raises OSError.

    Only the current user can read a new one. A regular file of another user, or with hard links, is replaced: that user could read what is
    written to it.

    folder: a descriptor of the folder in which a relative path begins; None for the current one.
    """
    for _ in range(_ATTEMPTS):
        with FileDestination(path, folder) as destination:
            try:
                state = destination.state
                if destination.inherited >= 0:
                    fd = os.open(f"/dev/fd/{destination.inherited}", os.O_RDWR | os.O_CLOEXEC)
                    if destination.is_regular:
                        os.ftruncate(fd, 0)
                    return fd
                if state is not None:
                    if not destination.is_regular or (state.st_uid in trusted_file_owners() and state.st_nlink <= 1):
                        return destination.open(os.O_RDWR | os.O_TRUNC)
                    destination.remove_entry()
                return destination.create(0o600)
            except FileExistsError:  # created meanwhile
                pass
    raise FileExistsError(errno.EEXIST, "others create and remove it again and again", path)


def create_new(path: str, mode: int = 0o666) -> int:
    """Create a file that must not exist yet, and open it for reading and writing. Raises FileExistsError."""
    return os.open(path, _NEW, mode)


def write_whole(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write a result file. Raises OutputFailedError."""
    try:
        with FileDestination(path) as destination, whole_file(destination, mode) as file:
            file.write(data)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


@contextlib.contextmanager
def whole_file(destination: FileDestination, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield the file to write; it gets its name if the context ends without an exception. Raises OSError.

    mode is the mode of a new file; an existing one keeps its mode and owner.
    """
    new = None if destination.inherited >= 0 else _replacement(destination, mode)
    if new is None:
        with open(destination.open(os.O_WRONLY | os.O_TRUNC), "wb") as file:
            yield file
        return
    with _removed_by_signals(new):
        try:
            with open(new.fd, "wb", closefd=False) as file:
                yield file
            _put(new, destination)
        finally:
            new.remove()
            new.close()


class FileDestination:
    """The destination to which a path leads: a name in an open folder. A context manager, which closes the descriptors.

    Attributes:
        path: as it was given, for messages.
        folder: a descriptor of the folder; -1 if the path means an inherited descriptor.
        name: the name in this folder.
        state: the status of the file of this name, None if there is none.
        inherited: the inherited descriptor, for /dev/stdout, /dev/fd/N; -1 for other paths.
    """

    def __init__(self, path: str, folder: int | None = None, *, follow: bool = True) -> None:
        """Walk a path. Raises OSError.

        Args:
            path: of an option.
            folder: a descriptor of the folder in which a relative path begins; None for the current one.
            follow: whether to look at the file of the name, and to follow links at the path's end.
        """
        self.path = path
        self.name = ""
        self.folder = self.inherited = self._file = -1
        self.state: os.stat_result | None = None
        try:
            self._walk(path, folder, follow)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FileDestination:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder and the file; a second call does nothing."""
        for fd in (self.folder, self._file):
            if fd >= 0:
                os.close(fd)
        self.folder = self._file = -1

    def _walk(self, path: str, above: int | None, follow: bool) -> None:
        for _ in range(_MOST_LINKS + 1):
            self.inherited = inherited_descriptor(path)
            if self.inherited >= 0:
                self.state = os.fstat(self.inherited)
                return
            head, slash, self.name = path.rpartition("/")
            if self.name in ("", ".", ".."):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
            folder = os.open(head or slash or ".", _FOLDER, dir_fd=above)
            self.close()
            self.folder = above = folder
            if not follow:
                return
            try:
                if _O_PATH:
                    flags = _O_PATH | os.O_CLOEXEC | (0 if _is_link_to_descriptor(path) else os.O_NOFOLLOW)
                    self._file = os.open(self.name, flags, dir_fd=self.folder)
                    self.state = os.fstat(self._file)
                else:
                    self.state = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                self.state = None
            if self.state is None or not stat.S_ISLNK(self.state.st_mode):
                return
            if self.state.st_uid not in trusted_file_owners():
                raise ForeignFileError(errno.EACCES, f"a link of user {self.state.st_uid}", self.path)
            path = os.readlink("", dir_fd=self._file) if self._file >= 0 else os.readlink(self.name, dir_fd=self.folder)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path)

    @property
    def is_regular(self) -> bool:
        """Whether a regular file has the name, also one that an inherited descriptor leads to."""
        return self.state is not None and stat.S_ISREG(self.state.st_mode)

    @property
    def has_safe_names(self) -> bool:
        """Whether only root and the current user can make names in the folder, hard links of other files among them."""
        state = os.fstat(self.folder)
        group_is_ours = state.st_gid == os.getegid() == os.geteuid()  # a private group, as distributions create for each user
        return state.st_uid in trusted_file_owners() and not state.st_mode & (stat.S_IWOTH if group_is_ours else _OTHERS)

    def open(self, flags: int, *, foreign_fifos: bool = False) -> int:
        """Open the existing file; truncate it if the flags say so. Raises OSError.

        A fifo or device must belong to root or the current user: another user's fifo would take what is written, or block.

        foreign_fifos: whether fifos of other users are accepted.
        """
        if self.inherited >= 0:
            return os.dup(self.inherited)
        self._require_trusted(foreign_fifos)
        fd = self._reopen(flags & ~(os.O_TRUNC | os.O_CREAT | os.O_EXCL) | _ALSO)
        if flags & os.O_TRUNC and self.is_regular:
            try:
                os.ftruncate(fd, 0)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _require_trusted(self, foreign_fifos: bool) -> None:
        """Raise OSError if the file must not be written."""
        if self.state is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        mode, owner = self.state.st_mode, self.state.st_uid
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        if stat.S_ISSOCK(mode):
            raise OSError(errno.ENXIO, "a socket", self.path)
        if stat.S_ISREG(mode):
            if self.state.st_nlink > 1 and not self.has_safe_names:
                raise ForeignFileError(errno.EMLINK, "it has hard links, and others can make them in its folder", self.path)
            return
        is_fifo = stat.S_ISFIFO(mode)
        is_public = stat.S_ISCHR(mode) and os.major(self.state.st_rdev) in _PUBLIC_DEVICES
        if owner not in trusted_file_owners() and not is_public and not (is_fifo and foreign_fifos):
            raise ForeignFileError(errno.EACCES, f"a {'fifo' if is_fifo else 'device'} that belongs to user {owner}", self.path)

    def _reopen(self, flags: int) -> int:
        """Open the very file that was looked at."""
        if self._file >= 0:
            try:
                return os.open(f"/proc/self/fd/{self._file}", flags)
            except FileNotFoundError:  # no /proc
                pass
        fd = os.open(self.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.folder)
        if self.state is None or not os.path.samestat(os.fstat(fd), self.state):
            os.close(fd)
            raise ForeignFileError(errno.ESTALE, "another file has its name now", self.path)
        os.set_blocking(fd, bool(flags & os.O_NONBLOCK == 0))
        return fd

    def is_now(self, state: os.stat_result) -> bool:
        """Whether a file has the name now."""
        try:
            return os.path.samestat(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False), state)
        except OSError:
            return False

    def create(self, mode: int, name: str = "") -> int:
        """Create a new file, and open it for reading and writing. Raises FileExistsError. name: instead of the path's."""
        return os.open(name or self.name, _NEW, mode, dir_fd=self.folder)

    def unfinished_name(self) -> str:
        """Return a name for the file until it is complete, which nobody can guess."""
        beginning = os.fsdecode(os.fsencode(self.name)[:_LONGEST_BEGINNING])
        return f"{beginning}.{os.getpid()}-{os.urandom(4).hex()}"

    def has(self, name: str) -> bool:
        """Whether the folder has a name, also that of a dangling link."""
        try:
            os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def has_folder(self, name: str) -> bool:
        """Whether the folder has a folder of a name; a link to one is none."""
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def rename_entry(self, old: str, new: str) -> None:
        """Rename a file in the folder; an existing one is replaced. Raises OSError."""
        os.replace(old, new, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove_entry(self, name: str = "") -> None:
        """Remove a name that is no folder. Raises OSError. name: instead of the path's."""
        os.unlink(name or self.name, dir_fd=self.folder)


def inherited_descriptor(path: str) -> int:
    """Return the descriptor that a path means, as /dev/stdout and /dev/fd/N do, or -1 for other paths."""
    for folder in ("/dev/fd/", "/proc/self/fd/"):
        number = path[len(folder) :]
        if path.startswith(folder) and number.isdecimal() and len(number) < _LONGEST_NUMBER:
            return int(number)
    return _STREAMS.get(path, -1)


def _is_link_to_descriptor(path: str) -> bool:
    """Whether a path is one of /proc/PID/fd/N, a link without a path. Nobody can put other links there."""
    parts = path.split("/")
    return parts[:2] == ["", "proc"] and parts[-2] == "fd"


class UnfinishedFile:
    """A file that takes its destination's name when it is complete. Raises OSError if none can be created there.

    Attributes:
        fd: its descriptor, for reading and writing.
    """

    def __init__(self, destination: FileDestination, mode: int) -> None:
        self._destination = destination
        self._name = destination.unfinished_name()
        self.fd = destination.create(mode, self._name)

    def put(self) -> None:
        """Give the file its name. Raises OSError, with EBUSY if another file is mounted onto the existing one."""
        self._destination.rename_entry(self._name, self._destination.name)

    def remove(self) -> None:
        """Remove the file if it has not got its name."""
        with contextlib.suppress(OSError):
            self._destination.remove_entry(self._name)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


def _replacement(destination: FileDestination, mode: int) -> UnfinishedFile | None:
    """Create the file that will replace the existing one; return None if that has to be written in place."""
    existing = destination.state
    if existing is None:
        return UnfinishedFile(destination, mode)
    if not stat.S_ISREG(existing.st_mode) or not os.access(destination.name, os.W_OK, dir_fd=destination.folder):
        return None
    has_links = existing.st_nlink > 1
    if has_links and destination.has_safe_names:  # all names keep leading to one file
        return None
    is_foreign = existing.st_uid != os.geteuid()
    if is_foreign and os.geteuid() != 0:  # only root can restore the owner
        return None
    try:
        new = UnfinishedFile(destination, 0o600 if is_foreign else mode)
    except OSError:  # Writing in place may work, or reports the reason.
        return None
    try:
        if not is_foreign and not has_links:
            if existing.st_gid != os.fstat(new.fd).st_gid:
                os.fchown(new.fd, -1, existing.st_gid)
            os.fchmod(new.fd, existing.st_mode & _MODES)
    except OSError:  # a group that only root can give
        new.remove()
        new.close()
        return None
    return new


def _put(new: UnfinishedFile, destination: FileDestination) -> None:
    """Give the new file its name, or copy it into the file that another one is mounted onto; then restore the owner."""
    existing = destination.state
    try:
        new.put()
    except OSError as error:
        if error.errno != errno.EBUSY or existing is None:
            raise
        os.lseek(new.fd, 0, os.SEEK_SET)
        with open(destination.open(os.O_WRONLY | os.O_TRUNC), "wb") as out:
            while piece := os.read(new.fd, _PIECE):
                out.write(piece)
        return
    if existing and existing.st_uid != os.geteuid() and existing.st_nlink == 1:
        with contextlib.suppress(OSError):  # a user namespace may not have this owner
            os.fchown(new.fd, existing.st_uid, existing.st_gid)
        os.fchmod(new.fd, existing.st_mode & _MODES)


@contextlib.contextmanager
def _removed_by_signals(new: UnfinishedFile) -> Iterator[None]:
    """Remove the new file if a signal ends the process. Signals that have a handler are left alone."""
    import signal  # few commands write results

    def end(number: int, _frame: object) -> None:
        new.remove()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    caught = []
    with contextlib.suppress(ValueError):  # Only the main thread can set handlers.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, end)
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


# Folders of our own, to write to.
#
# A Folder is created (0700) if it is missing. Raises OSError if others could replace it or put links into it: it has another owner, or
# others may write to it or to a folder above it. Inside a Folder, no symbolic link is followed.


_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE: Final = 0o700


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
    """Yield the path of a new folder in the temporary folder, and remove it at the end. Also remove the folders of killed processes.

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
