"""How sort keys group and word the numbers of their sources."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL
from perfpy.analysis.samples.locations import ROLE_BITS, Locations, sample_locations
from perfpy.analysis.sortkeys import key_columns, memory_columns
from perfpy.analysis.sortkeys.key_columns import KeyContext
from perfpy.analysis.sortkeys.trace_fields import field_keys
from perfpy.perfdata.container.events import FileEvent
from perfpy.perfdata.tracepoints.event_format import parse_format
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
    """Two instructions of a function, two places in data behind it, and one where nothing is: frames 0 to 4."""
    (tmp_path / "kallsyms").write_text(f"{KERNEL:x} T _text\n{KERNEL + 0x100:x} t helper\n{KERNEL + 0x200:x} d table\n")
    options = SymbolOptions(symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"), cache=False)
    symbolizer = Symbolizer(timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL))), options)
    frames(symbolizer, *((1, KERNEL + at, 1) for at in (0x104, 0x108, 0x210, 0x260, -0x1000)), mode=MISC_KERNEL)
    return KeyContext(Locations(symbolizer), comms=[], last_comm=lambda _tid: "")


def texts(column, count=5):
    return [column.text(number) for number in range(count)]


def test_data_are_shown_with_the_offset_in_them(kernel):
    unmapped = f"[k] {KERNEL - 0x1000:#x}"
    shown = ["[k] helper", "[k] helper", "[k] table+0x10", "[k] table+0x60", unmapped]
    assert texts(key_columns.symbol(kernel, sample_locations(np.arange(5)))) == shown
    assert texts(memory_columns.data_symbol(kernel, np.arange(5))) == shown


@pytest.mark.parametrize("key", [key_columns.symbol, key_columns.dso], ids=["symbol", "dso"])
@pytest.mark.parametrize("verbose", [False, True])
def test_many_texts_are_those_of_each(kernel, key, verbose):
    kernel.verbose = verbose
    column = key(kernel, np.arange(5 << ROLE_BITS))  # every frame in every role
    numbers = np.array([19, 3, 3, 16, 0, 8, 12, 1, 2, 7])
    assert column.texts_of(numbers) == [column.text(number) for number in numbers.tolist()]
    for some in (numbers, numbers[:1], numbers[:0]):
        assert column.width_of(some) == max(map(column.wide, some.tolist()), default=0)


def test_places_are_one_row_where_they_are_one_function_or_one_address(kernel):
    same = key_columns.symbol(kernel, sample_locations(np.array([4, 0, 2, 1, 3, 4]))).same
    assert [same.tolist().index(number) for number in same.tolist()] == [0, 1, 2, 1, 2, 0]
    assert same[1] < same[2] < same[0]  # by their addresses, and bare addresses last


def test_cache_lines_where_nothing_is_mapped_have_an_x(kernel):
    assert texts(memory_columns.cache_line(kernel, np.arange(5)))[4] == f"[X] {KERNEL - 0x1000:#x}"


def test_offsets_of_data_are_shown_once(kernel):
    assert texts(key_columns.symbol_offset(kernel, sample_locations(np.arange(4))), 4)[2:] == ["[k] table+0x10", "[k] table+0x60"]


def test_functions_have_rows_of_their_own_where_instructions_per_cycle_are_not_known(kernel):
    column = key_columns.no_ipc(kernel, sample_locations(np.arange(3)))
    assert column.same[0] == column.same[1] != column.same[2]
    assert len(set(texts(column, 3))) == 1


def test_tracepoints_data_are_shown_unformatted_where_that_is_asked_for():
    payloads = SimpleNamespace(text=lambda data: f"nice {data[0]}", raw_text=lambda data: f" field={data[0]}")
    for raw_trace, expected in ((False, "nice 7"), (True, " field=7")):
        facts = SimpleNamespace(payloads=payloads, raw=[b"", b"\7"], raw_trace=raw_trace)
        column = key_columns.trace(facts, np.arange(2))
        assert texts(column, 2) == ["N/A", expected]


def test_commands_that_differ_in_numbers_only_are_one_row():
    facts = SimpleNamespace(comms=["kworker/0:1", "kworker/12:3", "sh"])
    column = key_columns.comm_without_digits(facts, np.arange(3))
    assert [column.text(number) for number in range(3)] == ["kworker/<N>:<N>", "kworker/<N>:<N>", "sh"]
    assert column.same[0] == column.same[1] != column.same[2]


def test_sockets_of_unknown_cpus_are_minus_one():
    facts = SimpleNamespace(socket_of=lambda cpu: {0: 0, 1: 12}.get(cpu, -1))
    column = key_columns.socket(facts, np.array([0, 1, 7]))
    assert [column.text(number) for number in range(3)] == ["000", "012", "-001"]


def test_cgroups_have_their_paths():
    facts = SimpleNamespace(cgroup_name={5: "/user.slice"}.get)
    column = key_columns.cgroup(facts, np.array([0, 5, 6]))
    assert [column.text(number) for number in range(3)] == ["N/A", "/user.slice", "unknown"]
    assert column.wide(1) == len("/user.slice")


def test_fields_that_an_events_text_lacks_ask_for_no_width():
    events = [FileEvent(usual_attr(type=2, config=9), (1,), "sys:example", 0)]
    formats = {9: parse_format(FORMAT, "sys", 8)}
    payloads = SimpleNamespace(text=lambda _data: "named=777777777777777777", field_text=lambda _data, name: f"{name} in full")
    facts = SimpleNamespace(payloads=payloads, payload_text=payloads.text, raw=[b"\t\0" + bytes(10)])
    named, other = (key.column(facts, np.zeros(1, np.int64)) for key in field_keys("*", events, formats, raw=False, endian="<"))
    assert (named.text(0), named.wide(0)) == ("7" * 18, 18)
    assert (other.text(0), other.wide(0)) == ("other in full", 0)
