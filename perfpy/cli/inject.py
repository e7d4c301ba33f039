"""`perfpy inject`: a recording with the code of JIT compilers, or with build-ids, that it was made without.

What enters: perf inject's options. What leaves: a new recording; with -j also
an ELF file for each function, in a new folder below the build-id cache.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Counted, Flag, Value
from perfpy.cli.line.options import PerfCommand, fail, option
from perfpy.cli.line.shared import InputOptions
from perfpy.errors import OutputFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.abi.build_id_record import HeaderBuildId
    from perfpy.recording import Recording
    from perfpy.symbols.dso import Dso

_MODE: Final = 0o600  # as record's files
_LACKING: Final = {
    "-s, --sched-stat": "it merges scheduler tracepoints",
    "--itrace": "it needs decoders of hardware traces",
    "--guest-data": "it merges the recording of a guest",
    "--guestmount": "it merges the recording of a guest",
    "--known-build-ids": "use -b",
    "--strip": "it belongs to --itrace",
    "--vm-time-correlation": "it belongs to --itrace",
    "-k, --vmlinux": "nothing here reads the kernel's symbols",
    "--kallsyms": "nothing here reads the kernel's symbols",
    "--ignore-vmlinux": "nothing here reads the kernel's symbols",
}


class InjectCommandOptions(InputOptions, lacks=_LACKING):
    """What the command takes."""

    output: str = option("-o,--output", Value(default=""), "output file name (needed)", metavar="<file>")
    jit: bool = option("-j,--jit", Flag(), "add what jitdump files say (recorded with -k mono)")
    build_ids: bool = option("-b,--build-ids", Flag(), "add build-ids of the files that samples hit")
    buildid_all: bool = option("--buildid-all", Flag(), "add build-ids of all files")
    mmap2_buildids: bool = option(
        "-B,--mmap2-buildids", Flag(), "put build-ids into the mappings of files that samples hit, drop all other mappings"
    )
    mmap2_buildid_all: bool = option("--mmap2-buildid-all", Flag(), "put build-ids into all mappings")
    verbose: int = option("-v,--verbose", Counted(), "say what was done")


def run(options: InjectCommandOptions) -> None:
    """Write a recording anew with what it lacked."""
    output = options.output
    if not output or output == "-":
        fail("a file for the result is needed: -o FILE")
    table = options.build_ids or options.buildid_all
    mappings = options.mmap2_buildids or options.mmap2_buildid_all
    if not (options.jit or table or mappings):
        fail("nothing to inject: give -j, -b, --buildid-all, -B or --mmap2-buildid-all")
    from perfpy.capture.sampling.injecting import BuildIdMapper, JitInjector, inject, require_monotonic_times
    from perfpy.cli.line.opening import open_recording
    from perfpy.cli.line.perfconfig import load

    with open_recording(options.input, force=options.force) as recording:
        injector = None
        if options.jit:
            require_monotonic_times(recording.data)
            injector = JitInjector(recording.data, load().build_id_folder, force=options.force)
        entries = _table(_dsos(recording, every=options.buildid_all)) if table else None
        mapper = None
        if mappings:
            every = options.mmap2_buildid_all
            build_ids = {dso.name: _build_id(dso) for dso in _dsos(recording, every=every)}
            mapper = BuildIdMapper(recording.data, build_ids, only_these=not every)
        with _result(output, recording.data.path) as unfinished:
            inject(recording.data, unfinished, jit=injector, build_ids=entries, mapper=mapper)
        if options.verbose and injector:
            folder = f" in {injector.folder}" if injector.folder else ""
            print(f"{injector.functions} functions of {len(injector.dumps)} jitdump files{folder}", file=sys.stderr)


@contextmanager
def _result(output: str, source: str) -> Iterator[str]:
    """Where to write the new recording."""
    from perfpy.cli.line.output_files import whole_file

    if os.path.exists(output) and os.path.samefile(source, output):
        raise OutputFailed(output, "it is the input")
    with whole_file(output, _MODE) as unfinished:
        try:
            yield unfinished
        except OutputFailed as failure:
            raise OutputFailed(output if failure.path == unfinished else failure.path, failure.reason) from None


def _dsos(recording: Recording, *, every: bool) -> list[Dso]:
    """The files that samples hit, and the vdso, as perf has it; or every one that was mapped."""
    from perfpy.analysis.samples.hit_dsos import hit_dsos
    from perfpy.symbols.dso import DsoKind

    dsos = recording.timeline.dso_table.dsos
    if every:
        return dsos
    hit = hit_dsos(recording.data, recording.symbolizer())
    return hit + [dso for dso in dsos if dso.kind is DsoKind.VDSO and dso.build_id and dso not in hit]


def _build_id(dso: Dso) -> bytes:
    """What the recording knows, else what the file here says."""
    from perfpy.capture.sampling.build_id_table import own_build_id

    return bytes.fromhex(dso.build_id) or own_build_id(dso.name)


def _table(dsos: list[Dso]) -> tuple[HeaderBuildId, ...]:
    """The table of build-ids of these files, as far as they have one."""
    from perfpy.abi.build_id_record import MISC_BUILD_ID_SIZE, HeaderBuildId
    from perfpy.abi.flags import MISC_KERNEL, MISC_USER

    found = []
    for dso in dsos:
        build_id = _build_id(dso)
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.kernel else MISC_USER)
            found.append(HeaderBuildId(misc, -1, build_id, dso.name))
    return tuple(found)


command = PerfCommand(InjectCommandOptions, run)
