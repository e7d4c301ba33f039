"""Recordings with copies of stacks have whole callchains wherever callchains are shown."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy import cli
from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_USER, SampleType
from perfpy.analysis.callchains import entries_of, frames_of, user_callchains, whole_chains_of
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.quality_notes import TruncatedStacks, larger, truncation_note
from perfpy.unwind.callchains import UserCallchains, append_user_frames, limit_frames
from tests.builders import call_frames as cfi
from tests.builders.dies import Dies, code, function, inlined, unit
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.timeline import comm, kernel_mmap, mmap

if TYPE_CHECKING:
    from pathlib import Path

CODE, STACK, COPY = 0x400000, 0x7FFF0000, 64
LEAF, MIDDLE, OUTER = 0x1000, 0x1100, 0x1200
COPIED = SampleType.REGS_USER | SampleType.STACK_USER
TYPE = USUAL | SampleType.CALLCHAIN | COPIED
REGISTERS = 1 << 6 | 1 << 7 | 1 << 8  # BP SP IP
KERNEL = [CONTEXT_KERNEL, 0xFFFFFFFF81000010]
K1, K2 = 0xFFFFFFFF81000100, 0xFFFFFFFF81000200
CONTEXT_NOBODYS = CONTEXT_KERNEL - 5


def program(folder: Path, *, has_inlined: bool = False) -> Path:
    info = cfi.CallFrameInfo()
    common = info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1))
    info.entry(common, LEAF, 0x100)
    info.entry(common, MIDDLE, 0x100, cfi.define_cfa_offset(16))
    info.entry(common, OUTER, 0x100, cfi.undefined(16))
    helper = function("helper")
    leaf = function("leaf", (LEAF, LEAF + 0x100), inlined(helper, (LEAF, LEAF + 0x10)))
    debugged = Dies(code(unit(helper, leaf, low_pc=None), (LEAF, LEAF + 0x100))).elf()
    elf = (debugged if has_inlined else Elf()).text(0x1000, size=0x400).segment(0, 0, 0x4000)
    for name, start in {"leaf": LEAF, "middle": MIDDLE, "outer": OUTER}.items():
        elf.symbol(name, start, 0x100).symbol(name, start, 0x100, table=".dynsym")
    elf.section(".eh_frame", info.section(), addr=0x2000, offset=0x2000)
    path = folder / "program"
    path.write_bytes(elf.section(".eh_frame_hdr", info.header(0x3000), addr=0x3000, offset=0x3000).build())
    return path


def stack_of(*returns: int) -> bytes:
    return b"".join(struct.pack("<Q", value) for value in returns).ljust(COPY, b"\0")


WHOLE = stack_of(CODE + MIDDLE + 0x20, 0, CODE + OUTER + 0x20)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A leaf with both callers, from user space and from the kernel; a truncated one; and a sample of the kernel alone."""
    attr = usual_attr(TYPE, sample_regs_user=REGISTERS, sample_stack_user=COPY)
    built = PerfDataBuilder([attr]).record(comm(7, "made")).record(mmap(7, CODE, 0x4000, str(program(tmp_path))))
    built.record(mmap(7, STACK, 0x1000, "[stack]", prot=3))
    of_user: dict[str, Any] = {"ip": CODE + LEAF, "misc": 2, "user_regs": [0, STACK, CODE + LEAF], "user_regs_abi": 2}
    of_kernel = {**of_user, "ip": KERNEL[1], "misc": 1, "callchain": KERNEL}
    for time, values in enumerate(
        (
            {**of_user, "callchain": [], "user_stack": WHOLE},
            {**of_kernel, "user_stack": WHOLE},
            {**of_user, "callchain": [], "user_stack": stack_of(*[CODE + MIDDLE + 0x20] * 8)},
            {**of_kernel, "user_regs": [], "user_regs_abi": 0, "user_stack": b""},
        ),
        100,
    ):
        built.sample(time=time, pid=7, tid=7, period=1, **values)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A sample with a callchain by frame pointers, and one of another event with a copy of the stack."""
    attrs = [
        usual_attr(TYPE & ~COPIED | SampleType.IDENTIFIER),
        usual_attr(TYPE | SampleType.IDENTIFIER, sample_regs_user=REGISTERS, sample_stack_user=COPY),
    ]
    built = (
        PerfDataBuilder(attrs, [(1,), (2,)]).record(comm(7, "made")).record(mmap(7, CODE, 0x4000, str(program(tmp_path, has_inlined=True))))
    )
    built.record(mmap(7, STACK, 0x1000, "[stack]", prot=3))
    sample: dict[str, Any] = {"ip": CODE + LEAF + 4, "misc": 2, "pid": 7, "tid": 7, "period": 1}
    built.sample(0, time=100, callchain=[CONTEXT_USER, CODE + LEAF + 4, CODE + MIDDLE + 0x20], **sample)
    registers = {"user_regs": [0, STACK, CODE + LEAF + 4], "user_regs_abi": 2, "user_stack": WHOLE}
    built.sample(1, time=101, callchain=[], **sample, **registers)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def no_files(tmp_path: Path) -> SymbolOptions:
    return SymbolOptions(buildid_dir=str(tmp_path), kallsyms="/dev/null", cache=False)


CALLS = [CODE + LEAF, CODE + MIDDLE + 0x1F, CODE + OUTER + 0x1F]


def test_batches_have_complete_callchains(recording, tmp_path):
    with perfpy.open(recording) as opened:
        unwinding = opened.unwinding(no_files(tmp_path))
        (batch,) = opened.batches(["callchain", "time"], unwinding)
        as_recorded = [row.tolist() for row in opened.samples["callchain"]]
    chains = [row.tolist() for row in batch.columns["callchain"]]
    assert chains[:2] == [[CONTEXT_USER, *CALLS], [*KERNEL, CONTEXT_USER, *CALLS]]
    assert chains[3] == KERNEL
    assert sorted(batch.columns) == ["callchain", "time"]
    assert as_recorded == [[], KERNEL, [], KERNEL]
    assert unwinding is not None
    assert [(one.truncated, one.stacks, one.size) for one in unwinding.truncated_stacks] == [(1, 3, COPY)]


@pytest.mark.parametrize(("most", "remaining"), [(1, [1, 2, 0]), (2, [2, 2, 0]), (3, [0, 2, 0]), (127, [0, 2, 0])])
def test_a_chain_is_corrupt_if_its_unknown_marker_is_among_the_first_frames(most: int, remaining: list[int]) -> None:
    """As in perf, which stops reading before it."""
    words = [CONTEXT_KERNEL, 1, CONTEXT_USER, 2, CONTEXT_NOBODYS, 3, CONTEXT_USER, 4, CONTEXT_KERNEL, 5, 6, CONTEXT_NOBODYS, 7]
    chains = Ragged(np.array(words, np.uint64), np.array([0, 8, 11, 13]))
    positions, counts, modes = entries_of(chains, most)
    assert np.minimum(counts, [most, 2, most]).tolist() == remaining
    assert set(modes.tolist()) <= {MISC_KERNEL, MISC_USER}
    assert CONTEXT_NOBODYS not in chains.values[positions]


@pytest.mark.parametrize("corrupt", [False, True])
def test_frames_in_their_own_column_equal_complete_chains(recording, tmp_path, corrupt):
    with perfpy.open(recording) as opened:
        symbolizer = opened.symbolizer(no_files(tmp_path))
        together, apart = user_callchains(opened.data, symbolizer), user_callchains(opened.data, symbolizer, apart=True)
        (whole,), (parts,) = opened.batches(["callchain", "pid"], together), opened.batches(["callchain", "pid"], apart)
    assert [row.tolist() for row in parts.columns["callchain"]] == [[], KERNEL, [], KERNEL]
    assert sorted(parts.columns) == ["callchain", "pid", "user_frames"]
    if corrupt:
        for batch in (whole, parts):
            batch.columns["callchain"].values[:] = np.where(
                batch.columns["callchain"].values == CONTEXT_KERNEL, CONTEXT_NOBODYS, batch.columns["callchain"].values
            )
    expected, counts = frames_of(whole.columns["callchain"], whole.columns["pid"], whole.key, symbolizer)
    result, lengths = whole_chains_of(parts.columns, parts.columns["pid"], parts.key, symbolizer)
    assert counts.tolist() == ([3, 0, 6, 0] if corrupt else [3, 4, 6, 1])
    assert (result.tolist(), lengths.tolist()) == (expected.tolist(), counts.tolist())
    again = whole_chains_of(whole.columns, whole.columns["pid"], whole.key, symbolizer)
    assert [one.tolist() for one in again] == [expected.tolist(), counts.tolist()]


def test_stacks_of_an_unknown_machine_are_reported(recording, tmp_path):
    with perfpy.open(recording) as opened:
        attrs = [event.attr for event in opened.events]
        unwinding = UserCallchains(attrs, "vax", opened.symbolizer(no_files(tmp_path)))
        (batch,) = opened.batches(["callchain"], unwinding)
    assert [row.tolist() for row in batch.columns["callchain"]] == [[], KERNEL, [], KERNEL]
    assert unwinding.truncated_stacks == [TruncatedStacks(0, 3, 0, "vax")]


def test_stacks_are_complete_and_mark_lost_callers(recording, tmp_path):
    with perfpy.open(recording) as opened:
        (stacks,) = opened.stacks(no_files(tmp_path))
    names = [[stacks.functions[number].name for number in stacks.chain_of(chain).tolist()] for chain in stacks.chain.tolist()]
    assert names[0] == ["leaf", "middle", "outer"]
    assert names[2] == ["leaf", *["middle"] * 4, "[unknown callers]"]
    assert [one.truncated for one in stacks.truncated] == [1]


def test_a_report_counts_callers(recording, tmp_path):
    with perfpy.open(recording) as opened:
        report = opened.report(callers=True, symbols=no_files(tmp_path))
    assert {"leaf", "middle", "outer"} <= {row.texts["symbol"].split()[-1] for row in report.top(10)}
    assert [one.truncated for one in report.truncated] == [1]


def test_script_prints_complete_callchains_and_a_note(recording, capfd):
    assert cli.run(["script", "-i", str(recording), "--symfs", "/", "--kallsyms", "/dev/null", "-F", "ip,sym", "-v"]) == 0
    out, err = capfd.readouterr()
    frames = [text.split() for text in out.split("\n\n")[0].splitlines() if text.strip()]
    assert frames == [["401000", "leaf"], ["40111f", "middle"], ["40121f", "outer"]]
    assert "ffffffffffffffff [unknown]" in out.split("\n\n")[2]
    assert truncation_note([TruncatedStacks(1, 3, COPY)])[0] in err.splitlines()


@pytest.mark.parametrize("words", [["script", "-F", "event,ip,sym"], ["script", "-F", "event,ip,sym", "--max-stack", "100", "-S", "leaf"]])
def test_only_unwound_frames_have_inlined_calls(words: list[str], mixed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As in perf 6.12, where an event has callchains by frame pointers and another one copies of stacks."""
    assert cli.run([*words, "-i", str(mixed), "--kallsyms", "/dev/null"]) == 0
    frames = [[line.split(None, 1)[1] for line in text.splitlines()[1:]] for text in capfd.readouterr().out.split("\n\n")[:2]]
    assert frames == [["leaf", "middle"], ["helper (inlined)", "leaf", "middle", "outer"]]


def test_a_report_has_inlined_calls_of_unwound_frames_alone(mixed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "-s", "sym", "-g", "none", "-i", str(mixed), "--kallsyms", "/dev/null"]) == 0
    pointed, unwound = capfd.readouterr().out.split("# Samples:")[1:]
    assert "(inlined)" not in pointed
    assert "helper (inlined)" in unwound
    assert cli.run(["report", "-s", "sym", "-g", "none", "--no-inline", "-i", str(mixed), "--kallsyms", "/dev/null"]) == 0
    assert "(inlined)" not in capfd.readouterr().out


def test_a_script_of_addresses_alone_does_not_unwind(recording, capfd):
    assert cli.run(["script", "-G", "-i", str(recording), "-F", "ip"]) == 0
    out, err = capfd.readouterr()
    assert len(out.split()) == 4
    assert "end early" not in err


def test_user_frames_follow_kernel_frames():
    chains = Ragged(np.array([CONTEXT_KERNEL, 1, 2, 9], np.uint64), np.array([0, 3, 4]))
    users = Ragged(np.array([7, 8], np.uint64), np.array([0, 2]))
    result = append_user_frames(chains, np.array([0]), users)
    assert [row.tolist() for row in result] == [[CONTEXT_KERNEL, 1, 2, CONTEXT_USER, 7, 8], [9]]


@pytest.mark.parametrize(("callers_first", "remaining"), [(False, [CONTEXT_KERNEL, 1, 2]), (True, [CONTEXT_KERNEL, 2, 3])])
def test_a_truncated_chain_keeps_the_frames_that_are_read_first(callers_first, remaining):
    chains = Ragged(np.array([CONTEXT_KERNEL, 1, 2, 3, 9], np.uint64), np.array([0, 4, 5]))
    assert [row.tolist() for row in limit_frames(chains, 2, callers_first=callers_first)] == [remaining, [9]]


@pytest.mark.parametrize(("order", "kernel"), [("callee", "k1"), ("caller", "k2")])
def test_max_stack_limits_kernel_and_user_frames_separately(tmp_path, capfd, order, kernel):
    """perf 6.12: the user's part keeps its innermost frames, the kernel's those that are read first."""
    attr = usual_attr(TYPE, sample_regs_user=REGISTERS, sample_stack_user=COPY)
    built = PerfDataBuilder([attr]).record(comm(7, "made")).record(mmap(7, CODE, 0x4000, str(program(tmp_path))))
    built.record(kernel_mmap(K1 & ~0xFFF, 0x2000)).record(mmap(7, STACK, 0x1000, "[stack]", prot=3))
    values: dict[str, Any] = {"ip": K1, "misc": 1, "callchain": [CONTEXT_KERNEL, K1, K2], "user_regs": [0, STACK, CODE + LEAF]}
    built.sample(time=100, pid=7, tid=7, period=1, user_regs_abi=2, user_stack=WHOLE, **values)
    path, kallsyms = tmp_path / "perf.data", tmp_path / "kallsyms"
    path.write_bytes(built.file())
    kallsyms.write_text(f"{K1 & ~0xFFF:x} T _text\n{K1:x} T k1\n{K2:x} T k2\n{K2 + 0x100:x} T k3\n")
    options = ["-i", str(path), "--symfs", "/", "--kallsyms", str(kallsyms), "--max-stack", "1"]
    assert cli.run(["report", *options, "--stdio", "--no-children", "-g", f"folded,{order}", "-s", "comm"]) == 0
    (line,) = [text for text in capfd.readouterr().out.splitlines() if ";" in text]
    frames = line.split(" ", 1)[1].split(";")
    assert sorted(frames) == sorted([kernel, "leaf"])
    assert cli.run(["script", *options, "-F", "ip,sym"]) == 0
    assert [text.split()[1] for text in capfd.readouterr().out.splitlines() if text.strip()] == ["k1", "leaf"]


def test_samples_without_stack_columns_are_unchanged():
    unwinding = UserCallchains([usual_attr()], "x86_64", None)  # type: ignore[arg-type]
    columns = Columns(1, {"callchain": Ragged.empty(1, np.uint64)})
    assert not unwinding
    assert unwinding.extend(columns, np.zeros(1, np.int32), np.zeros(1, np.uint64)) is columns


def test_the_suggested_size_grows_with_the_truncated_share_up_to_the_maximum():
    assert [larger(8192, 0.05), larger(8192, 0.5), larger(65528, 0.5), larger(32768, 0.9)] == [16384, 32768, 65528, 65528]
    assert truncation_note([TruncatedStacks(0, 10, 8192)]) == []
    assert truncation_note([TruncatedStacks(0, 10, 0, "vax")]) == ["10 callchains lack their user part: perfpy cannot unwind stacks of vax"]
    assert truncation_note([TruncatedStacks(1, 10, 65528)])[0].endswith("larger copies are not possible")


@pytest.mark.parametrize("chunk", [1 << 16, 1 << 25], ids=["many chunks", "one"])
def test_stacks_are_unwound_chunk_by_chunk_and_delivered_in_order(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr("perfpy.perfdata.records.stream.STACKS_CHUNK_SIZE", chunk)
    size = 4096
    built = PerfDataBuilder([usual_attr(TYPE, sample_regs_user=REGISTERS, sample_stack_user=size)])
    built.record(mmap(7, CODE, 0x4000, str(program(tmp_path))))
    times = np.random.default_rng(1).permutation(100) + 1000
    for time in times.tolist():
        whole = time % 2 == 0
        copy = (WHOLE if whole else stack_of(CODE + MIDDLE + 0x20, 0, 1)).ljust(size, b"\0")
        registers: dict[str, Any] = {"user_regs": [0, STACK, CODE + LEAF], "user_regs_abi": 2}
        built.sample(time=time, pid=7, tid=7, ip=CODE + LEAF, misc=2, callchain=[], user_stack=copy, **registers)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    with perfpy.open(path) as opened:
        batches = list(opened.batches(["callchain", "time"], opened.unwinding(no_files(tmp_path))))
    rows = (row for batch in batches for row in zip(batch.columns["time"].tolist(), batch.columns["callchain"], strict=True))
    results = [(time, chain.tolist()[1:]) for time, chain in rows]
    assert results == [(time, CALLS if time % 2 == 0 else CALLS[:2]) for time in range(1000, 1100)]
