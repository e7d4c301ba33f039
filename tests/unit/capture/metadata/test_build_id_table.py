"""The build-id table of a recording, and the cached files."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.abi.perf_records.build_id_record import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.capture.dso_hits import HitDso
from perfpy.capture.metadata import build_id_table
from perfpy.symbols.caches.build_id_cache import BuildIdCache
from perfpy.symbols.files import build_id_notes, live_process
from tests.builders.elf import Elf

ID = bytes(range(20))
IMAGE = Elf().build_id(ID.hex()).build()


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "prog"
    path.parent.mkdir()
    path.write_bytes(IMAGE)
    return str(path)


def test_files_with_an_id_are_listed(program, monkeypatch):
    monkeypatch.setattr(build_id_notes, "of_kernel", lambda: b"\7" * 20)
    dsos = [HitDso(program, is_kernel=False), HitDso("//anon", is_kernel=False), HitDso("[heap]", is_kernel=False)]
    dsos.append(HitDso("[kernel.kallsyms]", is_kernel=True))
    assert build_id_table.table(dsos).entries == (
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_USER, -1, ID, program),
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_KERNEL, -1, b"\7" * 20, "[kernel.kallsyms]"),
    )


def test_an_id_from_a_record_counts_more_than_the_file(program):
    dso = HitDso(program, is_kernel=False)
    dso.build_id = b"\1" * 20
    assert build_id_table.table([dso]).entries[0].build_id == b"\1" * 20


def test_the_cache_is_laid_out_as_perfs(program, tmp_path):
    cache = tmp_path / "debug"
    BuildIdCache(str(cache)).add(build_id_table.table([HitDso(program, is_kernel=False)]).entries)
    link = cache / ".build-id" / ID.hex()[:2] / ID.hex()[2:]
    assert os.readlink(link) == f"../..{program}/{ID.hex()}"
    assert (link / "elf").read_bytes() == IMAGE
    assert os.path.samefile(link / "elf", program)


def test_a_second_recording_changes_nothing(program, tmp_path):
    cache = BuildIdCache(str(tmp_path / "debug"))
    for _ in range(2):
        cache.add(build_id_table.table([HitDso(program, is_kernel=False)]).entries)
    assert len(list((tmp_path / "debug").rglob("elf"))) == 1


def test_a_cache_that_cannot_be_written_is_no_failure(program, tmp_path):
    (tmp_path / "file").write_text("")
    BuildIdCache(str(tmp_path / "file")).add(build_id_table.table([HitDso(program, is_kernel=False)]).entries)
    assert (tmp_path / "file").read_text() == ""


def test_files_that_are_not_at_their_path_are_taken_from_their_process(tmp_path, monkeypatch):
    held = tmp_path / "held"
    held.write_bytes(IMAGE)
    name = "/no/such/prog (deleted)"
    monkeypatch.setattr(live_process, "paths_of", lambda path, pids: iter([str(held)] if (path, pids) == (name, (77,)) else []))
    dsos = [
        HitDso(name, is_kernel=False, pid=77),
        HitDso("/no/such/other", is_kernel=False, pid=77),
        HitDso("//anon", is_kernel=False, pid=77),
    ]
    with ExitStack() as opened:
        elsewhere = build_id_table.paths(dsos, opened)
    assert elsewhere == {dsos[0]: str(held)}
    files = build_id_table.table(dsos, elsewhere)
    assert [(entry.filename, entry.build_id) for entry in files.entries] == [(name, ID)]
    cache = BuildIdCache(str(tmp_path / "debug"))
    cache.add(files.entries, files.elsewhere)
    assert (tmp_path / "debug" / ".build-id" / ID.hex()[:2] / ID.hex()[2:] / "elf").read_bytes() == IMAGE


def test_a_file_of_a_container_is_not_taken_for_ours_of_the_same_name(program, tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(IMAGE)
    monkeypatch.setattr(live_process, "other_root", lambda pid: pid == 77)
    monkeypatch.setattr(live_process, "paths_of", lambda path, pids: iter([str(theirs)]))
    dsos = [HitDso(program, is_kernel=False, pid=77), HitDso(program, is_kernel=False, pid=78)]
    with ExitStack() as opened:
        assert build_id_table.paths(dsos, opened) == {dsos[0]: str(theirs)}


def identity(path):
    state = os.stat(path)
    return os.major(state.st_dev), os.minor(state.st_dev), state.st_ino, 0


def replace(path, data=IMAGE):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)


def test_a_replaced_file_has_no_build_id_and_is_named(program):
    ran = HitDso(program, is_kernel=False, identity=identity(program))
    replace(program)
    with ExitStack() as opened:
        files = build_id_table.table([ran], build_id_table.paths([ran], opened))
    assert (files.entries, files.others, files.replaced) == ((), {}, (program,))
    assert build_id_table.replaced_line(files.replaced).startswith(f"warning: replaced while recorded: {program}; ")


def test_a_deleted_file_is_not_called_replaced(program):
    ran = HitDso(program, is_kernel=False, identity=identity(program))
    os.unlink(program)
    with ExitStack() as opened:
        assert build_id_table.table([ran], build_id_table.paths([ran], opened)).replaced == ()


def test_a_replaced_file_does_not_get_the_build_id_of_the_new_one(program):
    """The table has names only: the build-id of the new file is in the records of its mappings instead."""
    old = HitDso(program, is_kernel=False, identity=(*identity(program)[:3], 0))
    replace(program)
    new = HitDso(program, is_kernel=False, identity=(*identity(program)[:3], 77))
    new.identity = (*identity(program)[:3], 0)
    with ExitStack() as opened:
        files = build_id_table.table([new, old], build_id_table.paths([new, old], opened))
    assert (files.entries, list(files.others), files.replaced) == ((), [new], (program,))
    assert files.other_build_ids == {(os.fsencode(program), new.identity): ID}


def test_a_long_list_of_replaced_files_is_one_line():
    line = build_id_table.replaced_line([f"/lib/{number}" for number in range(9)])
    assert "/lib/2 and 6 more" in line
    assert "/lib/3" not in line
    assert "\n" not in build_id_table.replaced_line(["/a\nb"])
