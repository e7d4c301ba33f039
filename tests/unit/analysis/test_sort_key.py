"""Sort keys and their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import MISC_KERNEL, MISC_SWITCH_OUT
from perfpy.abi.perfpy_encodings import FIRST_ADDRESS, MAPPED_SIZE, GilState, mapping_of
from perfpy.abi.records import Exit, Namespaces, SampleId, Switch, SwitchCpuWide
from perfpy.analysis import event_sort_keys, location_sort_keys, sort_keys
from perfpy.analysis.dimensions import gil_states
from perfpy.analysis.event_sort_keys import field_keys
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.locations import ROLE_BITS, Locations, sample_locations
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import KeyStyle, KeyTexts, MachineTexts, TaskComms, TraceData, container_of
from perfpy.errors import PerfError
from perfpy.perfdata.event_format import parse_format
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.header import CpuCount, Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.perfdata import PerfDataBuilder, usual_attr
from tests.builders.timeline import frames, kernel_mmap, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.report.report import Report


# Grouping and texts of sort keys.


KERNEL = 0xFFFFFFFF81000000
FORMAT = """name: example
ID: 9
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:int named;\toffset:4;\tsize:4;\tsigned:1;
\tfield:int other;\toffset:8;\tsize:4;\tsigned:1;

print fmt: "named=%d", REC->named
"""


@pytest.fixture
def kernel(tmp_path):
    """Return two instructions of a function, two addresses of data after it, and an unmapped one: frames 0 to 4."""
    (tmp_path / "kallsyms").write_text(f"{KERNEL:x} T _text\n{KERNEL + 0x100:x} t helper\n{KERNEL + 0x200:x} d table\n")
    options = SymbolOptions(symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"), cache=False)
    symbolizer = Symbolizer(timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL))), options)
    frames(symbolizer, *((1, KERNEL + at, 1) for at in (0x104, 0x108, 0x210, 0x260, -0x1000)), mode=MISC_KERNEL)
    return known(locations=Locations(symbolizer))


def known(**parts):
    """Return KeyTexts with the parts that a test needs."""
    return KeyTexts(**{"locations": None, "sources": None, "tasks": None, "trace": None, **parts})


class Worded:
    """Payloads formatted by one function; notes the number of each request."""

    def __init__(self, text):
        self.text = text
        self.asked = []

    def texts(self, payloads):
        self.asked.append(len(payloads))
        return [self.text(payload) for payload in payloads]

    def raw_text(self, payload):
        return f" field={payload[0]}"

    def field_text(self, _payload, name):
        return f"{name} in full"


def texts(column, count=5):
    return [column.text(number) for number in range(count)]


def test_data_are_shown_with_the_offset_in_them(kernel):
    unmapped = f"[k] {KERNEL - 0x1000:#x}"
    output = ["[k] helper", "[k] helper", "[k] table+0x10", "[k] table+0x60", unmapped]
    assert texts(location_sort_keys.symbol(kernel, sample_locations(np.arange(5)))) == output
    assert texts(event_sort_keys.data_symbol(kernel, np.arange(5))) == output


@pytest.mark.parametrize("key", [location_sort_keys.symbol, location_sort_keys.dso], ids=["symbol", "dso"])
@pytest.mark.parametrize("verbose", [False, True])
def test_texts_of_many_equal_single_texts(kernel, key, verbose):
    column = key(kernel._replace(style=KeyStyle(verbose=verbose)), np.arange(5 << ROLE_BITS))  # every frame in every role
    numbers = np.array([19, 3, 3, 16, 0, 8, 12, 1, 2, 7])
    assert column.texts_of(numbers) == [column.text(number) for number in numbers.tolist()]
    for some in (numbers, numbers[:1], numbers[:0]):
        assert column.width_of(some) == max(map(column.wide, some.tolist()), default=0)


def test_places_are_one_row_where_they_are_one_function_or_one_address(kernel):
    same = location_sort_keys.symbol(kernel, sample_locations(np.array([4, 0, 2, 1, 3, 4]))).same
    assert [same.tolist().index(number) for number in same.tolist()] == [0, 1, 2, 1, 2, 0]
    assert same[1] < same[2] < same[0]  # by their addresses, and bare addresses last


def test_cache_lines_where_nothing_is_mapped_have_an_x(kernel):
    assert texts(event_sort_keys.cache_line(kernel, np.arange(5)))[4] == f"[X] {KERNEL - 0x1000:#x}"


def test_cache_lines_that_nothing_maps_are_in_the_order_of_their_unsigned_addresses():
    symbolizer = Symbolizer(timeline(), SymbolOptions(cache=False))
    frames(symbolizer, *((1, address, 1) for address in (0xFFFF888BDE5C09C0, 0x7F0617959D00, 0x40)))
    column = event_sort_keys.cache_line(known(locations=Locations(symbolizer)), np.arange(3))
    assert np.argsort(column.order).tolist() == [2, 1, 0] == np.argsort(column.same).tolist()


def test_cache_lines_of_files_are_in_the_order_of_the_files_inodes():
    first, second = (mmap(1, 0x10000 * number, 0x1000, f"/data{number}")._replace(ino=inode) for number, inode in ((1, 9), (2, 5)))
    symbolizer = Symbolizer(timeline((0, first), (0, second)), SymbolOptions(cache=False))
    frames(symbolizer, (1, 0x10040, 1), (1, 0x20080, 1))
    column = event_sort_keys.cache_line(known(locations=Locations(symbolizer)), np.arange(2))
    assert np.argsort(column.order).tolist() == [1, 0]


@pytest.mark.parametrize("name", ["symbol", "data_symbol", "code_symbol", "cache_line"])
def test_symbols_of_branches_and_accesses_have_an_address_and_an_origin_if_verbose(kernel, name):
    """As the symbols of samples: 18 characters for the address, and a letter, `!` without a file."""
    column = getattr(event_sort_keys, name)
    plain, verbose = (texts(column(one, np.arange(5))) for one in (kernel, kernel._replace(style=KeyStyle(verbose=True))))
    assert [text[21:] for text in verbose] == plain
    assert [text[18:21] for text in verbose][-1] == " ! "
    assert all(text.startswith("0x") and text[19] != "!" for text in verbose[:4])
    wide = (column(one, np.arange(5)).wide(0) for one in (kernel, kernel._replace(style=KeyStyle(verbose=True))))
    assert -int.__sub__(*wide) == (21 if name == "symbol" else 0)  # perf widens no columns of accesses


def test_offsets_of_data_are_shown_once(kernel):
    assert texts(location_sort_keys.symbol_offset(kernel, sample_locations(np.arange(4))), 4)[2:] == ["[k] table+0x10", "[k] table+0x60"]


def test_functions_have_rows_of_their_own_where_instructions_per_cycle_are_unknown(kernel):
    column = location_sort_keys.no_ipc(kernel, sample_locations(np.arange(3)))
    assert column.same[0] == column.same[1] != column.same[2]
    assert len(set(texts(column, 3))) == 1


def test_tracepoints_data_are_shown_unformatted_on_request():
    for raw_trace, expected in ((False, "nice 7"), (True, " field=7")):
        data = TraceData([b"", b"\7"], Worded(lambda payload: f"nice {payload[0]}"))
        column = location_sort_keys.trace(known(trace=data, style=KeyStyle(raw_trace=raw_trace)), np.arange(2))
        assert texts(column, 2) == ["N/A", expected]


def test_tracepoints_data_that_nothing_can_word_are_not_available():
    assert texts(location_sort_keys.trace(known(trace=TraceData([b"", b"\7"])), np.arange(2)), 2) == ["N/A", "N/A"]


def test_all_payloads_are_worded_at_once_and_only_once():
    words = Worded(lambda payload: f"nice {payload[0]}")
    data = TraceData([bytes([number]) for number in range(100)], words)
    assert data.texts([3, 3, 5]) == ["nice 3", "nice 3", "nice 5"]
    assert texts(location_sort_keys.trace(known(trace=data), np.arange(100)), 4) == ["nice 0", "nice 1", "nice 2", "nice 3"]
    assert words.asked == [2, 98]


def test_commands_that_differ_in_numbers_only_are_one_row():
    tasks = TaskComms(["kworker/0:1", "kworker/12:3", "sh"], str)
    column = sort_keys.comm_without_digits(known(tasks=tasks), np.arange(3))
    assert [column.text(number) for number in range(3)] == ["kworker/<N>:<N>", "kworker/<N>:<N>", "sh"]
    assert column.same[0] == column.same[1] != column.same[2]


def test_sockets_of_unknown_cpus_are_minus_one():
    machine = MachineTexts(socket_of=lambda cpu: {0: 0, 1: 12}.get(cpu, -1))
    column = sort_keys.socket(known(machine=machine), np.array([0, 1, 7]))
    assert [column.text(number) for number in range(3)] == ["000", "012", "-001"]


def test_cgroups_have_their_paths():
    column = sort_keys.cgroup(known(machine=MachineTexts(cgroup_name={5: "/user.slice"}.get)), np.array([0, 5, 6]))
    assert [column.text(number) for number in range(3)] == ["N/A", "/user.slice", "unknown"]
    assert column.wide(1) == len("/user.slice")


def test_rows_without_a_parent_come_last_and_ask_for_no_width():
    column = location_sort_keys.parent(known(parents=("sys_write", "sys_read")), np.array([-1, 0, 1]))
    assert texts(column, 3) == ["[other]", "sys_write", "sys_read"]
    assert np.argsort(column.order).tolist() == [2, 1, 0]
    assert [column.wide(number) for number in range(3)] == [0, 9, 8]


def test_fields_that_an_events_text_lacks_ask_for_no_width():
    events = [FileEvent(usual_attr(type=2, config=9), (1,), "sys:example", 0)]
    formats = {9: parse_format(FORMAT, "sys", 8)}
    data = TraceData([b"\t\0" + bytes(10)], Worded(lambda _payload: "named=777777777777777777"))
    keys = field_keys("*", events, formats, raw=False, endian="<")
    known_column, other = (key.column(known(trace=data), np.zeros(1, np.int64)) for key in keys)
    assert (known_column.text(0), known_column.wide(0)) == ("7" * 18, 18)
    assert (other.text(0), other.wide(0)) == ("other in full", 0)


TEXT_FORMAT = """name: exec
ID: 9
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:__data_loc char[] filename;\toffset:4;\tsize:4;\tsigned:1;

print fmt: "filename=%s", __get_str(filename)
"""


def test_hidden_texts_of_dynamic_fields_widen_the_column():
    events = [FileEvent(usual_attr(type=2, config=9), (1,), "sys:exec", 0)]
    payloads = [b"\t\0\0\0" + (8 | len(name) << 16).to_bytes(4, "little") + name for name in (b"/bin/longer\0", b"/sh\0")]
    (key,) = field_keys("*", events, {9: parse_format(TEXT_FORMAT, "sys", 8)}, raw=True, endian="<")
    column = key.column(known(trace=TraceData(payloads, Worded(str))), np.arange(2))
    assert column.width_of(np.zeros(0, np.int64)) == 12 == column.width_of(np.array([1]))


# Containers by the paths of their cgroups.


ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "host"),
        ("", "host"),
        ("/user.slice/user-1000.slice/session-1.scope", "host"),
        (f"/docker/{ID}", "docker 0123456789ab"),
        (f"/system.slice/docker-{ID}.scope", "docker 0123456789ab"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman 0123456789ab"),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "containerd 0123456789ab"),
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", "cri-o 0123456789ab"),
        (f"/kubepods/burstable/pod1-2/{ID}", "kubernetes 0123456789ab"),
        (f"/default/{ID}", "containerd 0123456789ab"),
        (f"/somewhere/{ID}", "container 0123456789ab"),
        (f"/docker/{'f' * 64}/system.slice/docker-{ID}.scope", "docker 0123456789ab"),  # a container in a container
        ("/lxc/web/init.scope", "lxc web"),
        ("/lxc.payload.web/system.slice/ssh.service", "lxc web"),
        ("/machine.slice/machine-buster.scope", "machine buster"),
        ("/machine.slice/systemd-nspawn@web.service/payload", "nspawn web"),
        (f"/system.slice/docker-{ID[1:]}.scope", "host"),
    ],
)
def test_the_innermost_container_is_named_by_its_runtime(path: str, name: str) -> None:
    assert container_of(path) == name


# Who has the GIL, by the addresses of Python frames.


NATIVE = 0x7F00_0000_0000


def states(*chains: list[int]) -> list[int]:
    offsets = np.cumsum([0, *map(len, chains)])
    values = [value for chain in chains for value in chain]
    result: list[int] = gil_states(Ragged(np.array(values, np.uint64), offsets.astype(np.int64))).tolist()
    return result


def test_the_innermost_python_frame_has_the_state():
    assert [states([NATIVE, mapping_of(state) + 0x20, NATIVE, FIRST_ADDRESS + 0x40])[0] for state in GilState] == [0, 1, 2, 3]


def test_chains_without_python_have_none():
    assert states([], [NATIVE], [FIRST_ADDRESS - 1, (1 << 64) - 512], [mapping_of(GilState.WAITS) + 5], []) == [0, 0, 0, 3, 0]
    assert states([FIRST_ADDRESS + len(GilState) * MAPPED_SIZE]) == [0]
    assert states() == []


def test_every_state_has_its_own_mapping():
    ends = [mapping_of(state) + MAPPED_SIZE for state in GilState]
    assert [mapping_of(state) for state in GilState] == [FIRST_ADDRESS, *ends[:-1]]


# The number of running threads at each sample, and the sample's share of the wall clock.


MAIN, OTHER = 7, 8


def at(time: int, tid: int = MAIN) -> SampleId:
    return SampleId(pid=MAIN, tid=tid, time=time)


def switch(time: int, tid: int, *, out: bool) -> Switch:
    return Switch(MISC_SWITCH_OUT if out else 0, at(time, tid))


def two_threads() -> PerfDataBuilder:
    """Let MAIN run alone, then with OTHER, which is switched out, comes back and exits."""
    built = PerfDataBuilder().feature(Feature.NRCPUS, CpuCount(4, 4))
    steps: list[Any] = [
        *[(time, MAIN) for time in (10, 20)],
        switch(30, OTHER, out=False),
        *[(time, OTHER) for time in (40, 50)],
        (60, MAIN),
        switch(70, OTHER, out=True),
        (80, MAIN),
        switch(90, OTHER, out=False),
        (100, OTHER),
        Exit(0, MAIN, 1, OTHER, MAIN, 110, at(110, OTHER)),
        (120, MAIN),
    ]
    for step in steps:
        if type(step) is tuple:
            built.sample(pid=MAIN, tid=step[1], time=step[0], ip=0x1000, period=100)
        else:
            built.record(step)
    return built


def report(built: PerfDataBuilder, folder: Path, columns: ColumnOptions, sample_filter: SampleFilter | None = None) -> Report:
    path = folder / "perf.data"
    path.write_bytes(built.file())
    with Recording(path) as recording:
        return recording.report(options=ReportOptions(columns=columns, sample_filter=sample_filter or SampleFilter()))


def rows(found: Report, *metrics: str) -> list[tuple[Any, ...]]:
    histogram = found.histograms[0]
    return [(*row.texts.values(), *(round(histogram.percent(name, row.entry), 1) for name in metrics)) for row in histogram.rows()]


def test_samples_are_separated_by_the_threads_that_ran(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="parallelism"))
    assert [(texts, row.values["samples"]) for texts, row in zip(rows(result), result.top(), strict=True)] == [(("1",), [4]), (("2",), [4])]


def test_shares_of_the_wall_clock_are_halved_while_two_threads_run(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="pid,parallelism", latency=True))
    assert [entry.name for entry in result.layout.fields][:2] == ["latency", "overhead"]
    assert rows(result, "latency", "period") == [
        ("      7::7", "1", 66.7, 50.0),
        ("      8::8", "2", 25.0, 37.5),
        ("      7::7", "2", 8.3, 12.5),
    ]


def test_json_has_shares_of_the_wall_clock_on_request(tmp_path: Path) -> None:
    row = report(two_threads(), tmp_path, ColumnOptions(sort="parallelism", latency=True)).to_dict()["events"][0]["rows"][0]
    assert (row["keys"], row["overhead"]) == ({"parallelism": "1"}, 50)
    assert row["latency"] == pytest.approx(200 / 3)
    assert "latency" not in report(two_threads(), tmp_path, ColumnOptions(sort="parallelism")).to_dict()["events"][0]["rows"][0]


def test_only_samples_of_some_parallelism_are_shown(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="pid"), SampleFilter(parallelism=(2, 3)))
    assert rows(result, "period") == [("      8::8", 37.5), ("      7::7", 12.5)]


def test_no_more_threads_run_than_there_are_cpus(tmp_path: Path) -> None:
    built = PerfDataBuilder().feature(Feature.NRCPUS, CpuCount(2, 2))
    for tid in range(10, 15):
        built.record(switch(tid, tid, out=False))
    built.sample(pid=MAIN, tid=MAIN, time=100, ip=0x1000, period=1)
    assert rows(report(built, tmp_path, ColumnOptions(sort="parallelism"))) == [("2",)]


@pytest.mark.parametrize("records", [[], [SwitchCpuWide(0, 1, 1, at(5))]], ids=["none", "of whole CPUs"])
def test_without_switches_of_threads_there_is_no_latency(records: list[Any], tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for record in records:
        built.record(record)
    built.sample(pid=MAIN, tid=MAIN, time=100, ip=0x1000, period=1)
    with pytest.raises(PerfError, match="record with --latency, without -a"):
        report(built, tmp_path, ColumnOptions(latency=True))


# The cgroup namespace of a thread at the time of a sample.


def test_the_newest_namespace_of_a_thread_counts(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for time, tid, inode in ((10, MAIN, 0xA0), (30, MAIN, 0xB0), (5, OTHER, 0xA0)):
        stamp = SampleId(pid=MAIN, tid=tid, time=time, cpu=0)
        built.record(Namespaces(0, MAIN, tid, ((3, 1),) * 6 + ((4, inode),), stamp))
    for time, tid in ((20, MAIN), (40, MAIN), (50, MAIN), (60, OTHER), (70, 9), (1, MAIN)):
        built.sample(pid=MAIN, tid=tid, time=time, ip=0x1000, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(tmp_path / "perf.data") as recording:
        rows = recording.report("cgroup_id").top()
    assert {row.texts["cgroup_id"]: row.values["samples"][0] for row in rows} == {"4/0xa0": 2, "4/0xb0": 2, "0/0x0": 2}
