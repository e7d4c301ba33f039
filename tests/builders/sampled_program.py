"""Recordings of an invented program: stacks given by names of functions, each with its number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_COMM_EXEC, PerfType, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import IS_WAIT, LIKE_OTHERS, OFF_CPU_EVENT, WOKEN_BY_THREAD
from perfpy.abi.records import Comm, Exit, Fork, LostSamples, Mmap, Mmap2, SampleId
from perfpy.perfdata.header import KEPT_FILES, CpuCount, EventDesc, Feature
from perfpy.perfdata.kept_files import PROCESSES, STATES, encode, encode_commands, encode_states
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.kept_files import ObservedCommand, ObservedState

MILLISECOND = 1_000_000
PID = 100
_SIZE = 0x100
_FILES = {"app": 0x400000, "libc.so.6": 0x600000, "python3.11": 0x800000, "jitted-0-1.so": 0xA00000, "libz.so.1": 0xC00000}
_KERNEL = 0xFFFFFFFF81000000


class Stack(NamedTuple):
    """Samples with one stack.

    Attributes:
        names: functions, innermost first: `name`, `name@FILE`, `name@kernel` or `name+OFFSET`; "" is code without a symbol.
        samples: their number.
        tid, pid: of the thread.
        state: of a wait; "" on the CPU.
        weight: milliseconds of each sample.
        waker: the thread that ended the wait, 0 for none.
        like_others: the stack is that of a similar wait.
    """

    names: Sequence[str]
    samples: int
    tid: int = PID
    pid: int = PID
    state: str = ""
    weight: int = 1
    waker: int = 0
    like_others: bool = False


def sampled_program(
    folder: Path,
    stacks: Sequence[Stack],
    *,
    threads: Sequence[int] = (),
    started: int = 0,
    seconds: float = 0.0,
    comm: str = "app",
    from_start: bool = False,
    lost: int = 0,
    lost_switches: int = 0,
    executes: str = "",
    executing: int | None = None,
    started_before: int = 0,
    states: Sequence[ObservedState] = (),
    commands: Sequence[ObservedCommand] = (),
    cpus: int = 0,
    ends: bool = False,
    creator: str = "",
    walked: bool = False,
) -> Path:
    """Write the recording and its files.

    Args:
        folder: for perf.data, and the files under their paths.
        stacks: in order of time.
        threads: further threads of the program.
        started: the number of processes that the program starts.
        seconds: between the first and the last sample; 0: a millisecond for each.
        comm: the name of the program.
        from_start: recorded from the start of the program.
        lost: the number of lost samples.
        lost_switches: the number of context switches that the event of waits lost.
        executes: the program that the started processes execute, "" for none.
        executing: the number of those that do, None for all.
        started_before: the number of those that were started before the program was executed.
        states: of shells and Go programs, which the recorder saw.
        commands: the command lines of processes, which the recorder saw.
        cpus: the number of online CPUs; 0 if the recording does not tell.
        ends: whether the program ends.
        creator: the program that each tenth started process executes, which creates the other nine.
        walked: the kernel walked the callchains by frame pointers; otherwise they look like those of `record --unwind`.
    """
    functions = _functions_of(stacks)
    _write_files(folder, functions)
    waits = any(stack.state for stack in stacks)
    clock = usual_attr(
        USUAL | SampleType.ID | SampleType.CALLCHAIN, type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, enable_on_exec=int(from_start),
        mmap_data=int(not walked),
    )  # fmt: skip
    fields = USUAL | SampleType.ID | SampleType.CALLCHAIN | SampleType.WEIGHT_STRUCT
    off_cpu = usual_attr(fields, type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT)
    attrs = [clock, off_cpu] if waits else [clock]
    built = PerfDataBuilder(attrs=attrs, ids=[(number + 1,) for number in range(len(attrs))])
    begin = SampleId(pid=PID, tid=PID, time=1)
    built.record(Mmap(1, -1 % (1 << 32), 0, _KERNEL, 0x1000000, _KERNEL, "[kernel.kallsyms]_text", begin))
    for pid in dict.fromkeys(stack.pid for stack in stacks if stack.pid):
        built.record(Comm(0, pid, pid, comm if pid == PID else f"other{pid}", begin))
        for file, start in _FILES.items():
            mapped = f"/usr/lib/{file}" if file != "app" else "/home/app"
            built.record(Mmap2(2, pid, pid, start, 0x100000, 0x1000, 0, 0, 0, 0, 5, 2, mapped, b"", begin))
    for tid in threads:
        built.record(Fork(0, PID, PID, tid, PID, 1, begin))
    last = sum(stack.samples for stack in stacks) * MILLISECOND
    for record in _records_of_started(started, executes, started if executing is None else executing, creator):
        built.record(record)
    if started_before:
        built.record(Comm(MISC_COMM_EXEC, PID, PID, comm, SampleId(pid=PID, tid=PID, time=19 + started_before)))
    time = 10
    step = int(seconds * 1e9 / max(last // MILLISECOND, 1)) or MILLISECOND
    for stack in stacks:
        chain = [_address(functions, name) for name in stack.names]
        mode = 1 if stack.names and stack.names[0].endswith("@kernel") else 2
        notes = IS_WAIT | (WOKEN_BY_THREAD if stack.waker else LIKE_OTHERS if stack.like_others else 0)
        extra = {"weight": stack.waker, "ins_lat": ord(stack.state or "\0"), "retire_lat": notes} if waits and stack.state else {}
        for _ in range(stack.samples):
            built.sample(
                event=int(bool(stack.state)), pid=stack.pid, tid=stack.tid, time=time, ip=chain[0], period=stack.weight * MILLISECOND,
                misc=mode, callchain=_marked(chain, stack.names), **extra,
            )  # fmt: skip
            time += step
    if lost:
        built.record(LostSamples(0, lost, SampleId(pid=PID, tid=PID, time=time, id=1)))
    if lost_switches:
        built.record(LostSamples(0, lost_switches, SampleId(pid=PID, tid=PID, time=time, id=2)))
    if ends:
        built.record(Exit(0, PID, PID, PID, PID, time, SampleId(pid=PID, tid=PID, time=time)))
    _add_features(built, attrs, cpus, states, commands)
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path


def _add_features(
    built: PerfDataBuilder, attrs: Sequence[EventAttr], cpus: int, states: Sequence[ObservedState], commands: Sequence[ObservedCommand]
) -> None:
    """Add the names of the events if there are waits, and what the recorder saw."""
    if len(attrs) > 1:
        built.feature(Feature.EVENT_DESC, (EventDesc(attrs[0], "task-clock", (1,)), EventDesc(attrs[1], OFF_CPU_EVENT, (2,))))
    if cpus:
        built.feature(Feature.NRCPUS, CpuCount(cpus, cpus))
    if states or commands:
        built.features[KEPT_FILES] = encode({STATES: encode_states(states), PROCESSES: encode_commands(commands)}, "<")


def _functions_of(stacks: Sequence[Stack]) -> dict[str, list[str]]:
    """Return the functions of each file."""
    functions: dict[str, list[str]] = {name: [] for name in (*_FILES, "kernel")}
    for stack in stacks:
        for name in stack.names:
            function, _, file = name.partition("@")
            function = function.partition("+")[0]
            if function and function not in functions[file or "app"]:
                functions[file or "app"].append(function)
    return functions


def _records_of_started(started: int, executes: str, executing: int, creator: str) -> Iterator[Fork | Comm]:
    """Yield the records of processes that the program starts, and of the programs that they execute."""
    for number in range(started):
        is_creator = bool(creator) and not number % 10
        pid, parent = 10_000 + number, 10_000 + number // 10 * 10 if creator and not is_creator else PID
        program = creator if is_creator else executes
        yield Fork(0, pid, parent, pid, parent, 20 + number, SampleId(pid=parent, tid=parent, time=20 + number))
        if program and number < executing:
            yield Comm(MISC_COMM_EXEC, pid, pid, program, SampleId(pid=pid, tid=pid, time=30 + number))


def _write_files(folder: Path, functions: dict[str, list[str]]) -> None:
    """Write the files with their symbols, and the kernel's symbols."""
    kernel = [f"{_KERNEL + _SIZE * number:x} T {name}" for number, name in enumerate(["_text", "_stext", *functions["kernel"], "_etext"])]
    (folder / "kallsyms").write_text("\n".join(kernel) + "\n")
    for file in _FILES:
        elf = Elf().text(0x1000, size=0x10000).segment(0x1000, 0x1000, 0x10000)
        for number, name in enumerate(functions[file]):
            elf.symbol(name, 0x1000 + _SIZE * number, _SIZE)
        path = folder / (f"usr/lib/{file}" if file != "app" else "home/app")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(elf.build())


def _address(functions: dict[str, list[str]], name: str) -> int:
    """Return an address in a function; code without a symbol is after all functions."""
    function, _, file = name.partition("@")
    function, _, offset = function.partition("+")
    names = functions[file or "app"]
    number = names.index(function) if function else len(names) + 2
    return (_KERNEL + 2 * _SIZE if file == "kernel" else _FILES[file or "app"]) + _SIZE * number + int(offset or 4)


def _marked(chain: Sequence[int], names: Sequence[str]) -> list[int]:
    """Return a callchain with the markers of its levels."""
    kernel = [address for address, name in zip(chain, names, strict=True) if name.endswith("@kernel")]
    user = chain[len(kernel) :]
    return [*([CONTEXT_KERNEL, *kernel] if kernel else []), *([CONTEXT_USER, *user] if user else [])]
