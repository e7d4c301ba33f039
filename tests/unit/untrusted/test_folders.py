"""Folders that are written into are ours alone, and so is what is made in them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.untrusted import folders
from perfpy.untrusted.folders import ForeignFolderError, own, temporary_folder, trusted_program
from tests.builders.other_users import GID, UID, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_new_folders_are_private(tmp_path: Path):
    with folders.own(str(tmp_path / "a" / "b")) as folder, folder.inner("c", "d") as inner:
        os.close(inner.create("file"))
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/file")] == [0o700] * 4 + [0o600]


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o702])
def test_a_folder_into_which_others_may_write_is_refused(tmp_path: Path, bits: int):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(bits)
    with pytest.raises(ForeignFolderError, match="others may write"):
        folders.own(str(tmp_path / "cache"))


def test_a_folder_below_a_writable_one_is_refused(tmp_path: Path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ForeignFolderError, match="all may write"):
        folders.own(str(tmp_path / "open" / "cache"))


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfpy.untrusted.folders.os.geteuid", lambda: 12345)
    with pytest.raises(ForeignFolderError, match=r"belongs to user|below a folder of user"):
        folders.own(str(tmp_path))


def test_no_link_inside_is_followed(tmp_path: Path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "usr").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "cache" / "file").symlink_to(tmp_path / "elsewhere" / "file")
    with folders.own(str(tmp_path / "cache")) as cache:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            cache.inner("usr", "bin")
        with pytest.raises(FileExistsError):
            cache.create("file")
    assert not os.listdir(tmp_path / "elsewhere")


def test_a_link_to_the_folder_itself_is_the_users_own(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    with folders.own(str(tmp_path / "cache")) as cache:
        assert not cache.has("x")


def test_folders_above_the_home_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "open" / "home").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "home").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "open" / "home"))
    with folders.own(str(tmp_path / "open" / "home" / ".debug")):
        (tmp_path / "open" / "home").chmod(0o777)
    with pytest.raises(ForeignFolderError, match="all may write"):
        folders.own(str(tmp_path / "open" / "home" / ".debug"))


@pytest.fixture
def foreign_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of another user, with a link of that user to a folder of ours."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "ours").mkdir(mode=0o700)
    (home / "link").symlink_to(tmp_path / "ours")
    for path in (home, home / "link"):
        os.chown(path, UID, GID, follow_symlinks=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@needs_root
@pytest.mark.parametrize("name", [".cache/perfpy", ".debug", "link/perfpy", "link"])
def test_nothing_is_written_into_another_users_home(foreign_home: Path, name: str):
    with pytest.raises(ForeignFolderError, match=f"of user {UID}"):
        own(str(foreign_home / name))
    assert [path.name for path in foreign_home.iterdir()] == ["link"]
    assert [*(foreign_home.parent / "ours").iterdir()] == []


@needs_root
def test_another_users_link_in_the_own_home_is_not_followed(foreign_home: Path):
    os.chown(foreign_home, 0, 0)
    with pytest.raises(ForeignFolderError, match=f"of user {UID}"):
        own(str(foreign_home / "link" / "perfpy"))
    assert [*(foreign_home.parent / "ours").iterdir()] == []


def test_own_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / ".cache").symlink_to("elsewhere")
    with own(str(tmp_path / ".cache" / "perfpy" / "inner")):
        assert (tmp_path / "elsewhere" / "perfpy" / "inner").is_dir()


def test_a_folder_in_the_current_folder_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with own("cache/inner") as folder:
        os.close(folder.create("file"))
    assert (tmp_path / "cache" / "inner" / "file").exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_program_is_trusted_unless_others_can_write_to_its_folder(tmp_path: Path, mode: int):
    (tmp_path / "program").write_text("")
    folder = tmp_path / "open" / "bin"
    folder.mkdir(parents=True)
    (folder / "program").write_text("")
    if mode == 0o775:
        os.chown(tmp_path / "open", -1, GID) if os.geteuid() == 0 else pytest.skip("needs root, to give a folder to a group")
    (tmp_path / "open").chmod(mode)
    with pytest.raises(ForeignFolderError, match=f"others may write to {tmp_path}/open"):
        trusted_program(str(folder / "program"))
    assert trusted_program("/bin/sh") == os.path.realpath("/bin/sh")


KILLED = """
import os, sys
from perfpy.untrusted.folders import temporary_folder
with temporary_folder("perfpy-test-") as folder:
    open(f"{folder}/perf.data", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "kept").mkdir()
    (tmp_path / "perfpy-test-link").symlink_to("kept")
    (tmp_path / "kept" / "perf.data").write_text("")
    with subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        left = Path(process.stdout.readline().strip())
        with temporary_folder("perfpy-test-") as folder:
            assert (left / "perf.data").exists(), "its process runs"
        assert not Path(folder).exists()
        process.kill()
    assert left.exists()
    with temporary_folder("perfpy-test-") as folder:
        assert not left.exists()
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(tmp_path)) == ["kept", "perfpy-test-link"]
    assert os.listdir(tmp_path / "kept") == ["perf.data"]
