"""The build-id table of a recording, and the cache that keeps the files."""

from __future__ import annotations

import os

import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.abi.user_records import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.capture.record import build_ids
from perfpy.capture.record.dso_hits import Dso
from tests.unit.symbols.test_buildid import ID, elf64


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "prog"
    path.parent.mkdir()
    path.write_bytes(elf64("<", sections=False))
    return str(path)


def test_files_with_an_id_are_listed(program, monkeypatch):
    monkeypatch.setattr(build_ids.buildid, "of_kernel", lambda: b"\7" * 20)
    dsos = [Dso(program, is_kernel=False), Dso("//anon", is_kernel=False), Dso("[heap]", is_kernel=False)]
    dsos.append(Dso("[kernel.kallsyms]", is_kernel=True))
    assert build_ids.table(dsos) == (
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_USER, -1, ID, program),
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_KERNEL, -1, b"\7" * 20, "[kernel.kallsyms]"),
    )


def test_an_id_from_a_record_counts_more_than_the_file(program):
    dso = Dso(program, is_kernel=False)
    dso.build_id = b"\1" * 20
    assert build_ids.table([dso])[0].build_id == b"\1" * 20


def test_the_cache_is_laid_out_as_perfs(program, tmp_path):
    cache = tmp_path / "debug"
    build_ids.BuildIdCache(str(cache)).add(build_ids.table([Dso(program, is_kernel=False)]))
    link = cache / ".build-id" / ID.hex()[:2] / ID.hex()[2:]
    assert os.readlink(link) == f"../..{program}/{ID.hex()}"
    assert (link / "elf").read_bytes() == elf64("<", sections=False)
    assert os.path.samefile(link / "elf", program)


def test_a_second_recording_changes_nothing(program, tmp_path):
    cache = build_ids.BuildIdCache(str(tmp_path / "debug"))
    for _ in range(2):
        cache.add(build_ids.table([Dso(program, is_kernel=False)]))
    assert len(list((tmp_path / "debug").rglob("elf"))) == 1


def test_a_cache_that_cannot_be_written_is_no_failure(program, tmp_path):
    (tmp_path / "file").write_text("")
    build_ids.BuildIdCache(str(tmp_path / "file")).add(build_ids.table([Dso(program, is_kernel=False)]))
    assert (tmp_path / "file").read_text() == ""
