"""Open files that others may have replaced.

A name is looked up once, as a descriptor with O_PATH, which does not open the file. The descriptor is checked, and only a file that passes
is opened, through the descriptor. FIFOs, devices and sockets are therefore never opened: opening a device can have effects (a watchdog
starts, a tape rewinds), and opening a FIFO releases its writer. The kernel's own files (/proc/kmsg, tracefs) are refused as well, because
reading some of them removes what they contain. So are files of untrusted owners, and files that are too large.

Without O_PATH (macOS) or /proc, the name is checked, opened and compared. A file that replaces it in between is opened, but not used.
Layout: struct statfs of statfs(2), which begins with the file system's type, a number of include/uapi/linux/magic.h.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from perfpy.errors import PerfError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import BinaryIO, TypeAlias

    Judge: TypeAlias = Callable[[os.stat_result, int], None]


#: to open for reading without blocking
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: to look a name up without opening the file; 0 without O_PATH
_NODE = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0
_NO_PROC = (errno.ENOENT, errno.ENOTDIR)
_WRITER_SECONDS = 5
_MOST_LINKS = 8
_SMALL = 16 << 20  # bytes
_DENSE = 32  # bytes of a file for each one on the disk: file systems that compress store little less
_BLOCK = 512  # bytes, of st_blocks
_STATFS_SIZE = 256  # bytes; more than struct statfs has
#: types of the file systems whose files the kernel generates
_KERNEL_TYPES = frozenset((
    0x9FA0,  # proc
    0x62656572,  # sysfs
    0x74726163,  # tracefs
    0x64626720,  # debugfs
    0x73636673,  # securityfs
    0xF97CFF8C,  # selinuxfs
    0x43415D53,  # smackfs
    0x5A3C69F0,  # apparmorfs
    0x27E0EB,  # cgroup
    0x63677270,  # cgroup2
    0x7655821,  # resctrl
    0xCAFE4A11,  # bpf
    0x42494E4D,  # binfmt_misc
    0x62656570,  # configfs
    0xDE5E81E4,  # efivarfs
    0x6165676C,  # pstore
    0x1CD1,  # devpts
    0x19800202,  # mqueue
    0x65735543,  # fusectl
    0x6E736673,  # nsfs
    0x50494446,  # pidfs
    0x67596969,  # rpc_pipefs
    0x6E667364,  # nfsd
    0xABBA1974,  # xenfs
    0x187,  # autofs
))  # fmt: skip


class NotRegularFileError(OSError):
    """A FIFO, a device, a folder or a socket instead of a file."""


class ForeignFileError(PermissionError):
    """A file of an untrusted owner."""


def trusted_file_owners() -> tuple[int, int]:
    """Return the owners of trusted files: root and the current user."""
    return 0, os.geteuid()


def open_regular(
    path: str,
    *,
    owners: Collection[int] | None = None,
    limit: int | None = None,
    follow: bool = True,
    reader: int = 0,
    of_kernel: bool = False,
) -> BinaryIO:
    """Open a regular file for reading; see regular_fd. limit: the most bytes. Raises OSError."""
    fd = regular_fd(path, owners=owners, follow=follow, reader=reader, of_kernel=of_kernel)
    if limit is not None:
        try:
            require_dense(fd, path)
            if os.fstat(fd).st_size > limit:
                raise _too_large(path, limit)
        except OSError:
            os.close(fd)
            raise
    return open(fd, "rb")


def read_regular(path: str, *, owners: Collection[int] | None = None, limit: int, of_kernel: bool = False) -> bytes:
    """Read a regular file completely, also files of /proc (of_kernel), which report no size. Raises OSError."""
    with open_regular(path, owners=owners, limit=limit, of_kernel=of_kernel) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def read_named(path: str, *, limit: int) -> bytes:
    """Read a file that an option names, like read_regular; it may also be an inherited pipe."""
    with open(path, "rb") if is_handed(path) else open_regular(path, limit=limit, of_kernel=True) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def regular_fd(path: str, *, owners: Collection[int] | None = None, follow: bool = True, reader: int = 0, of_kernel: bool = False) -> int:
    """Open a regular file for reading, and return its descriptor. Other files are not opened. Raises OSError.

    Args:
        path: a path below /proc/PID/root (in_process) is opened inside that process's root.
        owners: user ids that may own the file (None: all); a symbolic link to it must then belong to root or the current user.
        follow: whether path may be a symbolic link.
        reader: the pid of a running process whose user must be able to read the file.
        of_kernel: whether the file may be one of the kernel's, in /proc or /sys; only for paths that nobody else chose.
    """

    def judge(state: os.stat_result, node: int) -> None:
        require_regular(state, path, -1 if of_kernel else node)
        if owners is not None and state.st_uid not in owners:
            raise ForeignFileError(errno.EACCES, f"belongs to user {state.st_uid}", path)

    fd = _open(path, follow and owners is None, reader, judge)
    for _ in range(_MOST_LINKS if follow else 0):
        if fd is not None:
            break
        path = trusted_target(path)
        fd = _open(path, False, reader, judge)
    if fd is None:
        raise ForeignFileError(errno.ELOOP, "a symbolic link", path)
    return fd


def stream_fd(path: str) -> int:
    """Open a file, folder or pipe that the user named; for a FIFO, wait for its writer.

    Raises NotRegularFileError for devices except /dev/null, TimeoutError for a FIFO without a writer.
    """

    def judge(state: os.stat_result, node: int) -> None:
        mode = state.st_mode
        if stat.S_ISREG(mode):
            require_regular(state, path, node)
        elif not (stat.S_ISDIR(mode) or stat.S_ISFIFO(mode)):
            raise NotRegularFileError(errno.EINVAL, f"a {'socket' if stat.S_ISSOCK(mode) else 'device'}, not a recording", path)

    fd = os.open(path, _FLAGS) if is_handed(path) else open_judged(path, judge)
    assert fd is not None, "links are followed"
    try:
        if not is_handed(path) and stat.S_ISFIFO(os.fstat(fd).st_mode):
            import select  # few read from a FIFO

            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if not poll.poll(_WRITER_SECONDS * 1000):
                raise TimeoutError(errno.ETIMEDOUT, f"no data in this pipe for {_WRITER_SECONDS} seconds", path)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_handed(path: str) -> bool:
    """Whether a name means an inherited descriptor (/dev/stdin, the shell's <(command)) or /dev/null."""
    return path in ("/dev/stdin", os.devnull) or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def state_of(path: str) -> os.stat_result:
    """Return os.stat of a path. Links below /proc/PID/root stay inside that root. Raises OSError."""
    if inside := split_process(path):
        from perfpy.untrusted import process_root  # few reports need files of running processes

        with process_root.ProcessRoot(inside[0]) as root:
            return root.status(inside[1])
    return os.stat(path)


def is_file(path: str) -> bool:
    """Whether a path is a regular file, like os.path.isfile, also below /proc/PID/root."""
    try:
        return stat.S_ISREG(state_of(path).st_mode)
    except (OSError, ValueError):  # a NUL in a name
        return False


def append_to_ours(path: str, data: bytes) -> None:
    """Append to a regular file of the current user that has no other hard links; path: see regular_fd. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if inside := split_process(path):
        from perfpy.untrusted import process_root

        with process_root.ProcessRoot(inside[0]) as root:
            fd = root.open(inside[1], flags)
    else:
        fd = os.open(path, flags)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_nlink != 1:
            raise ForeignFileError(errno.EACCES, "not a file of ours alone", path)
        os.write(fd, data)
    finally:
        os.close(fd)


def trusted_target(path: str) -> str:
    """Return the target of a symbolic link of root or the current user. Raises ForeignFileError for other owners' links."""
    inside = split_process(path)
    if inside:
        from perfpy.untrusted import process_root

        with process_root.ProcessRoot(inside[0]) as root:
            link: int | None = root.open(inside[1], os.O_PATH | os.O_NOFOLLOW)
    else:
        link = os.open(path, _NODE | os.O_NOFOLLOW) if _NODE else None
    try:
        state = os.lstat(path) if link is None else os.fstat(link)
        if state.st_uid not in trusted_file_owners():
            raise ForeignFileError(errno.EACCES, f"a link of user {state.st_uid}", path)
        text = os.readlink(path) if link is None else os.readlink("", dir_fd=link)
    finally:
        if link is not None:
            os.close(link)
    if text.startswith("/"):
        return path.removesuffix(inside[1]) + text if inside else text
    return f"{os.path.dirname(path)}/{text}"


def require_dense(fd: int, path: str) -> None:
    """Raise OSError for a large file that consists of holes: terabytes that cost its owner nothing. Its size would bound no work.

    Some file systems tell no blocks; their files pass.
    """
    state = os.fstat(fd)
    if state.st_blocks and state.st_size > _SMALL + _DENSE * _BLOCK * state.st_blocks:
        raise OSError(errno.EFBIG, f"a sparse file: {state.st_size >> 20} MB, nearly all of them holes", path)


def _too_large(path: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit >> 20} MB", path)


def _open(path: str, follow: bool, reader: int, judge: Judge) -> int | None:
    """Open for reading; return None if path is a symbolic link and must not be followed. judge: see open_judged."""
    inside = split_process(path)
    if not (reader or inside):
        return open_judged(path, judge, follow=follow)
    from perfpy.untrusted import process_root

    if not inside:
        return process_root.run_as_user_of(reader, lambda: open_judged(path, judge, follow=follow))
    pid, inner_path = inside
    with process_root.ProcessRoot(pid) as process:
        return process.run(lambda root: _open_judged_beneath(root, inner_path, judge, follow))


def open_regular_beneath(root: int, path: str, *, follow: bool = True) -> int:
    """Open a regular file for reading as if the folder of the descriptor `root` were /. A FIFO or a device is not touched."""
    fd = _open_judged_beneath(root, path, lambda state, node: require_regular(state, path, node), follow)
    if fd is None:
        raise OSError(errno.ELOOP, "a symbolic link", path)
    return fd


def _open_judged_beneath(root: int, path: str, judge: Judge, follow: bool) -> int | None:
    from perfpy.untrusted.process_root import open_beneath  # few files are in other roots

    node = open_beneath(root, path, os.O_PATH if follow else os.O_PATH | os.O_NOFOLLOW)
    try:
        return _open_node(node, path, judge)
    finally:
        os.close(node)


def open_judged(path: str, judge: Judge, *, follow: bool = True) -> int | None:
    """Open for reading without blocking; return None if path is a symbolic link and must not be followed. Raises OSError.

    judge sees the file before it is opened.
    """
    if not _NODE:
        return _open_compared(path, judge, follow)
    node = os.open(path, _NODE if follow else _NODE | os.O_NOFOLLOW)
    try:
        return _open_node(node, path, judge)
    except FileNotFoundError:
        return _open_compared(path, judge, follow)
    finally:
        os.close(node)


def _open_node(node: int, path: str, judge: Judge) -> int | None:
    """Open the file of a descriptor with O_PATH for reading, like open_judged. Raises FileNotFoundError without /proc."""
    state = os.fstat(node)
    if stat.S_ISLNK(state.st_mode):
        return None
    judge(state, node)
    try:
        return os.open(f"/proc/self/fd/{node}", _FLAGS)
    except OSError as error:
        raise OSError(errno.ENOENT if error.errno in _NO_PROC else error.errno, error.strerror, path) from None


def _open_compared(path: str, judge: Judge, follow: bool) -> int | None:
    """Open like open_judged by the name, and compare the open file with the one that was judged."""
    if follow:
        path = os.path.realpath(path)
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return None
    judge(state, -1)
    fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
    try:
        if not os.path.samestat(os.fstat(fd), state):
            raise OSError(errno.ESTALE, "replaced while it was opened", path)
        judge(os.fstat(fd), fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def require_regular(state: os.stat_result, path: str, node: int = -1) -> None:
    """Raise NotRegularFileError unless a file is regular. With `node`, its descriptor, the kernel's own files are refused as well."""
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularFileError(errno.EINVAL, "not a regular file", path)
    # Only file systems without a block device can be the kernel's, and those have no blocks. Few files need the last check.
    if node >= 0 and not os.major(state.st_dev) and not os.fstatvfs(node).f_blocks and file_system_type(node) in _KERNEL_TYPES:
        raise NotRegularFileError(errno.EINVAL, "a file of the kernel", path)


def file_system_type(fd: int) -> int:
    """Return the type of the file system of a descriptor, 0 if it is unknown."""
    if not sys.platform.startswith("linux"):
        return 0
    import ctypes  # few files need it

    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, buffer):
        return 0
    number = ctypes.c_uint if os.uname().machine == "s390x" else ctypes.c_ulong
    return int(number.from_buffer(buffer).value) & 0xFFFFFFFF


# Convert names that others chose to paths.
#
# Names from recordings, /proc, ELF files and servers, and build-ids, become paths below a given folder, or raise UnsafeNameError. Names are
# never repaired: no file is called "a/../../b". perf's names without a file ([kernel.kallsyms], [vdso], //anon, "/memfd:x (deleted)") are
# ordinary names here.


_LONGEST_PART = 255  # NAME_MAX
_LONGEST_NAME = 4000  # PATH_MAX, less a prefix and a suffix
_PID_DIGITS = 10
_HEX = frozenset("0123456789abcdef")
_BUILD_ID_DIGITS = range(4, 129, 2)  # with one byte, nothing would remain after the folder of its first two digits
INDEX = ".build-id"  # of a folder ordered by build-ids


class UnsafeNameError(PerfError, ValueError):
    """A name that must not become a path: the name and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the name {name!a} cannot be a path: {reason}")


def component(name: str) -> str:
    """Return the name if it is a single path component."""
    if "/" in name:
        raise UnsafeNameError(name, "it leads into folders")
    return parts(name)[0]


def parts(name: str) -> list[str]:
    """Split a name, absolute or not, into components; // has no empty one."""
    names = [part for part in name.split("/") if part]
    if not names:
        raise UnsafeNameError(name, "it is empty")
    if "\0" in name:
        raise UnsafeNameError(name, "it holds a NUL")
    if "." in names or ".." in names:
        raise UnsafeNameError(name, "it leads out of its folder")
    if len(os.fsencode(name)) > _LONGEST_NAME or any(len(os.fsencode(part)) > _LONGEST_PART for part in names):
        raise UnsafeNameError(name[:40], "it is too long")
    return names


def below(folder: str, name: str) -> str:
    """Return the path of a name, absolute or not, inside a folder ("" = /)."""
    return "/".join((folder.rstrip("/"), *parts(name)))


def build_id_hex(text: str) -> str:
    """Return a build-id of 2 to 64 bytes as lower-case hexadecimal digits."""
    if len(text) not in _BUILD_ID_DIGITS or not _HEX.issuperset(text):
        raise UnsafeNameError(text[:40], "not a build-id")
    return text


def index_parts(build_id: str) -> tuple[str, str, str]:
    """Return the components of a build-id's path in a folder ordered by build-ids."""
    build_id_hex(build_id)
    return INDEX, build_id[:2], build_id[2:]


def home_parts(name: str, build_id: str) -> list[str]:
    """Return the components of the folder in which perf's build-id cache stores a build of a file."""
    names = parts(name)
    if names[0] == INDEX:
        raise UnsafeNameError(name, "the cache's index has that name")
    return [*names, build_id_hex(build_id)]


def build_id_cache() -> str:
    """Return the folder of perf's build-id cache."""
    return os.path.expanduser("~/.debug")


def build_id_path(folder: str, build_id: str, file: str = "") -> str:
    """Return a build's path in the index of a build-id cache, or that of one of its files (elf, debug, kallsyms, vdso)."""
    build = "/".join((folder, *index_parts(build_id)))
    return f"{build}/{file}" if file else build


def debug_file(root: str, build_id: str) -> str:
    """Return the path of a build's debug file in distributions: below root, .build-id/xx/yyyy.debug."""
    return f"{build_id_path(root, build_id)}.debug"


def debuglinks(root: str, debug_root: str, program: str, link: str) -> Iterator[str]:
    """Yield the possible paths of the file in a program's .gnu_debuglink. program: its recorded path."""
    name, folder = component(link), os.path.dirname(program)
    yield below(root, f"{folder}/{name}")
    yield below(root, f"{folder}/.debug/{name}")
    yield below(root, f"{debug_root}{folder}/{name}")


def in_process(pid: int, name: str) -> str:
    """Return a path as seen by a process."""
    return below(f"/proc/{pid}/root", name)


def split_process(path: str) -> tuple[int, str] | None:
    """Return the pid and the name in a path of in_process, or None for other paths."""
    if not path.startswith("/proc/"):
        return None
    pid, separator, name = path[6:].partition("/root/")
    return (int(pid), "/" + name) if separator and pid.isdecimal() and len(pid) <= _PID_DIGITS else None


def perf_map(pid: int) -> str:
    """Return the path of a process's perf map."""
    return f"/tmp/perf-{pid}.map"


def module_notes(name: str, root: str = "/sys/module") -> str:
    """Return the path of the file with a loaded module's build-id."""
    return f"{root}/{component(name)}/notes/.note.gnu.build-id"


#: The image of Python functions, which belong to no process.
PYTHON_IMAGE = "jitted-0-1.so"


def jit_image_name(pid: int, index: int) -> str:
    """Return the file name of a jitted function's image."""
    return f"jitted-{pid}-{index}.so"
