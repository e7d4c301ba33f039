"""`perfpy inject`: a recording with the code of JIT compilers, or with build-ids, that it was made without.

What enters: perf inject's options. What leaves: a new recording; with -j also
an ELF file for each function, beside the jitdump file.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perfpy.cli.options import fail, input_options, lacking_options, option, perf_command

if TYPE_CHECKING:
    from perfpy.abi.user_records import HeaderBuildId
    from perfpy.recording import Recording


@perf_command()
@input_options
@option("-o", "--output", metavar="<file>", default="", help="output file name (needed)")
@option("-j", "--jit", is_flag=True, help="add what jitdump files say (recorded with -k mono)")
@option("-b", "--build-ids", is_flag=True, help="add build-ids of the files that samples hit")
@option("--buildid-all", is_flag=True, help="add build-ids of all files")
@option("-v", "--verbose", count=True, help="say what was done")
@lacking_options(
    {
        "-B, --mmap2-buildids": "use -b",
        "--mmap2-buildid-all": "use --buildid-all",
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
)
def command(output: str, jit: bool, build_ids: bool, buildid_all: bool, verbose: int, **values: Any) -> None:
    """Write a recording anew with what it lacked."""
    if not output or output == "-":
        fail("a file for the result is needed: -o FILE")
    if not (jit or build_ids or buildid_all):
        fail("nothing to inject: give -j, -b or --buildid-all")
    from perfpy.capture.record.injecting import JitInjector, inject, require_monotonic_times
    from perfpy.cli.opening import open_recording

    with open_recording(values) as recording:
        injector = None
        if jit:
            require_monotonic_times(recording.data)
            injector = JitInjector(recording.data)
        entries = _build_ids(recording, hits_only=not buildid_all) if build_ids or buildid_all else None
        inject(recording.data, output, jit=injector, build_ids=entries)
        if verbose and injector:
            print(f"{injector.functions} functions of {len(injector.dumps)} jitdump files", file=sys.stderr)


def _build_ids(recording: Recording, *, hits_only: bool) -> tuple[HeaderBuildId, ...]:
    """The build-id table: what the recording knows, else what the files here say."""
    from perfpy.abi.flags import MISC_KERNEL, MISC_USER
    from perfpy.abi.user_records import MISC_BUILD_ID_SIZE, HeaderBuildId
    from perfpy.analysis.hit_dsos import hit_dsos
    from perfpy.capture.record.build_ids import own_build_id

    dsos = hit_dsos(recording.data, recording.symbolizer()) if hits_only else recording.timeline.dso_table.dsos
    found = []
    for dso in dsos:
        build_id = bytes.fromhex(dso.build_id) or own_build_id(dso.name)
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.kernel else MISC_USER)
            found.append(HeaderBuildId(misc, -1, build_id, dso.name))
    return tuple(found)
