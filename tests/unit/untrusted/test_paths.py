"""Names that others chose stay below the folder that they belong in."""

from __future__ import annotations

import pytest

from perfpy.untrusted import paths
from perfpy.untrusted.paths import UnsafeNameError

ID = "ab" * 20
OUTSIDE = ["../x", "/a/../../x", "memfd:x/../../..", "/memfd:../../.. (deleted)/../x", "..", ".", "a/./b", "", "/", "//", "a\0b"]


@pytest.mark.parametrize("name", [*OUTSIDE, "x" * 256, "x/" * 2100])
def test_unsafe_names_are_refused(name: str):
    with pytest.raises(UnsafeNameError):
        paths.below("/folder", name)
    with pytest.raises(UnsafeNameError):
        paths.home_parts(name, ID)


@pytest.mark.parametrize("name", ["/bin/ls", "[vdso]", "[kernel.kallsyms]", "//anon", "/memfd:x (deleted)", "/a/..b/c..", "/é", "/\udcff"])
def test_safe_names_stay_below_the_folder(name: str):
    path = paths.below("/folder", name)
    assert path.startswith("/folder/")
    assert path.endswith(name.lstrip("/"))
    assert paths.home_parts(name, ID) == [*name.strip("/").split("/"), ID]


def test_the_folder_may_be_the_root():
    assert (paths.below("", "/a/b"), paths.below("/", "a")) == ("/a/b", "/a")


@pytest.mark.parametrize("text", ["", "a", "ab", "../..", "AB" * 20, "ab" * 65, "xy" * 20, "abc", "/etc", "ab" * 19 + "/."])
def test_only_hexadecimal_digits_are_a_build_id(text: str):
    for make in (
        paths.build_id_hex,
        paths.index_parts,
        lambda text: paths.build_id_path("/c", text),
        lambda text: paths.home_parts("/x", text),
    ):
        with pytest.raises(UnsafeNameError):
            make(text)


def test_paths_of_the_build_id_index():
    assert paths.build_id_path("/c", ID, "elf") == f"/c/.build-id/ab/{ID[2:]}/elf"
    assert paths.debug_file("/usr/lib/debug", ID) == f"/usr/lib/debug/.build-id/ab/{ID[2:]}.debug"


def test_no_program_path_collides_with_the_index():
    with pytest.raises(UnsafeNameError):
        paths.home_parts("/.build-id/ab/cd", ID)


@pytest.mark.parametrize("link", ["../../etc/shadow", "/etc/shadow", "..", ""])
def test_a_debuglink_is_a_name_without_folders(link: str):
    with pytest.raises(UnsafeNameError):
        list(paths.debuglinks("", "/usr/lib/debug", "/bin/ls", link))
    assert next(paths.debuglinks("/root", "/usr/lib/debug", "/bin/ls", "ls.debug")) == "/root/bin/ls.debug"


@pytest.mark.parametrize("name", ["../../../../tmp/x", "a/b", ".."])
def test_a_module_is_a_name_without_folders(name: str):
    with pytest.raises(UnsafeNameError):
        paths.module_notes(name)


def test_a_refusal_can_be_printed_on_any_terminal():
    with pytest.raises(UnsafeNameError) as refusal:
        paths.below("/c", "../\x1b]0;title\x07")
    assert str(refusal.value).isprintable()
