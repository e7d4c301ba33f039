"""Tests that `perfpy script` prints what perf prints of the same file, for any options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfpy.abi.flags import SampleType
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.features import Feature
from tests.builders.perfdata import PerfDataBuilder, out_of_order, usual_attr
from tests.builders.prepared_start import PERFPY, run

pytestmark = pytest.mark.versus_perf

GOLDEN = Path(__file__).parents[1] / "golden" / "script"
TRACEFS = Path("/sys/kernel/tracing")
OPTIONS = [
    "",
    "-F comm,pid,tid,time,event,ip,sym,dso --ns",
    "-F +misc --show-mmap-events --show-task-events",
    "-F -comm,-time",
    "-F trace:event,trace -F sw:ip,sym",
    "-F ip,sym,dso,dsoff",
    "-F comm,flags,ip",
    "--reltime --show-task-events",
    "--deltatime --ns --show-mmap-events",
    "-G",
    "--max-stack 2",
    "--time 1,99999",
    "-c golden",
    "-S 0x401000",
    "-D",
    "--show-round-events",
    "--dump-unsorted-raw-trace",
    "--no-inline",
    "-L --show-task-events",
    "-L -F tid,pid,cpu,time,ip",
    "-d --show-mmap-events",
    "--call-trace",
    "--call-ret-trace",
    "--insn-trace",
    "--insn-trace=raw",
    "--insn-trace --call-trace --show-task-events",
]


def text_of(program: list[str], path: Path, options: list[str], config: Path | str = "/dev/null") -> bytes:
    environment = {**os.environ, "PERF_CONFIG": str(config), "LC_ALL": "C", "TZ": "UTC"}
    command = [*program, "script", "--symfs", "/nonexistent", "--kallsyms", "/dev/null", *options, "-i", str(path)]
    return run(command, env=environment).stdout


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["chains", "faults", "tracepoints"])
def test_options_give_perfs_text(perf: str, name: str, options: str) -> None:
    path = GOLDEN / f"{name}.data"
    assert text_of(PERFPY, path, options.split()) == text_of([perf], path, options.split())


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--show-round-events",
        "--show-round-events --show-task-events --show-mmap-events",
        "--show-round-events --deltatime",
        "--show-round-events --reltime --show-task-events",
        "--show-round-events -D",
        "--dump-unsorted-raw-trace",
        "-D",
    ],
)
@pytest.mark.parametrize("shape", ["file", "pipe"])
def test_rounds_and_records_out_of_order_are_perfs(perf: str, tmp_path: Path, shape: str, options: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(getattr(out_of_order(), shape)())
    expected = text_of([perf], path, options.split())
    assert expected
    assert text_of(PERFPY, path, options.split()) == expected


@pytest.mark.parametrize("options", ["", "--max-stack 2", "--stop-bt main", "-G"])
def test_callers_come_first_where_the_configuration_is_reported(perf: str, tmp_path: Path, options: str) -> None:
    config = tmp_path / "perfconfig"
    config.write_text("[call-graph]\n\torder = caller\n")
    path = GOLDEN / "chains.data"
    expected = text_of([perf], path, options.split(), config)
    assert expected != text_of([perf], path, options.split()) or options == "-G"
    assert text_of(PERFPY, path, options.split(), config) == expected


def test_files_for_each_event_are_perfs(perf: str, tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes((GOLDEN / "tracepoints.data").read_bytes())
    outputs: list[bytes] = []
    written: list[dict[str, bytes]] = []
    for program in ([perf], PERFPY):
        outputs.append(text_of(program, tmp_path / "perf.data", ["--per-event-dump"]))
        written.append({path.name: path.read_bytes() for path in tmp_path.glob("*.dump")})
        for path in tmp_path.glob("*.dump"):
            path.unlink()
    assert outputs[0] == outputs[1]
    assert outputs[0]
    assert written[0] == written[1]


#: events whose formats perf's library reads differently from version to version (sizeof of kernel types, characters as arguments)
CHANGING = ("sizeof(u", "sizeof(__u", "? '", "__get_cpumask")


@pytest.mark.live
@pytest.mark.parametrize(
    "system", ["sched", "irq", "timer", "block", "net", "kmem", "signal", pytest.param("ext4", marks=pytest.mark.particular)]
)
def test_this_kernels_tracepoints_are_printed_as_perf_prints_them(perf: str, tmp_path: Path, system: str) -> None:
    texts = [path.read_bytes() for path in sorted((TRACEFS / "events" / system).glob("*/format"))] if os.access(TRACEFS, os.R_OK) else []
    texts = [text for text in texts if not any(mark.encode() in text for mark in CHANGING)]
    if not texts:
        pytest.skip(f"no formats of {system} in {TRACEFS} (it is root's)")
    path = tmp_path / "perf.data"
    path.write_bytes(_recording(system, texts))
    options = ["-F", "event,trace"]
    printed = text_of(PERFPY, path, options)
    assert printed.replace(b"^J", b"\n") == text_of([perf], path, options)  # perf ends the line within a name


def _recording(system: str, texts: list[bytes]) -> bytes:
    """Return some samples of every tracepoint: all zeros, small numbers, and every bit set in turn of bytes."""
    events = TRACEFS / "events"
    page, event = (events / "header_page").read_bytes(), (events / "header_event").read_bytes()
    tracing = TracingData("0.6", "<", 8, 4096, page, event, systems=((system, tuple(texts)),), cmdlines=b"")
    numbers = [int(text.split(b"ID:")[1].split()[0]) for text in texts]
    sample_type = SampleType.IDENTIFIER | SampleType.TID | SampleType.TIME | SampleType.RAW
    attrs = [usual_attr(sample_type, type=2, config=number, exclude_kernel=0, exclude_hv=0) for number in numbers]
    built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in numbers], features={Feature.TRACING_DATA: tracing.encode()})
    for index, number in enumerate(numbers):
        for filler in (b"\0", b"\1\0\0\0\0\0\0\0", b"\3\2\1\0\0\0\0\0"):
            raw = number.to_bytes(2, "little") + (filler * 300)[2:260]
            built.sample(index, pid=1, tid=1, time=1000 + index, raw=raw)
    return built.file()
