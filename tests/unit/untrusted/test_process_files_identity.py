"""A mapped file is opened by its identity; a file of another identity never is."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.untrusted import process_files
from perfpy.untrusted.process_files import find_mapping, has_identity, is_modified, is_recorded, open_identified, root_of
from tests.builders.other_users import needs_root

if TYPE_CHECKING:
    from perfpy.untrusted.process_files import FileId


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
