"""`perfpy record`: run a program, or attach to tasks or CPUs, and record their profile.

The exit status is the program's.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.option_values import (
    Callchain,
    SwitchOutput,
    parse_branch_filter,
    parse_callchain,
    parse_pages,
    parse_size,
    size_text,
)
from perfpy.capture.record_options import (
    STANDARD_OUTPUT,
    BufferOptions,
    OffCpuOptions,
    OutputOptions,
    RecordOptions,
    SamplingOptions,
    SideBandOptions,
    compression_of_unwound,
)
from perfpy.capture.targets import TargetOptions
from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.shared import events_with_filters, names_probe
from perfpy.cli.output.notes import notes_are_read, print_notes
from perfpy.cli.record.options import RecordCommandOptions, Registers
from perfpy.errors import PerfError
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.opening import OpenEvent
    from perfpy.capture.session.recorder import Recorder
    from perfpy.cli.line.perfconfig import Config

_MOST_COMPRESSION: Final = 22
_BUILD_IDS: Final = ("", "cache", "no-cache", "skip", "mmap")  # values of record.build-id
_FILE: Final = "perf.data"


def run(options: RecordCommandOptions) -> int:
    """Run a program and record its profile into perf.data."""
    if _lists_registers(options):
        return 129  # perf's status
    if options.vmlinux and not os.path.exists(options.vmlinux):
        fail(f"--vmlinux {options.vmlinux}: no such file")
    if any(map(names_probe, options.event)):
        from perfpy.cli.probe.temporary_probes import run_with_probes  # needs numpy and debug information

        return run_with_probes(options, _record)
    return _record(options)


def _record(options: RecordCommandOptions) -> int:
    recorder = make_recorder(options)
    if options.dry_run:
        recorder.prepare()
        return 0
    summary = recorder.run()
    if options.self_contained:
        from perfpy.cli.record.self_contained import keep_files  # reads the recording, which needs numpy

        tell_all = (lambda _text: None) if options.quiet else (lambda text: print(text, file=sys.stderr))
        keep_files(summary.path, options.self_contained, tell_all)
    return summary.exit_code


def make_recorder(options: RecordCommandOptions) -> Recorder:
    """Return the recorder of the options."""
    library_options = record_options(options, load())
    from perfpy.capture.session.recorder import Recorder  # --help does not need the kernel

    if not (options.workload or library_options.target.is_given):
        print_notes(["no command, -p or -t; recording the whole machine until Ctrl-C"], quiet=options.quiet, verbose=options.verbose)
    events, filters = events_with_filters(options)
    return Recorder(options.workload, events, filters, library_options, describe=_describe)


def record_options(options: RecordCommandOptions, config: Config) -> RecordOptions:
    """Convert the options to the library's. Raises UsageError for an invalid text."""
    build_id = config.get("record.build-id", "")
    if build_id not in _BUILD_IDS:
        raise PerfError("configuration: record.build-id = " + build_id + ": expected cache, no-cache, skip or mmap")
    return options.fill(
        RecordOptions,
        target=options.fill(TargetOptions, inherit=not options.no_inherit),
        sampling=_sampling(options, config),
        side_band=options.fill(
            SideBandOptions,
            switch_events=options.switch_events or options.latency,
            bpf_events=not options.no_bpf_event,
            buildid_mmap=options.buildid_mmap or build_id == "mmap",
        ),
        buffers=_buffers(options),
        output=_output(options, config, build_id),
        off_cpu=OffCpuOptions(options.off_cpu, options.off_cpu_thresh, options.off_cpu_limit),
        command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
        notes=notes_are_read(quiet=options.quiet, verbose=options.verbose),
        brief=options.brief and not options.verbose,
    )


def _sampling(options: RecordCommandOptions, config: Config) -> SamplingOptions:
    return options.fill(
        SamplingOptions,
        callchain=_callchain(options, config),
        branch_filter=options.branch_filter or (parse_branch_filter("any") if options.branch_any else 0),
    )


def _buffers(options: RecordCommandOptions) -> BufferOptions:
    pages, _, aux_pages = options.mmap_pages.partition(",")
    first = _pages(aux_pages)  # perf reports its rounding first
    return options.fill(BufferOptions, aux_pages=first, mmap_pages=_pages(pages))


def _output(options: RecordCommandOptions, config: Config, build_id: str) -> OutputOptions:
    rule = SwitchOutput() if options.switch_output is None and options.switch_output_event else options.switch_output
    skips_build_ids = rule is not None and not options.buildid_all  # finding build-ids would delay the next file
    return options.fill(
        OutputOptions,
        path=options.output or _default_output(),
        compression_level=_level(options.compression_level, unwind=options.unwind),
        buildids=not (options.no_buildid or build_id == "skip" or skips_build_ids),
        buildid_cache=not (options.no_buildid_cache or options.no_buildid or build_id == "no-cache"),
        buildid_dir=config.build_id_folder,
        switch_output=rule,
        self_contained=bool(options.self_contained),
    )


def _level(level: int | None, *, unwind: bool) -> int:
    if level is None:
        return compression_of_unwound() if unwind else 0
    if level < 0:
        fail(f"--compression-level {level}: expected 1 to {_MOST_COMPRESSION}")
    return min(level, _MOST_COMPRESSION)


def _default_output() -> str:
    """Return the output if none is given: standard output if it is a pipe, else perf.data."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return _FILE
    return STANDARD_OUTPUT if is_pipe else _FILE


def _callchain(options: RecordCommandOptions, config: Config) -> Callchain | None:
    if options.call_graph:
        return options.call_graph
    configured = config.get("call-graph.record-mode", config.get("record.call-graph", ""))
    if not (options.callchains or options.unwind) or (
        options.jit and (options.unwind or not configured)
    ):  # --jit chooses by the programs that run
        return None
    mode = "dwarf" if options.unwind else configured or "fp"
    size = int(config.number("call-graph.dump-size", 0)) if mode == "dwarf" else 0
    return parse_callchain(f"{mode},{size}" if size else mode)._replace(addresses=False)  # perf records them with --call-graph only


def _describe(events: Sequence[OpenEvent], option: str) -> str:
    from perfpy.cli.output.control_lines import event_lines  # rarely needed

    return event_lines(events, option)


def _lists_registers(options: RecordCommandOptions) -> bool:
    if Registers.LISTED not in (options.user_regs, options.intr_regs):
        return False
    from perfpy.abi.samples.registers import sampled_registers

    print("available registers:", *sampled_registers(os.uname().machine), file=sys.stderr)
    return True


def _pages(text: str) -> int:
    if not text:
        return 0
    pages = parse_pages(text)
    if (int(text) if text.isdecimal() else -(-parse_size(text, "--mmap-pages") // PAGE_SIZE)) != pages:
        print(f"rounding mmap pages size to {size_text(pages * PAGE_SIZE)} ({pages} pages)", file=sys.stderr)
    return pages


command = PerfCommand(RecordCommandOptions, run)
