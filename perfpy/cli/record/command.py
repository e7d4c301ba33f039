"""`perfpy record`: run a program, or watch tasks or CPUs, and write their profile.

What enters: perf record's options. What leaves: perf.data, perf's two lines
on stderr, and the program's exit status.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.capture.option_values import (
    Callchain,
    parse_branch_filter,
    parse_callchain,
    parse_clock,
    parse_pages,
    parse_registers,
)
from perfpy.capture.sampling.options import SYNTH_ALL, RecordOptions
from perfpy.cli.line.decorators import perf_command, workload
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.record.options import options_of_perf_only, record_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.cli.line.parser import Given
    from perfpy.cli.line.perfconfig import Config
    from perfpy.events.event import Event

_MOST_COMPRESSION: Final = 22
#: options whose parameter and field have the same name and value
_SAME: Final = (
    "pid", "tid", "cpu", "all_cpus", "per_thread", "exclude_perf", "freq", "strict_freq", "no_samples", "data", "phys_data",
    "data_page_size", "code_page_size", "weight", "running_time", "kernel_callchains", "user_callchains", "all_user", "all_kernel",
    "switch_events", "namespaces", "all_cgroups", "tail_synthesize", "mmap_flush", "no_buffering", "overwrite", "delay",
    "control", "realtime", "output", "buildid_all", "max_size", "switch_output", "switch_max_files", "timestamp_filename",
    "timestamp_boundary", "verbose", "quiet", "event_files",
)  # fmt: skip


@perf_command(ordered=("event", "filter"))
@record_options
@options_of_perf_only
@workload
def command(ordered: Sequence[Given], workload: tuple[str, ...], **values: Any) -> int:
    """Run a program and record its profile into perf.data."""
    if _lists_registers(values):
        return 129  # as perf
    options = options_from(values, load())
    from perfpy.capture.sampling.recorder import Recorder  # help does not need the kernel

    events, filters = _events(ordered)
    recorder = Recorder(workload, events, filters, options, describe=_describe)
    if values["dry_run"]:
        recorder.prepare()
        return 0
    return recorder.run().exit_code


def options_from(values: Mapping[str, Any], config: Config) -> RecordOptions:
    """The options as values. Raises UsageError for a text that makes no sense."""
    build_id = config.get("record.build-id", "")
    level = values["compression_level"]
    switches = values["switch_output"] is not None  # finding build-ids would hold up the next file
    if not 0 <= level <= _MOST_COMPRESSION:
        fail(f"--compression-level {level}: zstd has levels 1 to {_MOST_COMPRESSION}")
    return RecordOptions(
        **{name: values[name] for name in _SAME},
        user=values["uid"],
        cgroups=tuple(values["cgroup"].split(",")) if values["cgroup"] else (),
        inherit=not values["no_inherit"],
        period=values["count"],
        callchain=_callchain(values, config),
        raw=values["raw_samples"],
        cpu_field=values["sample_cpu"],
        period_field=values["period"],
        time=values["timestamp"],
        identifier=values["sample_identifier"],
        inherit_stat=values["stat"],
        user_regs=_registers(values["user_regs"], "--user-regs"),
        intr_regs=_registers(values["intr_regs"], "--intr-regs"),
        branch_filter=_branches(values),
        clockid=None if values["clockid"] is None else parse_clock(values["clockid"]),
        bpf_events=not values["no_bpf_event"],
        buildid_mmap=values["buildid_mmap"] or build_id == "mmap",
        synth=_synthesis(values["synth"]),
        mmap_pages=_pages(values["mmap_pages"]),
        compression_level=level,
        buildids=not (values["no_buildid"] or build_id == "skip" or switches),
        buildid_cache=not (values["no_buildid_cache"] or values["no_buildid"] or build_id == "no-cache"),
        buildid_dir=os.path.expanduser(config.get("buildid.dir", "")),
        command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
    )


def _events(ordered: Sequence[Given]) -> tuple[list[str], list[tuple[int, str]]]:
    """The -e texts, and each --filter with the number of -e in front of it."""
    events: list[str] = []
    filters: list[tuple[int, str]] = []
    for given in ordered:
        if given.name == "event":
            events.append(given.value)
        else:
            filters.append((len(events), given.value))
    return events, filters


def _callchain(values: Mapping[str, Any], config: Config) -> Callchain | None:
    if values["call_graph"] is not None:
        return parse_callchain(values["call_graph"])
    if not values["callchains"]:
        return None
    mode = config.get("call-graph.record-mode", "fp")
    size = int(config.number("call-graph.dump-size", 0)) if mode == "dwarf" else 0
    return parse_callchain(f"{mode},{size}" if size else mode)


def _registers(text: str | None, option: str) -> int:
    return 0 if text is None else parse_registers(text, option)


def _describe(events: Sequence[Event], option: str) -> str:
    from perfpy.cli.line.control_lines import event_lines  # rarely asked for

    return event_lines(events, option)


def _lists_registers(values: Mapping[str, Any]) -> bool:
    if "?" not in (values["user_regs"], values["intr_regs"]):
        return False
    from perfpy.abi.registers import sampled_registers

    print("available registers:", *sampled_registers(os.uname().machine), file=sys.stderr)
    return True


def _branches(values: Mapping[str, Any]) -> int:
    text = values["branch_filter"] or ("any" if values["branch_any"] else "")
    return parse_branch_filter(text) if text else 0


def _synthesis(text: str) -> frozenset[str]:
    if text in ("no", "all"):
        return SYNTH_ALL if text == "all" else frozenset()
    kinds = frozenset(text.split(","))
    if kinds - SYNTH_ALL:
        fail(f"invalid synth option: {text}; there are no, all, task, mmap and cgroup")
    return kinds | {"task"} if "mmap" in kinds else kinds


def _pages(text: str) -> int:
    if not text:
        return 0
    data, comma, aux = text.partition(",")
    if comma and aux:
        fail(f"--mmap-pages {text}: perfpy has no AUX buffers; give one number")
    pages = parse_pages(data)
    if data.isdecimal() and int(data) != pages:
        print(f"--mmap-pages: {pages} pages, the next power of two", file=sys.stderr)
    return pages
