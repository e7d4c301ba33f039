"""Tests that hardware traces are perf's: dumps packet by packet, for any bytes; samples of Arm SPE and Intel PT line by line."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.records import SampleId, SwitchCpuWide
from perfpy.perfdata.header import Feature, MemNode, MemTopology, NumaNode
from tests.builders import intel_pt, traces
from tests.builders.arm_spe import PC, address, context, random_packets, random_trace, spe_recording, timestamp
from tests.builders.own_corpus import RANDOM
from tests.builders.perfdata import coresight_recording, traced
from tests.builders.prepared_start import PERFPY, run

pytestmark = pytest.mark.versus_perf

TRACERS = {"Intel PT": traces.INTEL_PT, "Intel BTS": traces.INTEL_BTS, "Arm SPE": traces.ARM_SPE, "HiSilicon PTT": traces.HISI_PTT}


#: of Arm SPE, which perf 6.12 does not name
NEWER_EVENTS = re.compile(rb" (LATE-PREFETCH|TXN|L2D-ACCESS|L2D-MISS|HITM|LFB|SNOOPED|STREAMING-SVE|SMCU)(?=[ \n])")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tracer", TRACERS)
def test_a_dump_is_perfs(tracer: str, seed: int, perf: str, tmp_path: Path) -> None:
    kind = TRACERS[tracer]
    path = tmp_path / "perf.data"
    path.write_bytes(traced(kind, traces.WORDS[kind], traces.trace(kind, seed)).file())
    ours, theirs = (run([*command, "report", "-D", "-i", path], timeout=120) for command in (PERFPY, [perf]))
    assert NEWER_EVENTS.sub(b"", ours.stdout).splitlines() == theirs.stdout.splitlines()
    assert b" data: size " in theirs.stdout


@pytest.mark.parametrize("magic", [0x3030303030303030, 0x4040404040404040, 0x5050505050505050], ids=["ETMv3", "ETMv4", "ETE"])
@pytest.mark.parametrize("count", [4, 7, 8, 9, 11])
def test_the_units_of_a_coresight_recording_are_perfs(magic: int, count: int, perf: str, tmp_path: Path) -> None:
    """perf may end with its own error after these lines, which therefore are written one by one."""
    path = tmp_path / "perf.data"
    path.write_bytes(traced(3, (1, 9 << 32 | 1, 0, magic, 0, count, *range(0x100, 0x100 + count)), b"").file())
    ours, theirs = (run([*command, "report", "-D", "-i", path], timeout=120).stdout for command in (PERFPY, ["stdbuf", "-oL", perf]))
    units = [re.search(rb"\tHeader version.*?\n\n", text, re.DOTALL) for text in (ours, theirs)]
    assert units[0] is not None
    assert units[1] is not None
    assert units[0][0] == units[1][0]


@pytest.mark.parametrize("kind", [traces.ETMV4, traces.ETE], ids=["ETMv4", "ETE"])
@pytest.mark.parametrize("seed", range(12))
def test_the_packets_of_a_coresight_recording_are_perfs(kind: int, seed: int, perf: str, tmp_path: Path) -> None:
    """Random packets of two CPUs: in frames, each CPU's trace has those of both; without, its own ones."""
    is_raw = seed % 3 == 2
    mine = [traces.coresight_packets(2 * seed + cpu, 60) for cpu in range(2)]
    draw = random.Random(seed)
    data = []
    for cpu in range(2):
        rest, runs = list(mine), list[tuple[int, bytes]]()
        while any(rest) and not is_raw:
            one, size = draw.randrange(2), draw.randrange(1, 40)
            runs.append((0x10 + one, rest[one][:size]))
            rest[one] = rest[one][size:]
        data.append(mine[cpu] if is_raw else traces.frames([run for run in runs if run[1]]))
    path = tmp_path / "perf.data"
    path.write_bytes(coresight_recording(kind, data, seed, is_raw=is_raw))
    ours, theirs = (run([*command, "report", "-D", "-i", path], timeout=120).stdout.splitlines() for command in (PERFPY, [perf]))
    lines = [[line for line in text if re.search(rb"CoreSight|\tIdx:|\tPKTP", line)] for text in (ours, theirs)]
    for ident in (b"10", b"11"):  # perf may tell later that a unit's bytes before its first A-sync packet are none
        ours, theirs = ([line for line in text if re.search(rb"CoreSight|ID[:=]" + ident, line)] for text in lines)
        assert ours == theirs
        assert len(ours) > 50


MIDRS = ("0x413fd0c1", "0x410fd080", "0x410fd490")
FIELDS = "event,pid,tid,cpu,time,ip,sym,dso,period,addr,weight,phys_addr"


def same(path: Path, perf: str, *words: str) -> bytes:
    """What both print for a recording, equal but for tips."""
    mine, its = (run([*command, *words, "-i", path], timeout=120) for command in (PERFPY, [perf]))
    ours, theirs = mine.stdout.splitlines(), its.stdout.splitlines()
    assert [line for line in ours if b"(Tip:" not in line] == [line for line in theirs if b"(Tip:" not in line], mine.stderr
    return b"\n".join(ours)


@pytest.mark.parametrize("seed", range(50))
def test_samples_of_random_packets_are_perfs(seed: int, perf: str, tmp_path: Path) -> None:
    """Packets of all kinds in any order, in one to three traces. (perf's order of three queues at one time is a heap's.)"""
    path = tmp_path / "perf.data"
    packets = tuple(random_packets(7 * seed + queue, 120, queue) for queue in range(1 + seed % 3))
    path.write_bytes(spe_recording(packets, cpuid=MIDRS[seed % 3], conversion=(seed % 8, 37, 1000)).file())
    assert b"instructions" in same(path, perf, "script", "--itrace=i3ibftmaM", "-F", FIELDS, "--ns")


#: letters that perf 6.12 has for Arm SPE, alone and together; those without an effect print nothing
LETTERS = "b c r f m t a M d e g G A q x w p o z Z I y i1i i3i ib i1ib i7ibftmaM cM bs100 bL32".split()


@pytest.mark.parametrize("letters", LETTERS)
def test_letters_of_itrace_are_perfs(letters: str, perf: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(spe_recording((random_trace(3, 300), random_trace(4, 300)), cpuid=MIDRS[0], conversion=(4, 37, 1000)).file())
    same(path, perf, "script", f"--itrace={letters}", "-F", FIELDS, "--ns")


@pytest.mark.parametrize("seed", range(4))
def test_context_switches_name_threads_up_to_the_first_context_packet_as_in_perf(seed: int, perf: str, tmp_path: Path) -> None:
    draw, packets = random.Random(seed), []
    for cpu in range(2):
        parts, time = [], 1000 + cpu
        for number in range(60):
            time += 2 * draw.randrange(1, 30)
            has_context = number > draw.randrange(10, 60) and (cpu == 0 or seed % 2)
            parts.append(address(PC, 0x400000 + 8 * number) + (context(draw.choice((10, 20))) if has_context else b"") + timestamp(time))
        packets.append(b"".join(parts))
    built, time = spe_recording(tuple(packets)), 1000
    for _ in range(60):
        time, cpu, tid = time + draw.randrange(5, 120), draw.randrange(2), draw.choice((10, 20))
        stamp = SampleId(pid=1, tid=1, time=time, cpu=cpu, identifier=202, id=202)
        built.record(SwitchCpuWide(MISC_SWITCH_OUT, tid, tid, stamp), event=1)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    printed = same(path, perf, "script", "--itrace=i1i", "-F", "comm,pid,tid,cpu,time,ip")
    assert b"alpha" in printed
    assert b":-1" in printed


@pytest.mark.parametrize("seed", range(5))
def test_reports_of_arm_spe_recordings_are_perfs(seed: int, perf: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    traces_of_cpus = (random_trace(seed, 150), random_trace(seed + 99, 150))
    built = spe_recording(traces_of_cpus, cpuid=MIDRS[seed % 3], cut=640, conversion=(4, 37, 1000))
    built.feature(Feature.NUMA_TOPOLOGY, (NumaNode(0, 1000, 100, "0-0"), NumaNode(1, 1000, 100, "1-1")))
    built.feature(Feature.MEM_TOPOLOGY, MemTopology(1, 1 << 27, (MemNode(0, 64, ((1 << 33) - 1,)), MemNode(1, 128, (0, 1)))))
    path.write_bytes(built.file())
    assert b"tlb-miss" in same(path, perf, "script")
    same(path, perf, "script", "--itrace=M", "-F", "+data_src,+addr,+weight")
    assert b"of event 'l1d-miss'" in same(path, perf, "report", "--stdio")
    same(path, perf, "report", "--stdio", "--sort", "local_weight,ins_lat,sym")
    same(path, perf, "report", "--stdio", "--itrace=i10i", "--sort", "dso,sym")
    assert b"Total weight" in same(path, perf, "mem", "report", "--stdio")
    same(path, perf, "mem", "report", "--stdio", "-s", "mem,symbol_daddr")
    assert b"Shared Data Cache Line Table" in same(path, perf, "c2c", "report", "--stdio")


PROGRAMS = Path(__file__).parents[1] / "builders" / "traced_programs"
BRANCH = re.compile(rb" (\d+) (?:\[\d+\])? +[\d.]+: +1 +branches:u: +([0-9a-f]+) .*=> +([0-9a-f]+) ")
EVENT = re.compile(rb" (\[\d+\])? +(\d+)\.(\d+): ")
TRACES = {
    "plain": intel_pt.Options(interrupts=0.002),
    "cycles": intel_pt.Options(seed=2, cyc=True, slice=700, psb_bytes=600),
    "switches by CPU": intel_pt.Options(seed=3, switches=3, piece=3000, compresses_returns=False),
    "power": intel_pt.Options(seed=5, power=0.004, ptwrites=0.001, slice=700, cyc=True),
    "threads": intel_pt.Options(seed=4, per_thread=True, mtc=False),
}


#: what traces and samples have besides, and command lines for it
DETAILS = {
    "events": (intel_pt.Options(events=0.01, interrupts=0.01), ["Ibe", "Ii100i", "be -F +flags,+addr"]),
    "events and cycles": (
        intel_pt.Options(seed=2, cyc=True, events=0.02, interrupts=0.01, slice=700),
        ["Ibe", "Ii100i", "be -F +flags,+addr"],
    ),
    "threshold of cycles": (intel_pt.Options(cyc=True, cyc_thresh=5), ["be", "i1us", "be -F +ipc", "Abe -F +ipc", "yi500i -F +ipc"]),
    "PEBS": (intel_pt.Options(seed=3, pebs=0.005), ["o", "obe", "o -F +addr,+weight,+brstack,+iregs"]),
    "PEBS with calls and cycles": (intel_pt.Options(cyc=True, pebs=0.01, pebs_calls=True), ["ogl -F +brstack"]),
    "other samples": (intel_pt.Options(samples=700), ["be", "G", "L -F +brstack", "G3L5 -F +brstack", "Zbe"]),
    "AUX samples": (intel_pt.Options(samples=500, aux_samples=4096, psb_bytes=512), ["be", "G", "L -F +brstack", "Zbe", "i50iG"]),
    "AUX samples and cycles": (
        intel_pt.Options(seed=5, cyc=True, samples=300, aux_samples=2048, psb_bytes=300),
        ["be", "G3L5 -F +brstack", "Zbe"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DETAILS)
def test_what_traces_have_besides_is_perfs(kind: str, stepped: SteppedPrograms, perf: str, tmp_path: Path) -> None:
    """Interrupts, records of PEBS, calls and branches of samples of other events, and traces in samples, the same parts in several."""
    options, lines = DETAILS[kind]
    path = tmp_path / "perf.data"
    path.write_bytes(intel_pt.pt_recording(stepped["recursion"], options)[0])
    for line in lines:
        letters, *words = line.split()
        assert same(path, perf, "script", f"--itrace={letters}", *words, *([] if words else ["--ns"]))
    if options.samples:
        same(path, perf, "report", "--stdio")
        same(path, perf, "report", "--stdio", "--itrace=G")


FILTERED = ("fib", "select_case")  # functions of recursion.c


class SteppedPrograms(dict[str, intel_pt.Steps]):
    """What each program did, instruction by instruction, by its name; a program runs when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> intel_pt.Steps:
        """Compile and run a program: three with shared libraries, the others without, which is a third of the instructions."""
        program = self.folder / name
        if name == "exceptions":
            command = ["g++", "-static-libstdc++", "-static-libgcc", str(PROGRAMS / "exceptions.cpp")]
        else:
            command = ["gcc", *([] if name in ("threads", "jit") else ["-static"]), str(PROGRAMS / f"{name}.c")]
        subprocess.run([*command, "-O1", "-g", "-pthread", "-o", program], check=True)
        self[name] = intel_pt.single_step(self.folder, [str(program), *([str(self.folder)] if name == "jit" else [])])
        return self[name]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> SteppedPrograms:
    return SteppedPrograms(tmp_path_factory.mktemp("stepped"))


def branches_in(text: bytes) -> dict[int, list[tuple[int, int]]]:
    """Source and target of each branch that a script prints, by thread."""
    found: dict[int, list[tuple[int, int]]] = {}
    for tid, source, target in BRANCH.findall(text):
        found.setdefault(int(tid), []).append((int(source, 16), int(target, 16)))
    return found


def branches_timed_before_a_switch(path: Path) -> int:
    """Count the branches that another task may have: theirs is the time of the last MTC packet, which came before the switch."""
    lines = run([*PERFPY, "script", "--itrace=be", "--ns", "--show-switch-events", "--show-task-events", "-i", path], timeout=120).stdout
    branches: list[tuple[bytes | None, int]] = []
    switches: list[tuple[bytes | None, int]] = []
    for line in lines.splitlines():
        if found := EVENT.search(line):
            moment = int(found[2]) * 1_000_000_000 + int(found[3])
            (branches if BRANCH.search(line) else switches).append((found[1], moment))
    return sum(any(cpu == other and 0 <= at - time <= intel_pt.MTC_NANOSECONDS for other, at in switches) for cpu, time in branches)


_LARGE_TRACES = ("exceptions", "threads")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kind"),
    [
        *(("recursion", "power"), ("exceptions", "cycles"), ("signals", "switches by CPU")),
        *(("families", "plain"), ("families", "threads"), ("threads", "switches by CPU")),
    ],
)
def test_samples_of_intel_pt_are_perfs(program: str, kind: str, stepped: SteppedPrograms, perf: str, tmp_path: Path) -> None:
    """C and C++, exceptions, signals, threads, fork and exec: branches are those that ran, and samples are perf's line by line."""
    path = tmp_path / "perf.data"
    data, truth = intel_pt.pt_recording(stepped[program], TRACES[kind])
    path.write_bytes(data)
    found = branches_in(same(path, perf, "script", "--itrace=be", "--ns"))
    if len(truth) == 1:
        assert found == truth
    else:
        assert Counter(chain.from_iterable(found.values())) == Counter(chain.from_iterable(truth.values()))
        misplaced = sum((Counter(found.get(tid, [])) - Counter(branches)).total() for tid, branches in truth.items())
        assert misplaced <= (0 if TRACES[kind].per_thread else branches_timed_before_a_switch(path))
    if kind == "power":  # perf prints the flags of the branch before each event, and its samples by time lie some instructions apart
        same(path, perf, "script", "--itrace=i300iexwp", "--ns")
    else:
        for words in (["--call-trace"], ["--call-ret-trace"], ["--itrace=be", "-F", "+flags,+addr"]):
            same(path, perf, "script", *words)
        for letters in ("i500ie", "cri3us", "i20t", "gi1us", "s300be", "i300iexwp"):
            same(path, perf, "script", f"--itrace={letters}", "--ns")
    for letters in ("be", "Acr", "yi1us") if program not in _LARGE_TRACES else ("Acr",):
        same(path, perf, "script", f"--itrace={letters}", "-F+ipc")
    if program in _LARGE_TRACES:
        return  # what follows is compared for traces of the same kinds of other programs
    same(path, perf, "script", "--show-task-events", "--show-switch-events")
    same(path, perf, "report", "--stdio", "--itrace=gi100i")
    same(path, perf, "report", "--stdio", "--itrace=i100il8")
    same(path, perf, "script", "--itrace=yil3i1us", "-F+brstack")
    for letters in ("biyxwpeq", "biyxwpeqq", "gileqs5"):
        same(path, perf, "script", f"--itrace={letters}", "-F+ipc")
    injected = tmp_path / "ours", tmp_path / "theirs"
    for command, new in zip((PERFPY, [perf]), injected, strict=True):
        run([*command, "inject", "-i", path, "-o", new, "--itrace=i100igl4", "--strip"], timeout=120)
    for words in (["report", "--stdio"], ["report", "--stdio", "--no-branch-stack"], ["script", "-F+brstack"], ["report", "--stats"]):
        ours, theirs = (RANDOM.sub(b"", run([perf, *words, "-i", new], timeout=120).stdout) for new in injected)
        assert ours == theirs
        assert b"instructions" in ours


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [intel_pt.Options(kernel=True), intel_pt.Options(seed=2, kernel=True, cyc=True, psb_bytes=600)], ids=["plain", "cycles"]
)
def test_samples_of_the_kernels_code_are_perfs(options: intel_pt.Options, stepped: SteppedPrograms, perf: str, tmp_path: Path) -> None:
    path, vmlinux = tmp_path / "perf.data", tmp_path / "vmlinux"
    vmlinux.write_bytes(intel_pt.kernel_file())
    data, truth = intel_pt.pt_recording(stepped["exceptions"], options)
    path.write_bytes(data)
    assert sum(source >= intel_pt.KERNEL for source, _ in chain.from_iterable(truth.values())) > 100
    assert b"entry+0x3 " in same(path, perf, "script", "-k", str(vmlinux), "--itrace=be", "--ns")
    for letters in ("i500ie", "cri3us", "i7iexwp"):
        same(path, perf, "script", "-k", str(vmlinux), f"--itrace={letters}", "--ns")
    same(path, perf, "script", "-k", str(vmlinux), "--call-trace")
    same(path, perf, "report", "--stdio", "-k", str(vmlinux), "--itrace=gi100i")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "cycles"])
def test_compiled_code_is_followed(kind: str, stepped: SteppedPrograms, perf: str, tmp_path: Path) -> None:
    """Code in no file, which moves and is replaced, code of the vDSO and of libraries: with perf's images, with perfpy's, and with none."""
    path, injected = tmp_path / "perf.data", tmp_path / "injected.data"
    steps = stepped["jit"]
    data, truth = intel_pt.pt_recording(steps, replace(TRACES[kind], jitdump=next(stepped.folder.glob("jit-*.dump"))))
    path.write_bytes(data)
    text = run([*PERFPY, "script", "-i", path, "--itrace=be", "--ns"]).stdout
    assert branches_in(text) == truth
    assert b"sum_again+0xe " in text
    for command in (PERFPY, [perf]):
        run([*command, "inject", "--jit", "-i", path, "-o", injected])
        assert branches_in(same(injected, perf, "script", "--itrace=be", "--ns")) == truth
        same(injected, perf, "script", "--itrace=cri500ie", "--ns")


@pytest.mark.slow
@pytest.mark.parametrize("actions", [("filter", "stop"), ("stop", "stop")], ids="-".join)
def test_filtered_traces_are_perfs(actions: tuple[str, str], stepped: SteppedPrograms, perf: str, tmp_path: Path) -> None:
    """Only some functions are traced, or tracing stops in some: it ends with direct, indirect and conditional branches out of these."""
    steps, program = stepped["recursion"], str(stepped.folder / "recursion")
    lines = (line.split() for line in run(["nm", "-S", program]).stdout.decode().splitlines())
    sizes = {words[3]: (int(words[0], 16), int(words[1], 16)) for words in lines if len(words) == 4}
    load = next(one for one in steps.events if one[0] == intel_pt.MAP and one[5] == program)
    ranges = [(address - load[2] + load[4], size) for address, size in (sizes[name] for name in FILTERED)]
    filters = tuple((action, program, *ranges[number]) for number, action in enumerate(actions))
    path = tmp_path / "perf.data"
    data, truth = intel_pt.pt_recording(steps, replace(TRACES["cycles"], filters=filters))
    path.write_bytes(data)
    found = branches_in(same(path, perf, "script", "--itrace=be", "--ns"))
    assert found == truth
    assert sum(map(len, found.values())) > 20
    for letters in ("cri50ie", "i20t", "gi1us"):
        same(path, perf, "script", f"--itrace={letters}", "--ns")
