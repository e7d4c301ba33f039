"""Address spaces and their mappings over time."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.flags import MISC_COMM_EXEC, MISC_FORK_EXEC, MISC_GUEST_KERNEL, MISC_KERNEL, MISC_USER
from perfpy.symbols import mappings
from perfpy.symbols.address_spaces import DeliveredValues, TaskTimeline, ValueHistory, kernel_name
from perfpy.symbols.dso import DsoKind, short_name
from perfpy.symbols.mappings import FOREVER, Mapping, SpaceBuilder, find_lines
from perfpy.symbols.tasks import MAP_HUGETLB
from tests.builders.timeline import comm, dsos, exited, fork, frames, kernel_mmap, ksymbol, mmap, timeline

if TYPE_CHECKING:
    from perfpy.symbols.mappings import AddressSpaces


# Commands and mappings over time.


ALL = (1 << 64) - 1  # bytes


def comms(source: TaskTimeline, *samples: tuple[int, int]) -> list[str]:
    tid, key = (np.array(column, np.uint64) for column in zip(*samples, strict=True))
    return [source.comms[number] for number in source.comm_ids(tid.astype(np.uint32), key).tolist()]


def test_a_sample_takes_the_mapping_that_was_there_at_its_time():
    source = timeline((10, mmap(1, 0x1000, 0x1000, "/old")), (20, mmap(1, 0x1000, 0x1000, "/new")))
    assert dsos(source, (1, 0x1800, 9), (1, 0x1800, 10), (1, 0x1800, 19), (1, 0x1800, 20)) == ["-", "/old", "/old", "/new"]


def test_a_mapping_inside_another_splits_it():
    source = timeline((0, mmap(1, 0x1000, 0x3000, "/big", pgoff=0x5000)), (10, mmap(1, 0x2000, 0x1000, "/small")))
    assert [(frame.dso, frame.address) for frame in frames(source, (1, 0x1010, 10), (1, 0x2010, 10), (1, 0x3010, 10))] == [
        *(("/big", 0x5010), ("/small", 0x10), ("/big", 0x7010)),
    ]
    assert dsos(source, (1, 0x2010, 9)) == ["/big"]


def test_a_mapping_over_several_cuts_the_first_and_the_last():
    source = timeline(
        (0, mmap(1, 0x1000, 0x1000, "/a")), (0, mmap(1, 0x2000, 0x1000, "/b")), (0, mmap(1, 0x3000, 0x1000, "/c")),
        (5, mmap(1, 0x1800, 0x2000, "/over")),
    )  # fmt: skip
    assert dsos(source, *((1, at, 5) for at in (0x1000, 0x1800, 0x2000, 0x37FF, 0x3800))) == ["/a", "/over", "/over", "/over", "/c"]


def test_a_mapping_beyond_the_last_address_holds_none():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/whole")), (0, mmap(1, ALL - 0xFFF, 0x1001, "/damaged")))
    assert dsos(source, (1, 0x1000, 5), (1, ALL - 1, 5)) == ["/whole", "-"]
    source = timeline((0, ksymbol(ALL - 0xFFF, 0x1001, "bpf_prog_damaged")))
    assert dsos(source, (1, ALL - 1, 5), mode=MISC_KERNEL) == ["-"]


def test_the_same_mapping_again_changes_nothing():
    builder = SpaceBuilder()
    space = builder.new_space()
    for rank in range(1, 6):
        builder.insert(space, Mapping(0x1000, 0x2000, 0, 7), rank)
    assert builder.build().conflicts == {}


def views(source: TaskTimeline, *samples: tuple[int, int]) -> list[int]:
    """Return the shared view of each process at a key."""
    pid, key = (np.array(column, np.uint64) for column in zip(*samples, strict=True))
    rank = source.ranks(key)
    return [int(view) for view in source.shared_views(source.views(pid, rank), rank)]


def test_processes_with_the_same_mappings_share_a_view_once_they_have_all_of_them():
    source = timeline(
        *((at + pid, mmap(pid, 0x1000 * at, 0x1000, f"/file{at}")) for at in (10, 20) for pid in (1, 2)),
        (30, mmap(3, 0xA000, 0x1000, "/file10")),
        (40, fork(4, 1)),
    )
    first, second, third, fork_of_first = views(source, *((pid, 50) for pid in (1, 2, 3, 4)))
    assert first == second == fork_of_first != third
    before = views(source, (1, 15), (2, 15))
    assert len({*before, first}) == 3
    assert dsos(source, (1, 0x14000, 15), (2, 0x14000, 15), (1, 0x14000, 50), (2, 0x14000, 50)) == ["-", "-", "/file20", "/file20"]


def test_a_process_that_loses_a_mapping_or_forked_before_the_last_has_a_view_of_its_own():
    source = timeline(
        *((10, mmap(pid, 0x1000, 0x1000, "/file")) for pid in (1, 2, 3)),
        (20, mmap(2, 0x1000, 0x1000, "/other")),
        (25, fork(4, 3)),
        (30, mmap(3, 0x5000, 0x1000, "/late")),
    )
    assert len(set(views(source, (1, 50), (2, 50), (3, 50), (4, 50)))) == 4
    assert dsos(source, *((pid, 0x1000, 50) for pid in (1, 2, 3, 4)), (4, 0x5000, 50)) == ["/file", "/other", "/file", "/file", "-"]


def test_an_anonymous_region_that_grows_is_one_region():
    builder = SpaceBuilder()
    space = builder.new_space()
    for rank in range(1, 600):
        builder.insert(space, Mapping(0x1000, 0x1000 + rank * 0x1000, 0, 7), rank)
    spaces = builder.build()
    assert spaces.conflicts == {}
    result, _ = spaces.find(np.zeros(2, np.int32), np.array([0x1000, 0x200000], np.uint64), np.full(2, 599, np.int32))
    assert (result >= 0).all()


def test_a_region_that_grows_often_takes_no_more_time_for_each_step_and_ends_as_a_whole():
    builder, steps = SpaceBuilder(), 20_000  # looking at all parts at each step would take a minute
    space = builder.new_space()
    for rank in range(1, steps):
        builder.insert(space, Mapping(0x1000, 0x1000 + rank * 0x1000, 0, 7), rank)
    builder.insert(space, Mapping(0x2000, 0x3000, 0, 8), steps)
    spaces = builder.build()
    address = np.array([0x1000, 0x1000, 0x2000, 0x2000, 0x500000, 0x500000, 0x500000], np.uint64)
    moment = np.array([1, steps, 2, steps, 0x4FF, 0x500, steps], np.int32)
    result, _ = spaces.find(np.zeros(len(address), np.int32), address, moment)
    assert [int(spaces.dso[mapping]) if mapping >= 0 else -1 for mapping in result.tolist()] == [7, 7, 7, 8, -1, 7, 7]
    assert spaces.conflicts == {space: [steps]}


def test_a_forked_process_has_its_parents_mappings_as_they_were():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/before")), (10, fork(2, 1)), (20, mmap(1, 0x1000, 0x1000, "/after")))
    assert dsos(source, (2, 0x1000, 15), (2, 0x1000, 25), (1, 0x1000, 25)) == ["/before", "/before", "/after"]


def test_a_grandchild_inherits_mappings_that_its_parent_did_not_replace():
    source = timeline(
        (0, mmap(1, 0x1000, 0x1000, "/one")), (0, mmap(1, 0x3000, 0x1000, "/kept")), (1, fork(2, 1)),
        (2, mmap(2, 0x1000, 0x1000, "/two")), (3, fork(3, 2)),
    )  # fmt: skip
    assert dsos(source, (3, 0x1000, 9), (3, 0x3000, 9), (3, 0x5000, 9)) == ["/two", "/kept", "-"]


def test_a_synthesized_fork_copies_nothing():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/parent")), (0, fork(2, 1, misc=MISC_FORK_EXEC)))
    assert dsos(source, (2, 0x1000, 1)) == ["-"]


def test_after_exec_the_new_program_covers_the_old():
    source = timeline(
        (0, mmap(1, 0x1000, 0x2000, "/old")), (10, comm(1, "new", misc=MISC_COMM_EXEC)), (11, mmap(1, 0x1000, 0x1000, "/new")),
    )  # fmt: skip
    assert dsos(source, (1, 0x1000, 12), (1, 0x1000, 10), (1, 0x2000, 12)) == ["/new", "/old", "/old"]


def test_a_pid_that_is_used_again_is_another_process():
    source = timeline(
        (0, mmap(1, 0x1000, 0x1000, "/parent")), (1, fork(2, 1)), (2, mmap(2, 0x5000, 0x1000, "/first")), (3, exited(2)),
        (4, fork(2, 1)), (5, comm(2, "second")),
    )  # fmt: skip
    assert dsos(source, (2, 0x5000, 2), (2, 0x5000, 6)) == ["/first", "-"]


def test_a_mapping_that_comes_after_the_main_thread_ended_is_there_for_the_others():
    source = timeline(
        (0, mmap(2, 0x1000, 0x1000, "/early")), (1, exited(2)), (2, mmap(2, 0x5000, 0x1000, "/late")), (4, exited(2, tid=20)),
    )  # fmt: skip
    assert dsos(source, (2, 0x1000, 3), (2, 0x5000, 3), (2, 0x5000, 1)) == ["/early", "/late", "-"]


def test_a_new_thread_shares_the_process():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/p")), (1, fork(1, 1, tid=9, ptid=1)))
    assert dsos(source, (1, 0x1000, 2)) == ["/p"]


def test_executable_memory_without_a_file_belongs_to_the_perf_map():
    names = ["//anon", "/dev/zero (deleted)", "/anon_hugepage (deleted)", "[heap]", "[stack]", "/SYSV00000000 (deleted)"]
    source = timeline(*((0, mmap(5, 0x1000 * at, 0x1000, name, pgoff=0x7000)) for at, name in enumerate(names, 1)))
    actual_frames = frames(source, *((5, 0x1000 * at + 4, 1) for at in range(1, 7)))
    assert {frame.dso for frame in actual_frames} == {"/tmp/perf-5.map"}
    assert [frame.address for frame in actual_frames] == [0x1000 * at + 4 for at in range(1, 7)]


def test_a_file_on_huge_pages_is_taken_for_memory_without_one():
    huge = mmap(5, 0x200000, 0x200000, "/opt/prog")._replace(flags=MAP_HUGETLB)
    assert dsos(timeline((0, huge)), (5, 0x200004, 1)) == ["/tmp/perf-5.map"]


def test_the_vsyscall_page_has_three_calls():
    page = 0xFFFFFFFFFF600000
    actual_frames = frames(timeline((0, mmap(5, page, 0x1000, "[vsyscall]"))), *((5, page + at, 1) for at in (0, 0x404, 0x800, 0xC00)))
    assert [(frame.symbol, frame.offset) for frame in actual_frames] == [("vgettimeofday", 0), ("vtime", 4), ("vgetcpu", 0), ("-", 0)]


def test_memory_that_is_not_executable_keeps_its_name():
    source = timeline((0, mmap(5, 0x1000, 0x1000, "//anon", prot=3)), (0, mmap(5, 0x3000, 0x1000, "[heap]", prot=3)))
    assert dsos(source, (5, 0x1000, 1), (5, 0x3000, 1)) == ["//anon", "[heap]"]


def test_an_unknown_process_has_no_mappings():
    assert frames(timeline((0, mmap(1, 0x1000, 0x1000, "/p"))), (77, 0x1000, 1))[0] == ("-", 0, "-", 0x1000, ".")


def test_a_recording_without_side_band_records_has_frames():
    assert frames(timeline(), (1, 0x1000, 1), (1, 0x1000, 2)) == [("-", 0, "-", 0x1000, ".")] * 2


def test_the_kernel_has_its_own_address_space():
    source = timeline((0, kernel_mmap(0x8000_0000, 0x1000)), (0, kernel_mmap(0x9000_0000, 0x1000, "[nf_tables]")))
    actual_frames = frames(source, (3, 0x9000_0010, 1), (4, 0x7000_0000, 1), mode=MISC_KERNEL)
    assert [(frame.dso, frame.address, frame.level) for frame in actual_frames] == [("[nf_tables]", 0x10, "k"), ("-", 0x7000_0000, "k")]


def test_a_kernel_mapping_without_bounds_covers_all_addresses():
    source = timeline((0, kernel_mmap(0, 0)))
    assert source.spaces.map_end.tolist() == [(1 << 64) - 1]


def test_modules_with_hidden_addresses_have_no_mapping():
    source = timeline((0, kernel_mmap(0, 0)), (0, kernel_mmap(0, 0xFFFFFFFFFF000000, "/lib/modules/3.13/ata/pata_acpi.ko")))
    assert dsos(source, (1, 0xFFFFFFFF81000010, 1), mode=MISC_KERNEL) == ["[kernel.kallsyms]"]


def test_the_kernel_has_the_name_of_the_build_id_table():
    table = [(MISC_USER, "/bin/sh"), (MISC_KERNEL, "[xfs]"), (MISC_KERNEL, "/lib/modules/x.ko.zst"), (MISC_KERNEL, "/tmp/vmlinux")]
    assert kernel_name(table) == "/tmp/vmlinux"
    assert kernel_name(table[:3]) == "[kernel.kallsyms]"
    source = timeline((0, kernel_mmap(0x1000, 0x1000)), kernel_name="/tmp/vmlinux")
    assert [(dso.name, dso.short_name) for dso in source.dso_table.dsos] == [("/tmp/vmlinux", "[kernel.vmlinux]")]


def test_other_modes_have_no_mappings():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/p")))
    for mode in (MISC_GUEST_KERNEL, 3):  # a virtual machine, whose addresses are not asked for, and the hypervisor
        assert frames(source, (1, 0x1000, 1), mode=mode) == [("-", 0, "-", 0x1000, "H")]


def test_programs_of_the_kernel_come_and_go():
    source = timeline((10, ksymbol(0xC000, 0x100, "bpf_prog_abc_f")), (20, ksymbol(0xC000, 0x100, "bpf_prog_abc_f", flags=1)))
    results = [frames(source, (0, 0xC010, key), mode=MISC_KERNEL)[0] for key in (9, 10, 19, 20)]
    assert [frame.symbol for frame in results] == ["-", "bpf_prog_abc_f", "bpf_prog_abc_f", "-"]
    assert results[1] == ("bpf_prog_abc_f", 0x10, "bpf_prog_abc_f", 0x10, "k")


def test_the_reference_symbol_of_the_kernel_is_in_its_mapping():
    assert timeline((0, kernel_mmap(0x8000_0000, 0x1000, pgoff=0x8000_0000))).kernels[0].reference == ("_text", 0x8000_0000)
    assert timeline((0, kernel_mmap(0x8000_0000, 0x1000))).kernels[0].reference is None  # kptr_restrict


def test_a_comm_holds_from_its_record_on():
    source = timeline((0, comm(1, "sh")), (10, comm(1, "ls")), (20, comm(1, "more", tid=3)))
    assert comms(source, (1, 0), (1, 9), (1, 10), (3, 19), (3, 20), (0, 5)) == ["sh", "sh", "ls", ":3", "more", "swapper"]


def test_a_fork_inherits_the_comm_of_the_thread_that_forked():
    source = timeline((0, comm(1, "sh")), (5, fork(2, 1)), (6, comm(1, "other")), (7, fork(4, 3)))
    assert comms(source, (2, 5), (2, 9), (4, 9)) == ["sh", "sh", ":4"]


def test_an_exited_thread_has_no_name_any_more():
    source = timeline((0, comm(1, "sh")), (5, exited(1)), (6, fork(2, 1)))
    assert comms(source, (1, 4), (1, 5), (2, 7)) == ["sh", ":1", ":2"]


def test_to_a_report_the_first_name_of_a_thread_is_also_that_of_its_earlier_samples():
    """As in perf report, which replaces ":TID" in the samples so far. A script prints what was known."""
    records = [(10, comm(1, "ls")), (20, comm(1, "more")), (30, fork(1, 5)), (40, comm(1, "next")), (50, fork(2, 6))]
    moments = [(1, 0), (1, 10), (1, 20), (1, 30), (1, 40), (2, 50), (2, 60)]
    assert comms(timeline(*records, keep_exited=True), *moments) == ["ls", "ls", "more", "next", "next", ":2", ":2"]
    assert comms(timeline(*records), *moments) == [":1", "ls", "more", ":1", "next", ":2", ":2"]


def test_a_thread_of_minus_one_is_written_so():
    assert comms(timeline(), (0xFFFFFFFF, 0)) == [":-1"]


def test_the_header_gives_the_build_id_that_a_mapping_lacks():
    source = timeline((0, mmap(1, 0x1000, 1, "/a")), (0, mmap(1, 0x2000, 1, "/b", build_id="ab")), build_ids={"/a": "01", "/b": "02"})
    assert [(dso.name, dso.build_id) for dso in source.dso_table.dsos] == [("/a", "01"), ("/b", "ab")]


@pytest.mark.parametrize(
    ("name", "kind", "short"),
    [
        ("/usr/lib/libc.so.6", DsoKind.FILE, "libc.so.6"),
        ("/tmp/perf-12.map", DsoKind.JIT, "[JIT] tid 12"),
        ("[vdso]", DsoKind.VDSO, "[vdso]"),
        ("/lib/modules/6.1/kernel/net/nf-tables.ko.xz", DsoKind.MODULE, "[nf_tables]"),
        ("[nf_tables]", DsoKind.MODULE, "[nf_tables]"),
        ("//anon", DsoKind.NONE, "anon"),
        ("/tmp/x (deleted)", DsoKind.FILE, "x (deleted)"),
    ],
)
def test_short_names(name: str, kind: DsoKind, short: str):
    assert short_name(name, kind) == short


@pytest.mark.parametrize(("modules", "found"), [(1, "[last]"), (2, "[kernel.kallsyms]"), (125, "[last]"), (126, "[kernel.kallsyms]")])
def test_of_a_kernel_and_modules_all_at_address_0_the_one_is_found_that_perf_finds(modules: int, found: str):
    maps = [kernel_mmap(0, 0)] + [kernel_mmap(0, 0, f"[m{number}]") for number in range(modules - 1)]
    source = timeline(*((0, record) for record in [*maps, kernel_mmap(0, ALL, "[last]")]))
    assert dsos(source, (1, 0xFFFFFFFF81000000, 1), mode=MISC_KERNEL) == [found]


def test_a_module_at_address_0_that_is_not_the_last_is_nowhere():
    source = timeline((0, kernel_mmap(0, 0)), (0, kernel_mmap(0, 0x1000, "[one]")))
    assert [dso.name for dso in source.dso_table.dsos] == ["[kernel.kallsyms]"]


def test_an_unknown_thread_keeps_the_mappings_until_its_exit():
    source = timeline((0, mmap(1, 0x1000, 0x1000, "/p")), (5, exited(1)), (8, exited(1, 2)))
    assert dsos(source, (1, 0x1000, 4), (1, 0x1000, 6)) == ["/p", "/p"]
    again = timeline((0, mmap(1, 0x1000, 0x1000, "/p")), (5, exited(1)), (6, fork(1, 9)), (8, exited(1, 2)))
    assert dsos(again, (1, 0x1000, 4), (1, 0x1000, 7), (1, 0x1000, 9)) == ["/p", "-", "-"]


def test_mappings_go_with_the_last_thread():
    source = timeline(
        (0, mmap(1, 0x1000, 0x1000, "/p")), (0, fork(1, 1, tid=2)), (10, exited(1)), (20, exited(1, tid=2)),
        (30, mmap(1, 0x3000, 0x1000, "/new")),
    )  # fmt: skip
    assert dsos(source, (1, 0x1000, 9), (1, 0x1000, 19), (1, 0x1000, 20), (1, 0x3000, 30)) == ["/p", "/p", "-", "/new"]


def test_mappings_stay_where_names_of_threads_do():
    records = [(0, mmap(1, 0x1000, 0x1000, "/p")), (10, exited(1))]
    source = timeline(*records, keep_exited=True)
    assert dsos(source, (1, 0x1000, 20)) == ["/p"]


# Who has which value when: by rank, and by delivery key.


def test_a_value_holds_from_its_rank_until_the_next_value_of_its_owner() -> None:
    history = ValueHistory([5, 6, 5], [1, 2, 4], [10, 20, 30])
    owner, rank = np.array([5, 5, 5, 6, 6, 7], np.uint32), np.array([0, 1, 4, 1, 9, 9])
    assert history.find(owner, rank, -1).tolist() == [-1, 10, 30, -1, 20, -1]


def test_of_equal_moments_the_last_row_counts() -> None:
    assert ValueHistory([5, 5], [1, 1], [10, 20]).find(np.array([5]), np.array([1]), 0).tolist() == [20]
    assert DeliveredValues([5, 5], [7, 7], [10, 20]).find(np.array([5]), np.array([7], np.uint64), 0).tolist() == [20]


def test_keys_may_be_any_64_bit_numbers() -> None:
    late = (1 << 64) - 2
    history = DeliveredValues([5, 0xFFFFFFFF], [1 << 40, late], [10, 20])
    owner, key = np.array([5, 5, -1, -1], np.int32), np.array([(1 << 40) - 1, late, late - 1, late + 1], np.uint64)
    assert history.find(owner, key, 0).tolist() == [0, 10, 0, 20]


def test_without_any_row_all_have_the_default() -> None:
    assert DeliveredValues((), (), ()).find(np.array([5]), np.array([1], np.uint64), 3).tolist() == [3]


def test_many_rows_are_found_like_single_ones() -> None:
    random = np.random.default_rng(32)
    owners, keys = random.integers(0, 40, 300), np.sort(random.integers(1, 1000, 300)).astype(np.uint64)
    history = DeliveredValues(owners, keys, np.arange(300))
    searched_owners = random.integers(-1, 45, 5000)
    searched_keys = np.sort(random.integers(0, 1100, 5000)).astype(np.uint64)
    many = history.find(searched_owners, searched_keys, -1)
    singles = [history.find(searched_owners[row : row + 1], searched_keys[row : row + 1], -1)[0] for row in range(0, 5000, 7)]
    assert many[::7].tolist() == singles


# The index of pieces is linear in them, however they lie.


PAGE = 0x1000


def nested(count: int) -> SpaceBuilder:
    """Return mappings, each inside the one before."""
    builder = SpaceBuilder()
    space = builder.new_space()
    for number in range(count):
        builder.insert(space, Mapping(number * PAGE, (2 * count - number) * PAGE, 0, number % 10), number + 1)
    return builder


def test_nested_mappings_take_memory_by_their_number():
    count = 3000
    builder = nested(count)
    tracemalloc.start()
    builder.build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * 3000  # an entry for each address that each holds takes 100 times that


def test_the_innermost_of_nested_mappings_holds_an_address_from_its_rank_on():
    count = 500
    spaces = nested(count).build()
    moment, page = (grid.ravel() for grid in np.meshgrid(np.arange(1, count + 1), np.arange(2 * count)))
    result, born = spaces.find(np.zeros(len(page), np.int32), (page * PAGE).astype(np.uint64), moment.astype(np.int32))
    depth = np.minimum(np.minimum(page, 2 * count - 1 - page), moment - 1)
    assert (result == depth).all()
    assert (born <= moment).all()


@pytest.mark.parametrize("largest", [2, 5, 1024])
def test_long_and_short_mappings_over_each_other_agree_with_a_plain_replay(largest: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mappings, "_LARGEST", largest)
    rng = np.random.default_rng(1)
    builder, held = SpaceBuilder(), np.full(400, -1)
    space = builder.new_space()
    log = [held.copy()]
    for rank in range(1, 300):
        start = int(rng.integers(0, 390))
        end = min(start + int(rng.choice([1, 5, 40, 300])), 400)
        builder.insert(space, Mapping(start, end, 0, rank % 5), rank)
        held[start:end] = rank % 5
        log.append(held.copy())
    spaces = builder.build()
    moment, address = (grid.ravel() for grid in np.meshgrid(np.arange(300), np.arange(400)))
    result, _ = spaces.find(np.zeros(len(address), np.int32), address.astype(np.uint64), moment.astype(np.int32))
    assert (np.where(result >= 0, spaces.dso[result], -1) == np.array(log)[moment, address]).all()


@pytest.mark.parametrize("seed", range(40))
def test_mappings_that_overlap_little_are_found_at_once_as_by_replay(seed: int, monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(seed)
    starts = [rng.randrange(14) for _ in range(rng.randrange(1, 16))]
    inserted = [(rng.randrange(2), Mapping(start, start + rng.randrange(7), rng.randrange(2), rng.randrange(2))) for start in starts]
    spaces, kinds = [], []
    moment, address = (grid.ravel() for grid in np.meshgrid(np.arange(len(inserted) + 2), np.arange(22)))
    for most in (1 << 10, -1):  # all at once, and all by replay
        monkeypatch.setattr(mappings, "_MOST_PARTS", most)
        builder = SpaceBuilder()
        numbers = [builder.new_space() for _ in range(2)]
        for rank, (space, mapping) in enumerate(inserted, 1):
            builder.insert(numbers[space], mapping, rank)
        spaces.append(builder.build())
        found = [
            spaces[-1].find(np.full(len(moment), one, np.int32), address.astype(np.uint64), moment.astype(np.int32))[0] for one in (0, 1)
        ]
        kinds.append([np.where(one >= 0, spaces[-1].dso[one] * 2 + spaces[-1].bias[one].astype(np.int64), -1).tolist() for one in found])
    assert kinds[0] == kinds[1]
    assert spaces[0].conflicts == spaces[1].conflicts


# Chains of forks joined to lines answer as the chains do, in few steps.


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Join chains of any length."""
    monkeypatch.setattr(mappings, "_DEPTH", 0)


def chain(length: int) -> AddressSpaces:
    """Return a space with a mapping, and a chain of spaces that each map something else."""
    builder = SpaceBuilder()
    space = builder.new_space()
    builder.insert(space, Mapping(0x1000, 0x2000, 0, 7), 1)
    for number in range(1, length):
        space = builder.new_space(space, 2 * number)
        builder.insert(space, Mapping(0x10000 * number, 0x10000 * number + 0x1000, 0, 8), 2 * number + 1)
    return builder.build()


def find_first(spaces: AddressSpaces, length: int) -> list[int]:
    """Return the dso of each space of a chain at the first one's mapping."""
    last = np.full(length, FOREVER - 1, np.int32)
    result, _ = spaces.find(np.arange(length, dtype=np.int32), np.full(length, 0x1000, np.uint64), last)
    dsos_found: list[int] = np.where(result >= 0, spaces.dso[result], -1).tolist()
    return dsos_found


def test_a_look_up_in_a_long_chain_takes_few_steps(monkeypatch: pytest.MonkeyPatch):
    length, steps = 4000, 0
    spaces = chain(length)
    search = np.searchsorted

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        return search(*args, **options)

    monkeypatch.setattr(np, "searchsorted", counted)
    assert find_first(spaces, length) == [7] * length
    assert steps < 100


def test_a_space_in_a_chain_has_its_own_dsos_and_its_parent():
    spaces = chain(100)
    assert (spaces.dsos(0), spaces.dsos(99), spaces.parent(99), spaces.parent(0)) == ([7], [8], 98, -1)


def test_short_chains_stay_unchanged():
    assert find_lines(np.arange(-1, 30, dtype=np.int32), np.zeros(31, np.int32)) is None


@pytest.mark.parametrize(("seed", "is_joined"), [*((seed, True) for seed in range(6)), (3, False)])
@pytest.mark.slow
def test_random_histories_agree_with_a_plain_replay(seed: int, is_joined: bool, request: pytest.FixtureRequest):
    if is_joined:
        request.getfixturevalue("joined")
    rng = random.Random(seed)
    builder = SpaceBuilder()
    plain: list[dict[int, int]] = []  # every address of every space, copied at forks
    log: list[list[dict[int, int]]] = [[]]
    for rank in range(1, 200):
        if not plain or rng.random() < 0.2:
            parent = rng.randrange(max(len(plain) - 4, 0), len(plain)) if plain and rng.random() < 0.95 else -1
            builder.new_space(parent, rank)
            plain.append(dict(plain[parent]) if parent >= 0 else {})
        else:
            space, start, dso = rng.randrange(len(plain)), rng.randrange(40), rng.randrange(4)
            end = start + rng.randrange(1, 12)
            builder.insert(space, Mapping(start, end, 0, dso), rank)
            plain[space].update(dict.fromkeys(range(start, end), dso))
        log.append([dict(space) for space in plain])
    spaces = builder.build()
    queries = [(space, address, rank) for rank in range(1, 200, 3) for space in range(len(log[rank])) for address in range(52)]
    places, addresses, ranks = (np.array(column) for column in zip(*queries, strict=True))
    result, _ = spaces.find(places.astype(np.int32), addresses.astype(np.uint64), ranks.astype(np.int32))
    got = np.where(result >= 0, spaces.dso[result], -1).tolist()
    assert got == [log[when][where].get(at, -1) for where, at, when in queries]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
def test_samples_of_joined_chains_have_the_mappings_of_their_time(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Samples use views, which are valid for a span of ranks."""
    rng = random.Random(seed)
    records: list[tuple[int, Any]] = [(0, mmap(1, 0x1000, 0x8000, "/first"))]
    pids = [1]
    for key in range(1, 120):
        pid = rng.choice(pids[-4:])
        if rng.random() < 0.25:
            pids.append(len(pids) + 1)
            records.append((key, fork(pids[-1], pid)))
        elif rng.random() < 0.05:
            records.append((key, exited(pid)))
        else:
            records.append((key, mmap(pid, rng.randrange(16) * 0x1000, rng.randrange(1, 6) * 0x1000, f"/{rng.randrange(6)}")))
    samples = [(pid, page * 0x1000, key) for key in range(120) for pid in pids for page in range(20)]
    one_by_one = dsos(timeline(*records), *samples)
    monkeypatch.setattr(mappings, "_DEPTH", 0)
    assert dsos(timeline(*records), *samples) == one_by_one
    assert len(set(one_by_one)) > 5
