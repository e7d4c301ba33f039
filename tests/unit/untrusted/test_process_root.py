"""Paths inside another process's root lead to files of that root, with the rights of the process's user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.untrusted import paths, process_root
from perfpy.untrusted.files import regular_fd
from perfpy.untrusted.paths import in_process
from perfpy.untrusted.process_root import ProcessRoot, open_beneath, walk_beneath
from tests.builders.other_users import GID, UID, child, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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


def content(opener: Callable[[int, str, int], int], root: int, path: str) -> str:
    with open(opener(root, path, os.O_RDONLY)) as file:
        return file.read()


@pytest.mark.parametrize("opener", [open_beneath, walk_beneath])
@pytest.mark.parametrize("path", ["/etc/name", "etc//name", "/absolute/name", "/up", "/etc/up", "/../../etc/name", "/etc/../etc/name"])
def test_links_and_parent_components_stay_in_the_root(container: int, opener: Callable[[int, str, int], int], path: str):
    assert content(opener, container, path) == "inside"


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
    assert content(open_beneath, container, "/absolute/name") == "inside"


def test_the_own_root_is_opened_like_any_other(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    with open(regular_fd(in_process(os.getpid(), str(tmp_path / "file")))) as file:
        assert file.read() == "mine"
    assert paths.split_process(f"/proc/{os.getpid()}/root{tmp_path}/file") == (os.getpid(), f"{tmp_path}/file")
    assert paths.split_process(f"/proc/self/root{tmp_path}") is None


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
