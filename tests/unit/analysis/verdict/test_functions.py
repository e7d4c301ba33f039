"""Tests of the functions of samples, and of their callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import NATIVE_ENDIAN, SampleType, SoftwareId
from perfpy.abi.records import Comm, Mmap2
from perfpy.abi.waits import IS_WAIT, OFF_CPU_EVENT
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph, ChainOptions, ReportOptions
from perfpy.analysis.verdict.functions import Share, sampled_functions
from perfpy.perfdata.container.feature_values import EventDesc
from perfpy.perfdata.container.features import Feature, encode_feature
from perfpy.recording import Recording
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

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
