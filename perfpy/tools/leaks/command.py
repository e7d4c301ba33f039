"""The options of `perfpy leaks`, and what each way of measuring prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option, program_to_run
from perfpy.errors import PerfError
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.tools.leaks.attached import MemoryGrowth
    from perfpy.tools.leaks.sums import Frame, ProcessSums

_MOST_PID: Final = 1 << 31
_LONGEST: Final = 86_400.0  # seconds
_DEFAULT_SECONDS: Final = 10.0


class LeaksCommandOptions(CommandOptions):
    """Options of `perfpy leaks`."""

    pid: str = option("-p,--pid", Value(default=""), "watch this process", metavar="<pid>")
    duration: float | None = option(
        "-d,--duration", Value(float, default=None), "seconds to watch a process (default: 10)", metavar="<seconds>"
    )
    descendants: bool = option("--descendants", Flag(default=True), "also watch the Python processes that it has started (default)")
    small_objects: bool = option("--small-objects", Flag(), "count each object of up to 512 bytes; slows the program down")
    html: str = option("--html", Value(default=""), "write a page with flame graphs of a command's memory", metavar="<file>")
    json: bool = option("--json", Flag(), "print one JSON object")
    words: tuple[str, ...] = program_to_run("[COMMAND [ARGS]...]")


def run(options: LeaksCommandOptions) -> int:
    """Show the lines that hold most memory at the highest moment of a command, or that a running Python process allocates and keeps.

    A command runs with a small library that counts its calls of malloc, free and mmap (LD_PRELOAD). The library is compiled when it is
    needed first, which takes a C compiler. It runs in the command's children, too, and needs no privileges. A running process and those
    that it has started are watched by probes of the kernel, which need root, and stay as they are; Ctrl-C ends the watch early.
    """
    if options.words:
        if options.pid or options.duration is not None:
            fail("leaks takes either -p PID or a command; a command is followed until it ends, without -d")
        return _run_command(options)
    if options.html:
        fail("--html needs a command: perfpy leaks --html FILE -- COMMAND")
    if not options.pid.isdecimal() or not 0 < int(options.pid) < _MOST_PID:
        fail(f"-p {visible(options.pid)}: expected a process id" if options.pid else "no process given; use -p PID, or give a command")
    seconds = _DEFAULT_SECONDS if options.duration is None else options.duration
    if not 0 < seconds <= _LONGEST:
        fail(f"-d {seconds:g}: expected seconds, more than 0 and at most a day")
    from perfpy.analysis.verdict.processes import texts_of_names
    from perfpy.capture.unwinding.observed_states import current_commands
    from perfpy.tools.leaks.attached import memory_growth
    from perfpy.tools.leaks.text import growth_lines, service_lines

    first, *others = memory_growth(int(options.pid), seconds, small_objects=options.small_objects, descendants=options.descendants)
    if options.json:
        _print_json(_growth_values(first) | ({"descendants": [*map(_growth_values, others)]} if others else {}))
    elif others:
        growths = [first, *others]
        _print_wrapped([*service_lines(growths, texts_of_names(current_commands(growth.pid for growth in growths)))])
    else:
        _print_wrapped([*growth_lines(first)])
    return 0


def _growth_values(growth: MemoryGrowth) -> dict[str, object]:
    stacks = [{**one._asdict(), "frames": [frame._asdict() for frame in one.frames]} for one in growth.retained]
    return {**growth._asdict(), "retained": stacks}


def _run_command(options: LeaksCommandOptions) -> int:
    """Run the command with the hook, print what its processes held, and return its exit status."""
    from perfpy.tools.leaks.hook import run_with_hook
    from perfpy.untrusted.destinations import temporary_folder

    with temporary_folder("perfpy-leaks-") as folder:
        pid, status = run_with_hook(options.words, folder, small_objects=options.small_objects, quiet=options.json)
        from perfpy.tools.leaks.sums import read_processes  # imports numpy, while the command does not run

        processes = sorted(read_processes(folder), key=lambda one: (one.pid != pid, -one.peak))
    if not processes:
        raise PerfError(f"{visible(options.words[0])}: no memory was counted; setuid and static programs load no libraries (LD_PRELOAD)")
    if options.html:
        from perfpy.cli.output.output_files import write_bytes
        from perfpy.tools.leaks.text import memory_page

        write_bytes(options.html, memory_page(processes).encode(errors="replace"), quiet=True)
    if options.json:
        _print_json({"processes": [_values(one) for one in processes]})
    else:
        from perfpy.tools.leaks.text import peak_lines

        _print_wrapped(list(peak_lines(processes, small_objects=options.small_objects)))
    return status if status >= 0 else 128 - status


def _values(process: ProcessSums) -> dict[str, object]:
    from perfpy.tools.leaks.sums import parts_of_peak  # as above

    stacks = [{**one._asdict(), "frames": [_frame_values(frame) for frame in one.frames]} for one in process.stacks]
    return {**process._asdict(), "parts_of_peak": parts_of_peak(process)._asdict(), "stacks": stacks}


def _frame_values(frame: Frame) -> dict[str, object]:
    return {"function": frame.function, "file": frame.file, "line": frame.line}


def _print_json(values: dict[str, object]) -> None:
    import json  # rarely needed

    print(json.dumps({"format": "perfpy-leaks", "version": 1, **values}))


def _print_wrapped(lines: Sequence[str]) -> None:
    from perfpy.cli.output.terminal import wrap_lines

    for line in wrap_lines(lines):
        print(line)


command = PerfCommand(LeaksCommandOptions, run, takes_processes=True)
