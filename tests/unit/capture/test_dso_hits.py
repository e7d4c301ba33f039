"""The files that samples hit, in any order and with old mappings."""

from __future__ import annotations

import os
import random
import struct
from contextlib import ExitStack

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import MISC_FORK_EXEC, MISC_KERNEL, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId, with_header
from perfpy.abi.records import NO_ID, Fork, Mmap, Mmap2, encode
from perfpy.capture import dso_hits
from perfpy.capture.dso_hits import DsoHits, HitDso
from perfpy.symbols.files import build_ids
from perfpy.symbols.files.build_ids import BuildIdCache
from tests.builders.elf import Elf

TIMED = EventAttr(sample_type=SampleType.IP | SampleType.TID | SampleType.TIME)
KERNEL = 0xFFFFFFFF81000000


def mapped(name: str, start: int, pid: int = 5) -> bytes:
    return encode(Mmap2(MISC_USER, pid, pid, start, 0x2000, 0, 0, 0, 0, 0, 5, 2, name), NO_ID, NATIVE_ENDIAN)


def kernel_map(name: str, start: int, size: int) -> bytes:
    return encode(Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, start, size, start, name), NO_ID, NATIVE_ENDIAN)


def sample(ip: int, pid: int = 5, time: int = 100, mode: int = MISC_USER) -> bytes:
    return with_header(9, mode, struct.pack("=QIIQ", ip, pid, pid, time), NATIVE_ENDIAN)


def hits(*records: bytes, attr: EventAttr = TIMED) -> DsoHits:
    dso_hits = DsoHits([attr])
    dso_hits.scan(memoryview(b"".join(records)))
    return dso_hits


def names(found: DsoHits) -> list[str]:
    return [dso.name for dso in found.hit()]


def test_only_files_with_samples_are_hit():
    assert names(hits(mapped("/a", 0x1000), mapped("/b", 0x10000), sample(0x1FFF))) == ["/a"]


def test_the_vdso_always_counts():
    assert names(hits(mapped("[vdso]", 0x1000))) == ["[vdso]"]


def test_a_sample_may_come_before_the_map_in_the_file():
    assert names(hits(sample(0x2345), mapped("/a", 0x1000))) == ["/a"]


def test_a_forked_process_has_its_parents_maps():
    fork = encode(Fork(0, 6, 5, 6, 5, 0), NO_ID, NATIVE_ENDIAN)
    assert names(hits(mapped("/a", 0x1000), fork, sample(0x1000, pid=6))) == ["/a"]


def test_another_process_has_not():
    assert names(hits(mapped("/a", 0x1000), sample(0x1000, pid=7))) == []


def test_kernel_addresses_are_modules_or_the_kernel():
    text, module = kernel_map("[kernel.kallsyms]_text", KERNEL, 0x100000), kernel_map("[mod]", 0xFFFFFFFFC0000000, 0x1000)
    assert names(hits(text, module, sample(KERNEL + 5, mode=MISC_KERNEL))) == ["[kernel.kallsyms]"]
    assert names(hits(text, module, sample(0xFFFFFFFFC0000005, mode=MISC_KERNEL))) == ["[mod]"]


def test_the_kernel_may_be_where_programs_are_too():  # as on s390x
    text, program = kernel_map("[kernel.kallsyms]_text", 0x100000, 0x100000), mapped("/a", 0x100000)
    assert names(hits(text, program, sample(0x100005, mode=MISC_KERNEL))) == ["[kernel.kallsyms]"]
    assert names(hits(text, program, sample(0x100005))) == ["/a"]


def test_samples_and_times_are_counted():
    actual_hits = hits(sample(1, time=7), sample(2, time=3), sample(3, time=9))
    assert (actual_hits.samples, actual_hits.first_time, actual_hits.last_time) == (3, 3, 9)


def test_samples_without_times_are_counted_too():
    attr = EventAttr(sample_type=SampleType.IP | SampleType.TID)
    record = with_header(9, MISC_USER, struct.pack("=QII", 0x1000, 5, 5), NATIVE_ENDIAN)
    actual_hits = hits(mapped("/a", 0x1000), record, attr=attr)
    assert (names(actual_hits), actual_hits.samples, actual_hits.last_time) == (["/a"], 1, 0)


def test_an_identifier_in_front_moves_the_rest():
    attr = EventAttr(sample_type=TIMED.sample_type | SampleType.IDENTIFIER)
    record = with_header(9, MISC_USER, struct.pack("=QQIIQ", 77, 0x1000, 5, 5, 42), NATIVE_ENDIAN)
    actual_hits = hits(mapped("/a", 0x1000), record, attr=attr)
    assert (names(actual_hits), actual_hits.first_time) == (["/a"], 42)


def test_a_process_that_ran_before_has_only_its_own_maps():
    fork = encode(Fork(MISC_FORK_EXEC, 6, 5, 6, 5, 0), NO_ID, NATIVE_ENDIAN)  # made up by perf
    assert names(hits(mapped("/a", 0x1000), fork, sample(0x1000, pid=6))) == []


def one_by_one(*records: bytes) -> DsoHits:
    hits = DsoHits([TIMED])
    for record in records:
        hits.scan(memoryview(record))
    return hits


def test_many_samples_of_one_size_equal_single_ones():
    chance = random.Random(5)
    maps = [mapped(f"/{number}", 0x10000 * number, pid=5 + number % 3) for number in range(40)]
    kernel = [kernel_map("[kernel.kallsyms]_text", KERNEL, 0x100000), kernel_map("[mod]", 0xFFFFFFFFC0000000, 0x1000)]
    alike = [sample(0x10000 * chance.randrange(9), pid=5, time=chance.randrange(1000, 9000)) for _ in range(3000)]
    all_different = [sample(0x10000 * (number % 20) + number % 0x2000, pid=6, time=5000 + number) for number in range(6000)]
    in_kernel = [sample(KERNEL + number % 9, mode=MISC_KERNEL, time=500) for number in range(300)]
    huge = [
        with_header(9, MISC_USER, struct.pack("=QIIQ", 0x10000, 5, 5, 2000 + number) + bytes(4096), NATIVE_ENDIAN) for number in range(300)
    ]
    longer = [with_header(9, MISC_USER, struct.pack("=QIIQQ", 0x210000, 5, 5, 99_999, 0), NATIVE_ENDIAN)] * 200
    records = [*kernel, *maps[:20], *alike, *maps[20:], *all_different, *in_kernel, *longer, *huge, sample(0x180000, pid=5, time=3)]
    whole, single = hits(*records), one_by_one(*records)
    assert names(whole) == names(single)
    assert len(names(whole)) > 10
    assert "[mod]" not in names(whole)
    assert (whole.samples, whole.first_time, whole.last_time) == (single.samples, single.first_time, single.last_time) == (9801, 3, 99_999)


def test_many_samples_without_times_are_counted():
    attr = EventAttr(sample_type=SampleType.IP | SampleType.TID)
    records = [with_header(9, MISC_USER, struct.pack("=QII", 0x1000, 5, 5), NATIVE_ENDIAN)] * 500
    actual_hits = hits(mapped("/a", 0x1000), *records, attr=attr)
    assert (names(actual_hits), actual_hits.samples, actual_hits.last_time) == (["/a"], 500, 0)


def test_files_equal_a_search_page_by_page():
    """Overlapping mappings of several processes, some forked from others, against the plain search."""
    draw = random.Random(27)
    parents = {pid: pid - 1 for pid in (6, 7, 9)}
    mappings = [(draw.randrange(40), draw.choice([5, 6, 7, 8, 9])) for _ in range(60)]  # of two pages each
    pages = [(draw.randrange(50), draw.choice([5, 6, 7, 8, 9])) for _ in range(25)]
    records = [mapped(f"/{number}", page << 12, pid) for number, (page, pid) in enumerate(mappings)]
    records += [encode(Fork(0, pid, parent, pid, parent, 0), NO_ID, NATIVE_ENDIAN) for pid, parent in parents.items()]
    records += [sample(page << 12, pid) for page, pid in pages]
    draw.shuffle(records)

    def owners(page: int, pid: int | None) -> set[str]:
        results = {f"/{number}" for number, (first, owner) in enumerate(mappings) if owner == pid and first <= page < first + 2}
        return results if results or pid is None else owners(page, parents.get(pid))

    assert set(names(hits(*records))) == set().union(*(owners(page, pid) for page, pid in pages))


def test_the_last_of_overlapping_files_is_the_one_at_an_address():
    hit_files = hits(mapped("/old", 0x1000), mapped("/new", 0x2000), encode(Fork(0, 6, 5, 6, 5, 0), NO_ID, NATIVE_ENDIAN))
    files = [hit_files.file_of(pid, address) for pid, address in ((5, 0x1000), (6, 0x2000), (5, 0x4000), (7, 0x1000))]
    assert [file and file.name for file in files] == ["/old", "/new", None, None]


def test_a_process_that_is_its_own_ancestor_ends_the_search():
    forks = [encode(Fork(0, pid, parent, pid, parent, 0), NO_ID, NATIVE_ENDIAN) for pid, parent in ((5, 6), (6, 5))]
    assert names(hits(*forks, sample(0x1000))) == []
    assert hits(*forks).file_of(5, 0x1000) is None


def of_inode(generation: int, start: int, inode: int = 9) -> bytes:
    return encode(Mmap2(MISC_USER, 5, 5, start, 0x1000, 0, 8, 1, inode, generation, 5, 2, "/a"), NO_ID, NATIVE_ENDIAN)


def test_files_with_one_name_are_told_apart_by_inode_and_generation():
    found = hits(of_inode(3, 0x1000), of_inode(4, 0x2000), of_inode(3, 0x3000, inode=8), *map(sample, (0x1000, 0x2000, 0x3000)))
    assert [dso.identity for dso in found.hit()] == [(8, 1, 9, 3), (8, 1, 9, 4), (8, 1, 8, 3)]
    again = DsoHits.from_bytes(found.to_bytes())
    assert [(dso.identity, dso.synthesized) for dso in again.hit()] == [(dso.identity, False) for dso in found.hit()]


def test_a_synthesized_mapping_is_of_the_first_file_with_its_inode():
    found = hits(of_inode(0, 0x1000), of_inode(3, 0x2000), of_inode(4, 0x3000), *map(sample, (0x1000, 0x2000, 0x3000)))
    assert [(dso.identity, dso.synthesized) for dso in found.hit()] == [((8, 1, 9, 3), True), ((8, 1, 9, 4), False)]
    found = hits(of_inode(3, 0x2000), of_inode(0, 0x1000), sample(0x1000))
    assert [(dso.identity, dso.synthesized) for dso in found.hit()] == [((8, 1, 9, 3), True)]


# The build-id table of a recording, and the cached files.


ID = bytes(range(20))
IMAGE = Elf().build_id(ID.hex()).build()


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "prog"
    path.parent.mkdir()
    path.write_bytes(IMAGE)
    return str(path)


def test_files_with_an_id_are_listed(program, monkeypatch):
    monkeypatch.setattr(build_ids, "of_kernel", lambda: b"\7" * 20)
    dsos = [HitDso(program, is_kernel=False), HitDso("//anon", is_kernel=False), HitDso("[heap]", is_kernel=False)]
    dsos.append(HitDso("[kernel.kallsyms]", is_kernel=True))
    assert dso_hits.table(dsos).entries == (
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_USER, -1, ID, program),
        HeaderBuildId(MISC_BUILD_ID_SIZE | MISC_KERNEL, -1, b"\7" * 20, "[kernel.kallsyms]"),
    )


def test_an_id_from_a_record_counts_more_than_the_file(program):
    dso = HitDso(program, is_kernel=False)
    dso.build_id = b"\1" * 20
    assert dso_hits.table([dso]).entries[0].build_id == b"\1" * 20


def test_the_cache_is_laid_out_as_perfs(program, tmp_path):
    cache = tmp_path / "debug"
    BuildIdCache(str(cache)).add(dso_hits.table([HitDso(program, is_kernel=False)]).entries)
    link = cache / ".build-id" / ID.hex()[:2] / ID.hex()[2:]
    assert os.readlink(link) == f"../..{program}/{ID.hex()}"
    assert (link / "elf").read_bytes() == IMAGE
    assert os.path.samefile(link / "elf", program)


def test_a_second_recording_changes_nothing(program, tmp_path):
    cache = BuildIdCache(str(tmp_path / "debug"))
    for _ in range(2):
        cache.add(dso_hits.table([HitDso(program, is_kernel=False)]).entries)
    assert len(list((tmp_path / "debug").rglob("elf"))) == 1


def test_a_cache_that_cannot_be_written_is_no_failure(program, tmp_path):
    (tmp_path / "file").write_text("")
    BuildIdCache(str(tmp_path / "file")).add(dso_hits.table([HitDso(program, is_kernel=False)]).entries)
    assert (tmp_path / "file").read_text() == ""


def test_files_that_are_not_at_their_path_are_taken_from_their_process(tmp_path, monkeypatch):
    held = tmp_path / "held"
    held.write_bytes(IMAGE)
    name = "/no/such/prog (deleted)"
    monkeypatch.setattr(dso_hits, "paths_of", lambda path, pids: iter([str(held)] if (path, pids) == (name, (77,)) else []))
    dsos = [
        HitDso(name, is_kernel=False, pid=77),
        HitDso("/no/such/other", is_kernel=False, pid=77),
        HitDso("//anon", is_kernel=False, pid=77),
    ]
    with ExitStack() as opened:
        elsewhere = dso_hits.paths(dsos, opened)
    assert elsewhere == {dsos[0]: str(held)}
    files = dso_hits.table(dsos, elsewhere)
    assert [(entry.filename, entry.build_id) for entry in files.entries] == [(name, ID)]
    cache = BuildIdCache(str(tmp_path / "debug"))
    cache.add(files.entries, files.elsewhere)
    assert (tmp_path / "debug" / ".build-id" / ID.hex()[:2] / ID.hex()[2:] / "elf").read_bytes() == IMAGE


def test_a_file_of_a_container_is_not_taken_for_ours_of_the_same_name(program, tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(IMAGE)
    monkeypatch.setattr(dso_hits, "other_root", lambda pid: pid == 77)
    monkeypatch.setattr(dso_hits, "paths_of", lambda path, pids: iter([str(theirs)]))
    dsos = [HitDso(program, is_kernel=False, pid=77), HitDso(program, is_kernel=False, pid=78)]
    with ExitStack() as opened:
        assert dso_hits.paths(dsos, opened) == {dsos[0]: str(theirs)}


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
        files = dso_hits.table([ran], dso_hits.paths([ran], opened))
    assert (files.entries, files.others, files.replaced) == ((), {}, (program,))
    assert dso_hits.replaced_line(files.replaced).startswith(f"warning: replaced while recorded: {program}; ")


def test_a_deleted_file_is_not_called_replaced(program):
    ran = HitDso(program, is_kernel=False, identity=identity(program))
    os.unlink(program)
    with ExitStack() as opened:
        assert dso_hits.table([ran], dso_hits.paths([ran], opened)).replaced == ()


def test_a_replaced_file_does_not_get_the_build_id_of_the_new_one(program):
    """The table has names only: the build-id of the new file is in the records of its mappings instead."""
    old = HitDso(program, is_kernel=False, identity=(*identity(program)[:3], 0))
    replace(program)
    new = HitDso(program, is_kernel=False, identity=(*identity(program)[:3], 77))
    new.identity = (*identity(program)[:3], 0)
    with ExitStack() as opened:
        files = dso_hits.table([new, old], dso_hits.paths([new, old], opened))
    assert (files.entries, list(files.others), files.replaced) == ((), [new], (program,))
    assert files.other_build_ids == {(os.fsencode(program), new.identity): ID}


def test_a_long_list_of_replaced_files_is_one_line():
    line = dso_hits.replaced_line([f"/lib/{number}" for number in range(9)])
    assert "/lib/2 and 6 more" in line
    assert "/lib/3" not in line
    assert "\n" not in dso_hits.replaced_line(["/a\nb"])


def test_names_of_several_files_are_one_line():
    assert dso_hits.same_name_line(["/a\nb"]).startswith("warning: several files are named /a^Jb; ")
