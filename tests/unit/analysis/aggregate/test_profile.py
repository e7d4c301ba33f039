"""Samples folded to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_USER, SampleType
from perfpy.abi.records import Comm, Mmap2
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.aggregate import chain_numbers, profile
from perfpy.analysis.call_trees import trees
from perfpy.analysis.entries import entries, rows
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph
from perfpy.perfdata.records import stream
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.options import report_options
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = (7, 8)
CODE = 0x400000


def recording() -> bytes:
    """Build two processes whose programs change, with chains, in rounds within which times go back and forth."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN, sample_id_all=1)])
    for time in range(1, 400):
        pid = PROCESSES[time * time % 7 % 2]
        when = 10 * time + (25 if time % 3 else 0)
        if time % 50 == 1:
            built.record(Comm(0, pid, pid, f"name{time % 4}", SampleId(pid=pid, tid=pid, time=when)))
        if time % 70 == 3:
            where = (pid, pid, CODE, 0x1000, 0, 8, 1, 99, 0, 5, 2)
            built.record(Mmap2(MISC_USER, *where, f"/nowhere/{time}", b"", SampleId(pid=pid, tid=pid, time=when)))
        chain = [CONTEXT_USER, *(CODE + 16 * (time * step % 11) for step in range(1, 2 + time % 4))]
        built.sample(misc=MISC_USER, pid=pid, tid=pid + time % 2, time=when, ip=chain[1], period=time % 5, callchain=chain)
        if time % 40 == 0:
            built.round()
    return built.file()


def report(path: Path, **changes: Any) -> dict[str, Any]:
    options = report_options(call_graph=CallGraph(), columns=ColumnOptions(sort="comm,dso,symbol,pid"), **changes)
    with Recording(path) as opened:
        return opened.report(options=options).to_dict()


@pytest.mark.parametrize("children", [False, True])
@pytest.mark.slow
def test_rows_do_not_depend_on_the_size_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, children: bool) -> None:
    """Also if the groups of samples are forgotten after each piece of the file."""
    path = tmp_path / "perf.data"
    path.write_bytes(recording())
    expected = report(path, children=children)
    assert len(expected["events"][0]["rows"]) > 30
    monkeypatch.setattr(profile, "_KINDS_KEPT", 0)
    for module in (chain_numbers, rows, entries):
        monkeypatch.setattr(module, "_FRAMES_AT_ONCE", 1)
    monkeypatch.setattr(trees, "_WALKERS_AT_ONCE", 1)
    monkeypatch.setattr(stream.RecordStream.__init__, "__kwdefaults__", {"chunk_size": 1024})
    assert report(path, children=children) == expected


KERNEL = 0xFFFFFFFF81000000


def in_two_functions(folder: Path) -> tuple[Path, SymbolOptions]:
    """Record ten samples at different addresses of a function, called from different addresses of another."""
    names = folder / "kallsyms"
    names.write_text("".join(f"{KERNEL + 0x100 * at:x} T {name}\n" for at, name in enumerate(["_text", "inner", "outer", "_etext"])))
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN)])
    whole = (0xFFFFFFFF, 0, KERNEL, 0x1000, KERNEL, 0, 0, 0, 0, 0, 0)
    built.record(Mmap2(MISC_KERNEL, *whole, "[kernel.kallsyms]_text", b"", SampleId(pid=0, tid=0, time=1)))
    for time in range(10, 20):
        ip = KERNEL + 0x100 + time
        built.sample(misc=MISC_KERNEL, pid=7, tid=7, time=time, ip=ip, period=1, callchain=[CONTEXT_KERNEL, ip, ip + 0x100])
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path, SymbolOptions(kallsyms=str(names), cache=False)


@pytest.mark.parametrize("options", [{}, {"verbose": True}, {"call_graph": CallGraph(key="address")}], ids=["plain", "-v", "-g address"])
def test_places_in_one_function_are_one_row(tmp_path: Path, options: dict[str, Any]) -> None:
    """Whether or not the chains are separated by address, because addresses are shown."""
    path, symbols = in_two_functions(tmp_path)
    chosen_options = report_options(children=True, columns=ColumnOptions(sort="symbol"), **{"call_graph": CallGraph(), **options})
    with Recording(path) as opened:
        table = opened.report(options=chosen_options, symbols=symbols).histograms[0]
    outer, inner = table.rows()
    assert (outer.values["children"], outer.values["samples"]) == ([10], [0])
    assert (inner.values["children"], inner.values["samples"]) == ([10], [10])
    # callers or callees of a row, in the tree below it
    nodes = table.calls(inner.entry)
    assert sum(node.period for node in nodes) == 10
    assert (len(nodes) == 10) is ("call_graph" in options)


def test_stacks_are_separated_by_function(tmp_path: Path) -> None:
    path, symbols = in_two_functions(tmp_path)
    with Recording(path) as opened:
        (stacks,) = opened.stacks(symbols)
    assert [stacks.functions[number].name for number in stacks.frames] == ["inner", "outer"]
    assert stacks.total == 10
