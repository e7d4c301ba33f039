"""Intel PT traces become the branches and instructions that ran; damaged ones become errors, in bounded time."""

from __future__ import annotations

import random
import re
import struct
from array import array
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import MISC_SWITCH_OUT, RecordType, SampleType
from perfpy.abi.perf_records import AuxtraceInfo
from perfpy.abi.records import Comm, Exit, Mmap2, SampleId, Switch, code_mapping
from perfpy.auxtrace.intel_pt import PSB, EndOfTraceError, NewTraceError, PacketStream, TracePiece, new_part, pebs_values
from perfpy.auxtrace.itrace import aux_pieces, parse_itrace
from perfpy.auxtrace.pt_clock import PtClock, PtParameters
from perfpy.auxtrace.pt_code import CALL, AddressSpace, CodeOfDumps, Edges, TracedCalls, joined
from perfpy.auxtrace.pt_code import Path as CodePath
from perfpy.cli import run
from perfpy.disassembly.x86_lengths import BranchKind, branch_of
from perfpy.errors import PerfError
from perfpy.perfdata.header import Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.script.code import trace_flags_text
from tests.builders import traces
from tests.builders.intel_pt import BASE, EXIT, FORK, HEAD, KERNEL, STEP, Options, Steps, kernel_file, pt_recording, run_once, steps_of
from tests.builders.perfdata import USUAL, PerfDataBuilder, traced, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


def branches_of(path: Path, itrace: str = "be", symbols: SymbolOptions | None = None) -> list[tuple[int, int]]:
    """Source and target of each branch."""
    with Recording(str(path), itrace=itrace, symbols=symbols) as recording:
        index = next(number for number, event in enumerate(recording.events) if event.name.startswith("branches"))
        found = []
        for batch in recording.batches():
            rows = batch.event == index
            found += list(zip(batch.columns["ip"][rows].tolist(), batch.columns["addr"][rows].tolist(), strict=True))
        return found


def errors_of(path: Path, itrace: str = "be") -> list[tuple[int, str]]:
    """The number and text of each error."""
    with Recording(str(path), itrace=itrace) as recording:
        return [(one.record.code, one.record.msg) for one in recording.data.side_band([RecordType.AUXTRACE_ERROR])]


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(seed=2, cyc=True, psb_bytes=64),
        Options(seed=3, compresses_returns=False, interrupts=0.05),
        Options(seed=4, per_thread=True, mtc=False),
        Options(seed=5, tsc=False, mtc=False, per_thread=True),
        Options(seed=6, switches=3, slice=30, piece=40),
    ],
    ids=str,
)
def test_branches_are_those_that_ran(options: Options, tmp_path: Path) -> None:
    data, truth = pt_recording(steps_of(tmp_path), options)
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    assert branches_of(path) == truth[7]
    assert errors_of(path) == []


def test_calls_and_returns_are_chosen_by_their_letters(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 3), Options(interrupts=0))[0])
    call, back, system_call, begin = (BASE + 9, BASE + 0x10), (BASE + 0x11, BASE + 0xE), (BASE + 0x1D, 0), (0, BASE)
    assert branches_of(path, "c") == [call, system_call] * 3
    assert branches_of(path, "r") == [begin, back] * 3
    assert branches_of(path, "cr") == [begin, call, back, system_call] * 3


def test_every_instruction_is_sampled_by_i1i(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 3), Options(interrupts=0))[0])
    with Recording(str(path), itrace="i1i") as recording:
        assert recording.samples["ip"].tolist() == [BASE + offset for _ in range(3) for offset in run_once()]
    with Recording(str(path), itrace="i5i") as recording:
        assert recording.samples["period"].tolist() == [5] * (3 * len(run_once()) // 5)


@pytest.mark.parametrize(
    "options", [Options(interrupts=0), Options(seed=2, interrupts=0.01, cyc=True), Options(seed=3, long_tnt=0)], ids=str
)
def test_samples_are_counted_on_ways_that_recur(options: Options, tmp_path: Path) -> None:
    """Ways that were walked before, also of several packets, are followed at once: every 50th instruction is still sampled."""
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 400), options)[0])
    steps = [BASE + offset for _ in range(400) for offset in run_once()]
    with Recording(str(path), itrace="i50i") as recording:
        assert recording.samples["ip"].tolist() == steps[49::50]
    with Recording(str(path), itrace="bi50i") as recording:
        (branches,) = (number for number, event in enumerate(recording.events) if event.name.startswith("branches"))
        samples = [int(ip) for batch in recording.batches() for ip in batch.columns["ip"][batch.event != branches]]
        assert samples == steps[49::50]


def test_paths_are_kept_by_all_return_addresses_that_they_take() -> None:
    space = AddressSpace(Edges())
    one, two = (CodePath(array("i"), space.node(address), 3, [address, 20], [], 0) for address in (10, 11))
    space.keep_path(BASE, 4, one)
    space.keep_path(BASE, 4, two)
    assert space.node(BASE) == {4: {20: {10: one, 11: two}}}


def test_consecutive_paths_are_one() -> None:
    """The second path returns from the calls of the first one, and then from one that was open before."""
    space = AddressSpace(Edges())
    one = CodePath(array("i", [1]), space.node(10), 3, [6], [7, 8], 1)
    two = CodePath(array("i", [2, 3]), space.node(11), 4, [5, 7, 8], [9], 0)
    both = joined([one, two])
    assert (both.edges.tolist(), both.after.ip, both.instructions, both.untimed) == ([1, 2, 3], 11, 7, 1)
    assert (both.needs, both.pushes) == ([5, 6], [9])


def test_each_thread_counts_its_own_instructions(tmp_path: Path) -> None:
    """The second thread finds the ways that the first one has walked."""
    events = steps_of(tmp_path, 40).events[:-1]
    steps = [BASE + offset for _ in range(40) for offset in run_once()]
    events.insert(2, (FORK, 7, 8, 0, 0, ""))
    events += [(STEP, 8, address, 0, 0, "") for address in steps] + [(EXIT, 8, 0, 0, 0, ""), (EXIT, 7, 0, 0, 0, "")]
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(Steps(events), Options(per_thread=True, mtc=False, interrupts=0))[0])
    with Recording(str(path), itrace="i50i") as recording:
        for tid in (7, 8):
            assert recording.samples["ip"][recording.samples["tid"] == tid].tolist() == steps[49::50]


def test_callchains_have_the_calls_that_have_not_returned(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 1), Options(interrupts=0))[0])
    with Recording(str(path), itrace="gi1i") as recording:
        chains = {int(ip): chain.tolist()[1:] for ip, chain in zip(recording.samples["ip"], recording.samples["callchain"], strict=True)}
    assert chains[BASE + 9] == [BASE + 9]
    assert chains[BASE + 0x10] == [BASE + 0x10, BASE + 0xE]
    assert chains[BASE + 0x14] == [BASE + 0x14]


@pytest.mark.parametrize(
    "options", [Options(kernel=True), Options(seed=2, kernel=True, cyc=True), Options(seed=3, kernel=True, long_tnt=0)], ids=str
)
def test_the_kernels_code_is_followed(options: Options, tmp_path: Path) -> None:
    """System calls, the kernel's branches and the way back; without the kernel's file, what it did is missing."""
    vmlinux, path = tmp_path / "vmlinux", tmp_path / "perf.data"
    vmlinux.write_bytes(kernel_file())
    data, truth = pt_recording(steps_of(tmp_path, 60), options)
    path.write_bytes(data)
    assert branches_of(path, symbols=SymbolOptions(vmlinux=str(vmlinux))) == truth[7]
    assert sum(source >= KERNEL for source, _ in truth[7]) > 200
    assert (5, "Failed to get instruction") in errors_of(path)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((("filter", 0x1010, 2),), [(0, 0x10), (0x11, 0xE)]),
        (
            (("filter", 0x1000, 0x10), ("filter", 0x1014, 9)),
            [(0, 0), (7, 5), (7, 5), (9, 0x10), (0, 0xE), (0xE, 0x14), (0x1B, 0x1D)],
        ),
        ((("filter", 0x1000, 0x20), ("stop", 0x1014, 9)), [(0, 0), (7, 5), (7, 5), (9, 0x10), (0x11, 0xE), (0xE, 0x14)]),
        ((("filter", 0x1007, 2),), [(0, 7), (7, 5), (0, 7), (7, 5), (0, 7), (7, 9)]),
    ],
    ids=str,
)
def test_branches_out_of_filtered_addresses_end_the_trace(
    filters: tuple[tuple[str, int, int], ...], expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    """By a return, a call, a jump, and a conditional branch, which is taken or not."""
    path, prog = tmp_path / "perf.data", str(tmp_path / "prog")
    options = Options(interrupts=0, slice=1000, filters=tuple((action, prog, offset, size) for action, offset, size in filters))
    data, truth = pt_recording(steps_of(tmp_path, 1), options)
    path.write_bytes(data)
    assert branches_of(path) == truth[7]
    assert truth[7] == [(source and BASE + source, BASE + target) for source, target in expected]
    assert errors_of(path) == []


def test_a_damaged_filter_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    data, _ = pt_recording(steps_of(tmp_path, 1), Options(filters=(("filter", str(tmp_path / "prog"), 0x1010, 2),)))
    path.write_bytes(data.replace(b"filter 0x1010", b"filter zx1010"))
    with Recording(str(path), itrace="be") as recording:
        assert any("filter of addresses is damaged at 'filter zx1010/" in warning for warning in recording.warnings)


def test_lost_trace_is_an_error_unless_it_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path), Options(overflows=0.02))[0])
    assert set(errors_of(path)) == {(7, "Overflow packet")}
    assert errors_of(path, "be-o") == []


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path), Options())[0])
    (tmp_path / "prog").unlink()
    assert errors_of(path) == [(5, "Failed to get instruction")]


def test_an_endless_loop_in_the_code_ends(tmp_path: Path) -> None:
    """The code that is there is not the one that ran: it jumps to itself."""
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path), Options())[0])
    (tmp_path / "prog").write_bytes(HEAD + b"\xeb\xfe" * 40)
    assert errors_of(path)[0] == (10, "Never-ending loop (refer perf config intel-pt.max-loops)")


@pytest.mark.parametrize("seed", range(12))
def test_damaged_traces_are_decoded_as_far_as_they_go(seed: int, tmp_path: Path) -> None:
    data, truth = pt_recording(steps_of(tmp_path, 100), Options(seed=seed, psb_bytes=100))
    draw = random.Random(seed)
    damaged = bytearray(data)
    first = data.index(b"\x02\x82" * 8)
    for _ in range(1 + seed):
        damaged[draw.randrange(first + 40, len(data) - 600)] = draw.randrange(256)
    path = tmp_path / "perf.data"
    path.write_bytes(damaged)
    found = branches_of(path)
    assert found[:5] == truth[7][:5]


def test_random_bytes_are_errors(tmp_path: Path) -> None:
    data, _ = pt_recording(steps_of(tmp_path, 200), Options())
    first, last = data.index(b"\x02\x82" * 8), data.rindex(b"\x02\x23")
    path = tmp_path / "perf.data"
    path.write_bytes(data[: first + 60] + random.Random(1).randbytes(last - first - 60) + data[last:])
    assert errors_of(path)


@pytest.mark.parametrize("seed", [*range(30), 61, 71, 85])
def test_any_packets_and_any_description_are_decoded(seed: int, tmp_path: Path) -> None:
    """Packets of all kinds in any order, with numbers that no recorder writes."""
    draw = random.Random(seed)
    words = traces.WORDS[traces.INTEL_PT]
    if seed % 2:
        words = tuple(draw.choice((0, 1, (1 << 64) - 1, draw.getrandbits(64), word)) for word in words)
    path = tmp_path / "perf.data"
    path.write_bytes(traced(traces.INTEL_PT, words, traces.trace(traces.INTEL_PT, seed, 6000)).file())
    for itrace in ("be", "gi1ixwpe", "i1us"):
        with Recording(str(path), itrace=itrace) as recording:
            for _ in recording.batches():
                pass


STATUS = PSB + b"\x19" + (1_000_000).to_bytes(7, "little") + b"\x02\x23"
LATER = PSB + b"\x19" + (2_000_000).to_bytes(7, "little") + b"\x02\x23"


@pytest.mark.parametrize("has_tsc", [False, True])
@pytest.mark.parametrize(
    ("before", "data", "expected"),
    [
        (STATUS + b"\x06" * 40, STATUS + b"\x06" * 60, (len(STATUS) + 40, True)),
        (b"\x06" * 9 + STATUS + b"\x06" * 40, STATUS + b"\x06" * 40 + LATER, (len(STATUS) + 40, True)),
        (STATUS + b"\x06" * 40, LATER + b"\x0a" * 60, (0, False)),
        (STATUS + b"\x06" * 40, b"\x06" * 100, (100, False)),
        (b"\x06" * 40, b"\x06" * 3 + STATUS, (3, False)),
        (STATUS + b"\x06" * 40 + b"\0" * 5, STATUS + b"\x06" * 60, None),
    ],
)
def test_the_new_part_of_a_snapshot_is_found(before: bytes, data: bytes, expected: tuple[int, bool] | None, *, has_tsc: bool) -> None:
    """By the TSC packet after a PSB packet, or by the bytes; the padding at the end of the part before is not in the new one."""
    if expected is not None:
        assert new_part(before, data, has_tsc=has_tsc) == expected
    elif has_tsc:
        assert new_part(before, data, has_tsc=True) == (len(STATUS) + 40, True)


def test_pebs_records_become_samples() -> None:
    general, basic, memory = {0: 5, 1: 0x1000, 2: 7, 6: 9}, {0: 0x2000, 1: 3, 2: 99}, {0: 0xAA, 2: 0x0012_0000_0034, 3: 0x11_0000_0005}
    branches = {0: 1, 1: 2, 2: 1 << 63 | 40, 3: 4, 4: 5}
    values = pebs_values({1: general, 4: basic, 5: memory, 8: branches}, 1 << 8 | 1 << 7 | 1)
    assert [values[name] for name in ("ip", "ticks", "counters", "addr", "weight", "ins_lat")] == [0x2000, 99, 3, 0xAA, 0x12, 0x34]
    assert values["intr_regs"] == [7, 9, 0x1000]
    assert values["branch_stack"] == [(1, 2, 1 | 40 << 4)]
    assert "ip" not in pebs_values({}, 0)


@pytest.mark.parametrize("seed", range(24))
def test_hostile_samples_are_decoded(seed: int, tmp_path: Path) -> None:
    """Damaged traces with interrupts and PEBS records, and AUX data in samples, whose ids and sizes are random, too."""
    draw = random.Random(seed)
    options = Options(
        seed=seed, events=0.02, pebs=0.03, pebs_calls=bool(seed % 2), samples=30, aux_samples=(0, 256, 4096)[seed % 3], psb_bytes=60
    )
    data = bytearray(pt_recording(steps_of(tmp_path, 80), options)[0])
    path = tmp_path / "perf.data"
    for _ in range(1 + 3 * seed):
        data[draw.randrange(2000, len(data))] = draw.randrange(256)
    path.write_bytes(data)
    for itrace in ("", "oIGLbe", "ogl", "ZG3L5", "qoI"):
        with Recording(str(path), itrace=itrace) as recording:
            for _ in recording.batches():
                pass


def test_a_truncated_description_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(traced(traces.INTEL_PT, (9, 3), b"\0" * 64).file())
    with pytest.raises(PerfError, match="AUXTRACE_INFO"):
        Recording(str(path), itrace="b")


def test_letters_of_itrace() -> None:
    parsed = parse_itrace("e-o-lwpi20us")
    assert (sorted(parsed.letters), parsed.errors_left_out, parsed.nanoseconds) == (["e", "i", "p", "w"], "ol", 20_000)
    assert parse_itrace("i0nse").period == 0


def test_the_clock_follows_tsc_mtc_and_cyc() -> None:
    clock = PtClock(PtParameters(mtc_period=3, crystal=(100, 1), turbo_ratio=24))
    clock.reference = 1_000_000
    clock.set_cbr(24)
    clock.set_tsc(1_000_050, 0, after_cyc=False)
    clock.set_tma(10_000 & 0xFFFF | 50 << 24, in_status=True)
    assert clock.ticks == 1_000_050
    clock.set_mtc((10_000 >> 3) + 1 & 0xFF, after_cyc=False)
    assert clock.ticks == 1_000_800
    assert clock.estimate(10) == 1_000_820
    clock.set_tsc(1_000_700, 0, after_cyc=False)  # before the MTC packet: time does not go back
    assert clock.ticks == 1_000_800


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("75fc", (2, BranchKind.CONDITIONAL, -4)),
        ("0f8400010000", (6, BranchKind.CONDITIONAL, 256)),
        ("e2f0", (2, BranchKind.CONDITIONAL, -16)),
        ("e8ffffffff", (5, BranchKind.CALL, -1)),
        ("eb10", (2, BranchKind.JUMP, 16)),
        ("f2e900000000", (6, BranchKind.JUMP, 0)),
        ("ff25aabbcc00", (6, BranchKind.INDIRECT_JUMP, 0)),
        ("41ffd4", (3, BranchKind.INDIRECT_CALL, 0)),
        ("ffc9", (2, BranchKind.NONE, 0)),
        ("f3c3", (2, BranchKind.RETURN, 0)),
        ("0f05", (2, BranchKind.SYSTEM_CALL, 0)),
        ("0f01c3", (3, BranchKind.VM_ENTRY, 0)),
        ("c5f877", (3, BranchKind.NONE, 0)),
        ("e8ff", (0, BranchKind.NONE, 0)),
    ],
)
def test_kinds_of_branches(code: str, expected: tuple[int, BranchKind, int]) -> None:
    assert branch_of(bytes.fromhex(code)) == expected


def test_the_api_leaves_traces_alone_without_itrace(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 2), Options())[0])
    with perfpy.open(str(path)) as recording:
        assert len(recording.samples["ip"]) == 0


@pytest.mark.parametrize("has_trace", [False, True])
def test_threads_of_traced_recordings_keep_their_names(has_trace: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A thread is switched out after its exit, and its trace may go on until then."""
    attr = usual_attr(int(USUAL | SampleType.IDENTIFIER), comm=1, task=1, context_switch=1)
    built = PerfDataBuilder([attr], [(1,)])
    stamps = (SampleId(pid=7, tid=7, time=1000 * number, identifier=1, id=1) for number in range(1, 9))
    for record in (Comm(0, 7, 7, "prog"), Exit(0, 7, 1, 7, 1, 2000), Switch(MISC_SWITCH_OUT)):
        built.record(record._replace(sample_id=next(stamps)))
    if has_trace:
        built.features[Feature.AUXTRACE] = struct.pack("<Q", 0)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert run(["script", "-i", str(path), "--show-switch-events", "-F", "comm,tid"]) == 0
    assert capfd.readouterr().out.split()[:2] == ["prog" if has_trace else ":7", "7"]


def test_calls_are_indented_and_branches_have_their_kinds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 1), Options(interrupts=0))[0])
    assert run(["script", "-i", str(path), "--call-ret-trace"]) == 0
    lines = [line.split(": ", 1)[1] for line in capfd.readouterr().out.splitlines()]
    kinds = [line[:24].strip() for line in lines if line.startswith("  ") and "offs" not in line and "cbr" not in line]
    assert kinds == ["tr strt", "call", "return", "tr end  syscall"]
    called = next(line for line in lines if "call " in line)
    assert called.split("\t")[1].startswith(" " * 4 + f"{BASE + 0x10:16x}")
    assert run(["script", "-i", str(path), "--call-trace"]) == 0
    called = next(line for line in capfd.readouterr().out.splitlines() if f"{BASE + 0x10:x}" in line)
    assert called.split("(")[1].split(")")[0] == str(tmp_path / "prog")[:49].ljust(50)
    assert run(["script", "-i", str(path), "--itrace=b", "-F", "flags,addr"]) == 0
    kinds = [line[:24].strip() for line in capfd.readouterr().out.splitlines()]
    assert kinds == ["tr strt", "jcc", "jcc", "call", "return", "jmp", "jmp", "tr end  syscall"]
    assert run(["script", "-i", str(path), "--itrace=s5b", "-F", "ip"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == len(kinds) - 5


IPC = re.compile(r"IPC: (\d+)\.(\d\d) \((\d+)/(\d+)\)")


@pytest.mark.parametrize("itrace", ["Ai1i", "i1i", "be", "Abe"])
def test_cycles_of_packets_are_told_once(itrace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The cycles of all CYC packets while tracing, and the instructions that ran; but for the last ones, which belong to no sample."""
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 60), Options(interrupts=0, cyc=True, psb_bytes=64))[0])
    with Recording(str(path)) as recording:
        pieces = aux_pieces(recording.data)
        stream = PacketStream(iter([TracePiece(pieces.read(one.offset, one.size), 0, False) for one in pieces.pieces]))
    cycles, is_on = 0, False
    with suppress(EndOfTraceError):
        while True:
            with suppress(NewTraceError):
                packet = stream.read()
                assert packet is not None
                is_on = packet.kind == "TIP.PGE" or (is_on and packet.kind != "TIP.PGD")
                cycles += packet.value if packet.kind == "CYC" and is_on else 0
    assert run(["script", "-i", str(path), f"--itrace={itrace}", "-F", "+ipc"]) == 0
    told = [tuple(map(int, groups)) for groups in IPC.findall(capfd.readouterr().out)]
    assert len(told) > 30
    assert all(100 * whole + part == 100 * count // passed for whole, part, count, passed in told)
    assert 0.9 * cycles < sum(passed for *_, passed in told) <= cycles
    assert 0.9 * 60 * len(run_once()) < sum(count for _, _, count, _ in told) <= 60 * len(run_once())


def test_samples_have_the_branches_before_them(tmp_path: Path) -> None:
    """The newest first, and not more than asked for."""
    path = tmp_path / "perf.data"
    data, truth = pt_recording(steps_of(tmp_path, 3), Options(interrupts=0))
    path.write_bytes(data)
    with Recording(str(path), itrace="i1il4") as recording:
        assert recording.data.has_branches
        (batch,) = (batch for batch in recording.batches() if len(batch))
        ragged, offsets = batch.columns["branch_stack"], batch.columns["branch_stack"].offsets.tolist()
        branches = list(zip(ragged.values["from"].tolist(), ragged.values["to"].tolist(), strict=True))
        stacks = [branches[begin:end] for begin, end in pairwise(offsets)]
    assert stacks[0] == truth[7][:1]
    assert stacks[-1] == truth[7][-2:-6:-1]
    assert all(stack in [truth[7][max(end - 4, 0) : end][::-1] for end in range(len(truth[7]))] for stack in stacks)


@pytest.mark.parametrize(
    "options", [Options(interrupts=0.05), Options(seed=3, overflows=0.05), Options(seed=4, tsc=False, mtc=False)], ids=str
)
def test_quick_decoding_notes_addresses_of_packets(options: Options, tmp_path: Path) -> None:
    """Each address is one that ran, among them each target of an indirect branch; of two q, those at PSB packets only."""
    path = tmp_path / "perf.data"
    steps = steps_of(tmp_path, 60)
    options.psb_bytes = 100
    path.write_bytes(pt_recording(steps, options)[0])
    counts = []
    for itrace in ("iq", "iqq"):
        with Recording(str(path), itrace=itrace) as recording:
            addresses = recording.samples["ip"].tolist()
            assert set(recording.samples["period"].tolist()) == {1}
        assert set(addresses) <= {BASE + offset for offset in run_once()}
        counts.append(len(addresses))
        if itrace == "iq":
            assert 50 < addresses.count(BASE + 0x1D) < 150  # the target of jmp rax
    assert counts[0] > 3 * counts[1] > 0


def test_a_stripped_recording_has_samples_of_the_trace_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, new = tmp_path / "perf.data", tmp_path / "new.data"
    events = steps_of(tmp_path, 20).events[:-1]
    events.insert(2, (FORK, 7, 8, 0, 0, ""))
    events += [(STEP, 8, BASE + offset, 0, 0, "") for offset in run_once()] + [(EXIT, 8, 0, 0, 0, ""), (EXIT, 7, 0, 0, 0, "")]
    path.write_bytes(pt_recording(Steps(events), Options(cpus=1))[0])
    counts = []
    for words in ([], ["--strip"]):
        assert run(["inject", "-i", str(path), "-o", str(new), "--itrace=i10i", *words]) == 0
        with Recording(str(new)) as recording:
            counts.append((len(recording.samples["ip"]), len(list(recording.data.side_band([RecordType.SWITCH])))))
    assert counts[0][0] == counts[1][0] > 20
    assert counts[0][1] > counts[1][1] == 0
    assert run(["inject", "-i", str(path), "-o", str(new), "--strip"]) == 129
    assert "--strip requires --itrace" in capfd.readouterr().err


def test_switches_without_a_thread_are_passed(tmp_path: Path) -> None:
    fields = int(SampleType.IP | SampleType.TIME | SampleType.CPU | SampleType.IDENTIFIER)
    words = traces.WORDS[traces.INTEL_PT]
    attrs = [usual_attr(fields, type=words[0], context_switch=1), usual_attr(fields, context_switch=1)]
    built = PerfDataBuilder(attrs, [(1,), (2,)]).record(AuxtraceInfo(0, traces.INTEL_PT, words))
    built.record(Switch(0, SampleId(time=1000, cpu=0, identifier=2, id=2)), event=1)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    with Recording(str(path), itrace="be") as recording:
        assert len(list(recording.data.side_band([RecordType.SWITCH]))) == 1


def test_the_log_of_perfs_decoder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 3), Options())[0])
    with pytest.raises(PerfError, match="report -D"):
        Recording(str(path), itrace="d+e")


def test_cycles_are_an_event(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pt_recording(steps_of(tmp_path, 60), Options(interrupts=0))[0])
    with Recording(str(path), itrace="Ay0ns") as recording:
        assert [event.name for event in recording.events][2:] == ["cycles:u"]
        periods = recording.samples["period"]
    assert len(periods) == 3
    assert 500 < periods.sum() < 5000


@pytest.mark.parametrize(
    ("flags", "text"),
    [(0x3, "call"), (0x63, "hw int"), (0x221, "tr end  async"), (0x109, "tr strt jcc"), (0x403, "call" + " " * 14 + "(x)"), (0x7, "bcr")],
)
def test_names_of_branches_are_perfs(flags: int, text: str) -> None:
    assert trace_flags_text(flags).decode() == f"  {text:<21} "


@pytest.mark.parametrize("seed", range(20))
def test_memory_that_is_mapped_over_compiled_code_is_hidden_once_the_code_is_there(seed: int) -> None:
    draw = random.Random(seed)

    def mapping(time: int, name: str = "//anon") -> Mmap2:
        return code_mapping((7, 7), (draw.randrange(400), draw.randrange(1, 20), 0), name, time, 0)

    compiled = sorted(((time, mapping(time, "/jitted-7-1.so")) for time in draw.sample(range(2, 100), 30)), key=lambda one: one[0])
    code = CodeOfDumps(lambda *_: compiled, (0, 0, 0))
    code.see(mapping(1, "/tmp/jit-7.dump"), 1)
    taken = []
    for time in range(1, 110):
        taken += code.take(time)
        assert taken == [one for one in compiled if one[0] <= time]
        memory = mapping(time, draw.choice(["//anon", "/memfd:code", "anything"]))
        expected = any(one.addr < memory.addr + memory.len and memory.addr < one.addr + one.len for _, one in taken)
        assert code.hides(memory) == expected
        assert not code.hides(memory._replace(filename="/usr/lib/libc.so.6"))


def test_the_first_call_of_a_thread_may_lead_nowhere():
    """A call whose target is unknown opens none, so the thread has no stack of calls yet."""
    edges = np.array([[0x1000, 0x2000], [0, 0x3000], [CALL, CALL], [5, 5]], np.uint64)
    assert TracedCalls(1).depths(7, 0, np.array([0, 1], np.int32), edges).tolist() == [0, 1]
