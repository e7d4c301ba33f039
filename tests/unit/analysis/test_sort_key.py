"""Grouping and texts of sort keys."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL
from perfpy.analysis import event_sort_keys, location_sort_keys, sort_keys
from perfpy.analysis.event_sort_keys import field_keys
from perfpy.analysis.locations import ROLE_BITS, Locations, sample_locations
from perfpy.analysis.sort_key import KeyStyle, KeyTexts, MachineTexts, TaskComms, TraceData, container_of
from perfpy.perfdata.event_format import parse_format
from perfpy.perfdata.events import FileEvent
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.perfdata import usual_attr
from tests.builders.timeline import frames, kernel_mmap, timeline

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
