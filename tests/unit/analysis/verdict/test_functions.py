"""Tests of the functions of samples, and of their callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi.flags import NATIVE_ENDIAN, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import IS_WAIT, OFF_CPU_EVENT
from perfpy.abi.records import Comm, Mmap2
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME, UNKNOWN, category
from perfpy.analysis.verdict.functions import Share, sampled_functions
from perfpy.perfdata.header import EventDesc, Feature, encode_feature
from perfpy.recording import Recording
from perfpy.symbols.dso import Dso, DsoKind
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.verdict.functions import SampledFunctions


IN_KERNEL, IN_USER_SPACE = 2**64 - 128, 2**64 - 512  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER
READ, MAIN, SCHEDULE = 0x400010, 0x400110, 0xFFFFFFFF81000010


def test_the_caller_of_a_wait_is_not_a_function_of_the_kernel(tmp_path: Path):
    """A wait counts for the user function, whose callees, of the kernel, begin the callchain."""
    fields = USUAL | SampleType.IDENTIFIER | SampleType.CALLCHAIN
    waits = usual_attr(fields | SampleType.WEIGHT_STRUCT, config=SoftwareId.BPF_OUTPUT, sample_period=1, freq=0)
    built = PerfDataBuilder([waits], [(1,)])
    described = (EventDesc(waits, OFF_CPU_EVENT, built.ids[0]),)
    built.features[int(Feature.EVENT_DESC)] = encode_feature(Feature.EVENT_DESC, described, NATIVE_ENDIAN)
    built.record(Comm(0, 7, 7, "program"))
    program = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("read", 0x1000, 256).symbol("main", 0x1100, 256)
    (tmp_path / "program").write_bytes(program.build())
    built.record(Mmap2(2, 7, 7, 0x400000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, str(tmp_path / "program"), b""))
    chain = (IN_KERNEL, SCHEDULE, IN_USER_SPACE, READ, MAIN)
    built.sample(
        0, pid=7, tid=7, misc=2, ip=READ, time=10, callchain=chain, period=9, weight=0, ins_lat=ord("S"), retire_lat=IS_WAIT
    )  # fmt: skip
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(str(tmp_path / "perf.data")) as recording:
        report = recording.report(
            options=ReportOptions(columns=ColumnOptions(sort="symbol", children=True), chains=ChainOptions(CallGraph(), children=True))
        )
        (histogram,) = report.histograms
        functions = sampled_functions(report, histogram)
        callers = {functions.name(leaf): caller for leaf, caller in functions.hottest_callers().items()}
    assert callers == {"read": Share("main", 1.0)}


# Tests of the categories of functions.


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("/home/me/app", "main", OWN),
        ("/home/me/app", "void order<Row>(std::vector<Row>&)", OWN),
        ("/home/me/app", "std::vector<int> parse<char>(char)", OWN),
        ("/home/me/app", "void std::__introsort_loop<int*>(int*, int*)", LIBRARY),
        ("/home/me/app", "<alloc::vec::Vec<T> as core::ops::Drop>::drop", LIBRARY),
        ("/home/me/app", "<&dyn core::ops::function::Fn<()> as core::ops::function::FnOnce<()>>::call_once", LIBRARY),
        ("/home/me/app", "<str as core::cmp::PartialEq>::eq", LIBRARY),
        ("/home/me/app", "<app::Word as core::cmp::PartialEq>::eq", OWN),
        ("/home/me/app", "_$LT$core..hash..sip..Hasher$LT$S$GT$$u20$as$u20$core..hash..Hasher$GT$::write::h7eb1c0393791192f", LIBRARY),
        ("/home/me/app", "bool std::operator< <char>(std::string const&, std::string const&)", LIBRARY),
        ("/home/me/app", "bool own::operator< <char>(own::Key const&)", OWN),
        ("/home/me/app", "<str>::to_uppercase", LIBRARY),
        ("/home/me/app", "<shop::Order>::total", OWN),
        ("/home/me/app", "fmt.(*pp).doPrintf", LIBRARY),
        ("/home/me/app", "net/http.(*conn).serve", LIBRARY),
        ("/home/me/app", "main.main", OWN),
        ("/home/me/app", "github.com/me/sort.Strings", OWN),
        ("/home/me/app", "sort.constprop.0", OWN),
        ("/home/me/app", "runtime.mallocgc", RUNTIME),
        ("/home/me/app", "_start", RUNTIME),
        ("/home/me/static", "_int_malloc", RUNTIME),
        ("/home/me/build/libparser.so.1", "parse", OWN),
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "AES_encrypt", LIBRARY),
        ("/home/me/venv/lib/python3.11/site-packages/numpy/core/_multiarray.so", "add", LIBRARY),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "memcpy", RUNTIME),
        ("/usr/bin/python3.11", "_PyEval_EvalFrameDefault", INTERPRETER),
        ("/usr/bin/bash", "execute_command", INTERPRETER),
        ("/usr/bin/node", "sha512_block_data_order_avx2", LIBRARY),
        ("/usr/bin/node", "Builtins_StringPrototypeSplit", INTERPRETER),
        ("/usr/bin/node", "v8::internal::JsonParser<unsigned char>::ParseJson()", INTERPRETER),
        ("/usr/bin/node", "_ZN2v88internal4Heap", INTERPRETER),
        ("/usr/bin/node", "", INTERPRETER),
    ],
)
def test_the_path_and_the_name_decide(path: str, name: str, expected: int) -> None:
    assert category(Dso(path), name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("py::parse:/srv/app.py", OWN),
        ("py::parse:app.py", OWN),
        ("py::[GIL held by crunch, thread 7]:/srv/app.py", LIBRARY),
        ("py::[event loop blocked for over 100 ms]:<asyncio>", LIBRARY),
        ("py::loads:/usr/lib/python3.11/json/__init__.py", LIBRARY),
        ("py::_find:<frozen importlib._bootstrap>", LIBRARY),
        ("JS:*handle file:///srv/app.js:12:34", OWN),
        ("JS:*route /srv/node_modules/express/index.js:1:1", LIBRARY),
        ("JS:^next node:internal/queue:69:14", INTERPRETER),
        ("Lcom/example/Main;::run", OWN),
        ("Ljava/util/HashMap;::get", LIBRARY),
        ("java.lang.String Main.join(int)", OWN),
        ("java.lang.Object jdk.internal.misc.Unsafe.allocateUninitializedArray(java.lang.Class, int)", LIBRARY),
        ("BytecodeHandler:Ldar", INTERPRETER),
    ],
)
def test_generated_code_is_divided_by_name(name: str, expected: int) -> None:
    assert category(Dso("/tmp/perf-12.map", DsoKind.JIT), name) == expected


def test_the_kernel_and_memory_without_a_file() -> None:
    assert category(Dso("[kernel.kallsyms]", DsoKind.KERNEL), "schedule") == KERNEL
    assert category(None, "") == category(Dso("//anon", DsoKind.NONE), "") == UNKNOWN


CODE = 0x400000
#: name -> its start in the program, and its end
NAMED = {"start": (0x1000, 0x1100), "app::count": (0x1100, 0x1200), "std::find": (0x1200, 0x1300), "main::{lambda}": (0x1300, 0x1400)}
NAMELESS = 0x1800


def functions_of_chains(folder: Path, chains: list[tuple[int, ...]]) -> SampledFunctions:
    """Return the functions of samples with these chains of offsets in the program, the innermost first."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(0, 7, 7, "program"))
    program = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    for name, (begin, end) in NAMED.items():
        program.symbol(name, begin, end - begin)
    (folder / "program").write_bytes(program.build())
    built.record(Mmap2(2, 7, 7, CODE, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, str(folder / "program"), b""))
    for time, chain in enumerate(chains, 10):
        addresses = [CODE + offset - 0x1000 for offset in chain]
        built.sample(0, pid=7, tid=7, misc=2, ip=addresses[0], time=time, period=1, callchain=(IN_USER_SPACE, *addresses))
    (folder / "perf.data").write_bytes(built.file())
    with Recording(str(folder / "perf.data")) as recording:
        options = ReportOptions(columns=ColumnOptions(sort="symbol"), chains=ChainOptions(CallGraph()))
        report = recording.report(options=options)
        return sampled_functions(report, report.histograms[0])


def test_code_without_a_name_counts_for_its_named_caller_or_else_for_itself_alone(tmp_path: Path):
    """A nameless function that calls everything has its own samples only, so that it hides nobody."""
    start, count, find = 0x1010, 0x1110, 0x1210
    functions = functions_of_chains(
        tmp_path, [(find, NAMELESS, count, start), (NAMELESS, start), (NAMELESS,), (find, NAMELESS), (find, NAMELESS)]
    )
    hottest = {one.name: (one.charged, one.own) for one in functions.hottest(9)}
    assert hottest == {"app::count": (0.2, 0.0), "start": (0.2, 0.0), "": (0.4, 0.4), "std::find": (0.6, 0.6)}


def test_lambdas_count_for_the_function_that_they_stand_in(tmp_path: Path):
    functions = functions_of_chains(tmp_path, [(0x1310, 0x1210, 0x1110), (0x1310,)])
    assert {one.name: one.charged for one in functions.hottest()} == {"app::count": 0.5, "main::{lambda}": 0.5}


def test_functions_of_libraries_are_called_from_own_code(tmp_path: Path):
    """Not from other functions of libraries, between which nobody can change anything."""
    functions = functions_of_chains(tmp_path, [(0x1210, NAMELESS, 0x1110, 0x1010), (0x1210, NAMELESS, 0x1110), (0x1210, NAMELESS)])
    callers = {functions.name(leaf): caller for leaf, caller in functions.hottest_callers().items()}
    assert callers == {"std::find": Share("app::count", 2 / 3)}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_that_are_searched_in_blocks_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int):
    """Also if callchains of one block end before those of the next, and if a function calls itself."""
    start, count, find, inner = 0x1010, 0x1110, 0x1210, 0x1310
    chains = [
        (find, NAMELESS, count, count, start),
        (inner, count, start),
        (find,),
        (inner,),
        (count, start),
        (NAMELESS, find, start),
        (start,),
    ]

    def answers() -> tuple[tuple[object, ...], list[tuple[int, int]]]:
        functions = functions_of_chains(tmp_path, chains)
        pairs = [
            pair
            for rows, numbers in functions.rows_of_functions(functions.are_own_and_named)
            for pair in zip(rows.tolist(), numbers.tolist(), strict=True)
        ]
        return (functions.hottest(9), functions.hottest_tree(0.1, 0.9), functions.hottest_callers(), functions.charged_amounts()), pairs

    whole = answers()
    monkeypatch.setattr("perfpy.analysis.verdict.functions._ROWS", size)
    assert answers() == whole
    assert len(whole[1]) == len(set(whole[1]))
