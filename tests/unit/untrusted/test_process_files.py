"""Files of other users' processes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.runtimes.attaching import is_java
from perfpy.symbols.dso import innermost_pid
from perfpy.untrusted import files, process_files, process_root
from perfpy.untrusted.files import in_process, regular_fd
from perfpy.untrusted.process_files import (
    find_mapping,
    has_identity,
    is_modified,
    is_recorded,
    map_lines,
    open_identified,
    root_of,
    status_words,
)
from perfpy.untrusted.process_root import ProcessRoot, open_beneath, rights_of, walk_beneath
from tests.builders.other_users import GID, UID, child, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.untrusted.process_files import FileId


# What the kernel writes about processes, with names that imitate its lines.


_PR_SET_NAME = 15
_PR_GET_NAME = 16


@contextlib.contextmanager
def _named(comm: bytes) -> Iterator[None]:
    """This thread with another name."""
    libc, before = ctypes.CDLL(None), ctypes.create_string_buffer(16)
    libc.prctl(_PR_GET_NAME, before, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, comm, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_NAME, before, 0, 0, 0)


def test_a_name_is_no_line_of_the_status() -> None:
    """Only line feeds end lines: the kernel escapes no other line end in a name."""
    pid = os.getpid()
    with _named(b"\rNStgid:\t77"):
        assert innermost_pid(pid) != 77
    with _named(b"\rUid:\t77 77"):
        assert status_words(pid, "Uid:")[0] == str(os.getuid())
    assert rights_of(b"Name:\t\rGroups:\t7\nUid:\t5 5 5 5\nGid:\t6 6 6 6\nGroups:\t8 \n") == (5, 6, (8,))


def test_a_name_is_no_line_of_the_mappings(tmp_path: Path) -> None:
    folder = tmp_path / "a\r1-2 r-xp 0 0:0 0 "
    folder.mkdir()
    (folder / "libjvm.so\rb").write_bytes(b"x")
    with open(folder / "libjvm.so\rb", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert not is_java(os.getpid())
        assert any(line.endswith(os.fsencode(folder / "libjvm.so\rb")) for line in map_lines(os.getpid()))


# A mapped file is opened by its identity; a file of another identity never is.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"the mapped file")
    return tmp_path / "file"


def identity_of(path: Path) -> FileId:
    state = path.stat()
    return os.major(state.st_dev), os.minor(state.st_dev), state.st_ino, 0


def generation_of(path: Path) -> int:
    """Return the generation of an inode, by FS_IOC_GETVERSION of linux/fs.h."""
    with open(path, "rb") as file:
        try:
            return int.from_bytes(fcntl.ioctl(file, 0x80087601, bytes(8))[:4], "little")
        except OSError:
            pytest.skip("no generations on this file system")


def content(opened: tuple[int, str] | None) -> bytes:
    assert opened is not None
    with open(opened[0], "rb") as file:
        return file.read()


def replace(file: Path, new: bytes = b"another file") -> None:
    other = file.with_name("other")
    other.write_bytes(new)
    other.replace(file)


def test_a_file_at_its_path_is_opened_there(file: Path):
    opened = open_identified(str(file), identity_of(file), ())
    assert opened is not None
    assert opened[1] == str(file)
    assert content(opened) == b"the mapped file"


@pytest.mark.parametrize("name", ["", "relative", "//anon", "/../up", "/a\0b", "/" + "x" * 5000])
def test_a_name_that_is_no_path_opens_nothing(name: str):
    assert open_identified(name, (0, 0, 1, 0), (os.getpid(),)) is None


def test_another_file_of_the_name_is_not_opened(file: Path):
    identity = identity_of(file)
    replace(file)
    assert open_identified(str(file), identity, ()) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)])
def test_only_files_are_opened(file: Path, make):
    identity = identity_of(file)
    file.unlink()
    make(file)
    assert open_identified(str(file), identity, ()) is None


@needs_root
def test_a_replaced_file_is_opened_by_the_mapping_of_a_process(file: Path):
    identity = identity_of(file)
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ):
        replace(file)
        assert find_mapping(os.getpid(), identity)
        assert content(open_identified(str(file), identity, (1 << 30, os.getpid()))) == b"the mapped file"
    assert find_mapping(os.getpid(), identity) == ""


@needs_root
def test_a_file_in_memory_is_opened_by_its_mapping_whatever_its_name():
    fd = os.memfd_create("x/../../escaped")
    os.write(fd, b"the mapped file")
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ):
        name = os.readlink(f"/proc/self/fd/{fd}")
        assert content(open_identified(name, identity_of(Path(f"/proc/self/fd/{fd}")), (os.getpid(),))) == b"the mapped file"
    os.close(fd)


@needs_root
def test_a_moved_file_is_opened_by_its_handle(file: Path):
    generation = generation_of(file)
    identity = (*identity_of(file)[:3], generation)
    file.rename(file.with_name("moved"))
    opened = open_identified(str(file), identity, ())
    for other in (0, generation ^ 1):  # unknown, or of a deleted file whose number was free
        assert open_identified(str(file), (*identity[:3], other), ()) is None
    if opened is None:
        pytest.skip("this file system has no handles of inode and generation")
    assert not os.path.exists(opened[1]), "its text is no other file's path"
    assert content(opened) == b"the mapped file"
    file.with_name("moved").unlink()
    assert open_identified(str(file), identity, ()) is None


def test_a_file_system_may_have_other_numbers_for_mappings(file: Path, monkeypatch: pytest.MonkeyPatch):
    """btrfs, and overlayfs of older kernels."""
    numbers = (0, 43, 12)
    state = list(os.stat(file))
    state[2] = os.makedev(0, 77)
    monkeypatch.setattr(os, "fstat", lambda _fd: os.stat_result(state))
    monkeypatch.setattr(process_files, "_mapped_identity", lambda _fd: numbers)
    assert has_identity(0, (*numbers, 0)) is True
    assert has_identity(0, (0, 43, 13, 0)) is False
    monkeypatch.setattr(process_files, "file_system_type", lambda _fd: 0x794C7630)
    assert has_identity(0, (254, 0, 13, 0)) is None, "the overlay may hide the file's own numbers"
    assert has_identity(0, (0, 77, 13, 0)) is False, "the numbers are those of the overlay"


def test_the_kernel_tells_the_numbers_of_mappings(file: Path):
    with open(file, "rb") as opened:
        assert process_files._mapped_identity(opened.fileno()) == identity_of(file)[:3]


EXT4, FAT, NOW = 0xEF53, 0x4D44, 4e9  # a time that is later than any file


def recorded(path: Path, identity: FileId, ended: float = NOW) -> bool | None:
    with open(path, "rb") as opened:
        return is_recorded(opened.fileno(), identity, ended)


def test_a_file_whose_inode_another_one_got_is_told_by_its_generation(file: Path):
    generation = generation_of(file)
    identity = identity_of(file)
    assert [recorded(file, (*identity[:3], number)) for number in (0, generation, generation ^ 1)] == [True, True, False]
    with open(file, "rb") as opened:
        assert not has_identity(opened.fileno(), (*identity[:3], generation ^ 1))


def test_a_file_that_was_created_after_the_recording_is_another_one_even_with_its_inode(file: Path):
    identity = identity_of(file)
    with open(file, "rb") as opened:
        if not process_files._birth_of(opened.fileno()):
            pytest.skip("no times of creation on this file system")
    assert recorded(file, identity, file.stat().st_ctime) is True
    assert recorded(file, identity, file.stat().st_ctime - 60) is False


def test_a_link_or_other_mode_after_the_recording_makes_no_other_file(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_files, "_birth_of", lambda _fd: 5.0)
    assert recorded(file, identity_of(file), 6.0) is True
    assert recorded(file, identity_of(file), 3.0) is False


def test_a_device_may_have_another_number_later(file: Path):
    generation = generation_of(file)
    major, minor, inode, _ = identity_of(file)
    assert [recorded(file, (major + 1, minor, inode, number)) for number in (0, generation, generation ^ 1)] == [None, True, False]


@pytest.mark.parametrize(("file_system", "verdict"), [(EXT4, False), (FAT, None)])
def test_another_inode_is_another_file_where_inodes_are_stable(
    file: Path, file_system: int, verdict: bool | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process_files, "file_system_type", lambda _fd: file_system)
    major, minor, inode, _ = identity_of(file)
    assert recorded(file, (major, minor, inode + 1, 0)) is verdict


def test_a_file_is_modified_if_its_content_changed_later(file: Path):
    with open(file, "rb") as opened:
        assert not is_modified(opened.fileno(), os.fstat(opened.fileno()).st_mtime)
        os.utime(file, (100, 100))
        assert not is_modified(opened.fileno(), 100)
        assert is_modified(opened.fileno(), 90)


def test_our_root_is_ours_and_an_ended_process_has_none():
    assert root_of(os.getpid()) == ""
    assert root_of(1 << 30) == ""


# Paths inside another process's root lead to files of that root, with the rights of the process's user.


Opener = "Callable[[int, str, int], int]"


@pytest.fixture
def container(tmp_path: Path) -> Iterator[int]:
    """The root of a container beside a host's folder: links of all kinds."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "name").write_text("inside")
    (tmp_path / "name").write_text("outside")
    (root / "absolute").symlink_to("/etc")
    (root / "up").symlink_to("../../../../etc/name")
    (root / "etc" / "up").symlink_to("../etc/./name")
    (root / "loop").symlink_to("loop")
    (root / "host").symlink_to(str(tmp_path))
    os.mkfifo(root / "fifo")
    fd = os.open(root, os.O_PATH)
    yield fd
    os.close(fd)


def process_root_content(opener: Callable[[int, str, int], int], root: int, path: str) -> str:
    with open(opener(root, path, os.O_RDONLY)) as file:
        return file.read()


@pytest.mark.parametrize("opener", [open_beneath, walk_beneath])
@pytest.mark.parametrize("path", ["/etc/name", "etc//name", "/absolute/name", "/up", "/etc/up", "/../../etc/name", "/etc/../etc/name"])
def test_links_and_parent_components_stay_in_the_root(container: int, opener: Callable[[int, str, int], int], path: str):
    assert process_root_content(opener, container, path) == "inside"


@pytest.mark.parametrize("opener", [open_beneath, walk_beneath])
@pytest.mark.parametrize("path", ["/host/name", "/loop", "/../name", "/etc/name/more", "/none/name", "/a\0b"])
def test_files_outside_the_root_are_not_found(container: int, opener: Callable[[int, str, int], int], path: str):
    with pytest.raises((OSError, ValueError)):
        opener(container, path, os.O_RDONLY)


@pytest.mark.parametrize("opener", [open_beneath, walk_beneath])
@pytest.mark.parametrize("name", ["root", "cwd", "exe", "fd/0", "ns/mnt"])
def test_links_of_proc_lead_nowhere(tmp_path: Path, opener: Callable[[int, str, int], int], name: str):
    (tmp_path / "link").symlink_to(f"/proc/self/{name}/etc/passwd" if name == "root" else f"/proc/self/{name}")
    root = os.open(tmp_path, os.O_PATH)
    with pytest.raises(OSError, match=r"No such file|Too many levels|Not a directory"):
        opener(root, "/link", os.O_RDONLY)
    os.close(root)


@pytest.mark.parametrize("opener", [open_beneath, walk_beneath])
def test_new_files_do_not_follow_links(container: int, opener: Callable[[int, str, int], int], tmp_path: Path):
    (tmp_path / "root" / "new").symlink_to("/etc/made")
    with pytest.raises(FileExistsError):
        opener(container, "/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.close(opener(container, "/absolute/made", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert (tmp_path / "root" / "etc" / "made").exists()


def test_descriptors_are_closed(container: int):
    before = os.listdir("/proc/self/fd")
    for path in ("/etc/up", "/loop", "/none/x", "/up"):
        for opener in (open_beneath, walk_beneath):
            try:
                os.close(opener(container, path, os.O_RDONLY))
            except OSError:
                continue
    assert os.listdir("/proc/self/fd") == before


def test_without_openat2_the_path_is_walked(container: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_root, "_OPENAT2", 100_000)  # no kernel has it
    assert process_root_content(open_beneath, container, "/absolute/name") == "inside"


def test_the_own_root_is_opened_like_any_other(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    with open(regular_fd(in_process(os.getpid(), str(tmp_path / "file")))) as file:
        assert file.read() == "mine"
    assert files.split_process(f"/proc/{os.getpid()}/root{tmp_path}/file") == (os.getpid(), f"{tmp_path}/file")
    assert files.split_process(f"/proc/self/root{tmp_path}") is None


def test_an_ended_process_raises():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(OSError):  # noqa: PT011 - a zombie has no root, a reaped process no folder
        regular_fd(in_process(pid, "/etc/passwd"))
    os.waitpid(pid, 0)
    with pytest.raises(FileNotFoundError):
        regular_fd(in_process(pid, "/etc/passwd"))


@needs_root
def test_files_unreadable_for_the_processs_user_are_not_read(tmp_path: Path):
    os.chmod(tmp_path, 0o755)
    (tmp_path / "secret").write_text("root's")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "open").write_text("all's")
    with child(tmp_path) as pid:
        assert os.read(regular_fd(in_process(pid, "/open")), 9) == b"all's"
        with pytest.raises(PermissionError):
            regular_fd(in_process(pid, "/secret"))
    assert (os.geteuid(), os.getegid()) == (0, 0)


@needs_root
def test_groups_of_root_are_given_up(tmp_path: Path):
    os.chmod(tmp_path, 0o755)
    (tmp_path / "group").write_text("of root's group")
    (tmp_path / "group").chmod(0o640)
    with child(tmp_path) as pid, pytest.raises(PermissionError):
        regular_fd(in_process(pid, "/group"))


@needs_root
def test_new_files_belong_to_the_user(tmp_path: Path):
    os.chmod(tmp_path, 0o777)
    with child(tmp_path) as pid, ProcessRoot(pid) as root:
        os.close(root.open("/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        os.chmod(tmp_path, 0o755)
        with pytest.raises(PermissionError):
            root.open("/other", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    state = (tmp_path / "new").stat()
    assert (state.st_uid, state.st_gid) == (UID, GID)


@needs_root
def test_the_user_cannot_signal_the_thread_with_his_rights():
    """Signals go by real and saved ids, which stay root's; and no capability is left."""

    def look() -> tuple[list[str], int]:
        with open("/proc/thread-self/status") as status:
            lines = dict(line.split(":\t", 1) for line in status)
        return lines["Uid"].split(), int(lines["CapEff"], 16) | int(lines["CapPrm"], 16)

    assert process_root.run_as(process_root.Rights(UID, GID, ()), look) == (["0", str(UID), "0", str(UID)], 0)


@needs_root
def test_without_the_right_to_change_ids_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setitem(process_root._NUMBERS, os.uname().machine, ((100_000,) * 3,) * 2)
    with child() as pid, pytest.raises(OSError, match=f"cannot take the rights of user {UID}"):
        regular_fd(in_process(pid, str(tmp_path / "file")))


@needs_root
def test_a_file_system_that_hangs_times_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_root, "_PATIENCE", 0.05)
    read, write = os.pipe()
    with pytest.raises(TimeoutError):
        process_root.run_as(process_root.Rights(UID, GID, ()), lambda: os.read(read, 1))
    os.close(write)


@pytest.mark.parametrize(
    ("ids", "uid"),
    [("1000\t1000\t1000\t1000", 1000), ("1000\t0\t0\t0", 1000), ("0\t65534\t0\t65534", 65534), ("0\t0\t0\t0", 0)],
)
def test_rights_come_from_the_first_id_that_is_not_root(ids: str, uid: int):
    status = f"Name:\tx\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t4 27 \n".encode()
    assert process_root.rights_of(status) == (uid, uid, (4, 27))


def test_the_status_of_a_process_that_ended_is_an_error():
    with pytest.raises(ProcessLookupError):
        process_root.rights_of(b"")
