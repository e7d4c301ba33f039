"""`perfpy inject`: write a recording anew with JIT-compiled code or build-ids.

With -j, each function of a JIT compiler also becomes an ELF file, in a new folder below the build-id cache.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import UNWIND_STYLES, Attached, Counted, Flag, PerfCommand, Value, fail, option
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions
from perfpy.errors import OutputFailedError, PerfError, plural
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.abi.framing import HeaderBuildId
    from perfpy.capture.injection import CallchainConverter
    from perfpy.perfdata.reader import PerfData
    from perfpy.recording import Recording
    from perfpy.symbols.dso import Dso

_MODE: Final = 0o600  # the mode of record's files
_LARGEST_LIST: Final = 16 << 20  # bytes of a file with build-ids
_LONGEST_ID: Final = 20
_LIST_FILE: Final = "file://"
_LACKING: Final = {
    "-s,--sched-stat": "use record --off-cpu for sleeping tasks",
    "--guest-data": "it merges a guest's recording",
    "--guestmount": "it merges a guest's recording",
    "--vm-time-correlation": "it corrects Intel PT traces of guests",
    "--aslr": "perfpy keeps recorded addresses",
}


_ALL_SAMPLES: Final = "iybxwpoIeftaMm"  #: of --itrace without a value


class InjectCommandOptions(InputOptions, lacks=_LACKING):
    """Options of `perfpy inject`."""

    output: str = option("-o,--output", Value(default=""), "write to this file (default: standard output, for a pipe)", metavar="<file>")
    jit: bool = option("-j,--jit", Flag(), "add code from jitdump files (needs record -k mono)")
    build_ids: bool = option("-b,--build-ids", Flag(), "add build-ids of sampled files")
    buildid_all: bool = option("--buildid-all", Flag(), "add build-ids of all files")
    mmap2_buildids: bool = option("-B,--mmap2-buildids", Flag(), "put build-ids into mappings of sampled files, drop others")
    mmap2_buildid_all: bool = option("--mmap2-buildid-all", Flag(), "put build-ids into all mappings")
    known_build_ids: str = option(
        "--known-build-ids", Value(default=""), "use these, 'ID PATH,...' or file://LIST", metavar="<buildid path [,buildid path...]>"
    )
    itrace: str | None = option("--itrace", Attached(""), "decode a hardware trace into these samples, such as i100us", metavar="<opts>")
    strip: bool = option("--strip", Flag(), "with --itrace: drop the recorded samples and switches")
    convert_callchain: bool = option("--convert-callchain", Flag(), "unwind copies of stacks into callchains, drop the copies")
    symfs: str = option("--symfs", Value(default=""), "look for the recorded files below this directory", metavar="<directory>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "symbols of the kernel are not needed here", hidden=True)
    kallsyms: str = option("--kallsyms", Value(default=""), "symbols of the kernel are not needed here", hidden=True)
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "symbols of the kernel are not needed here", hidden=True)
    unwind_style: str = option("--unwind-style", Value(UNWIND_STYLES, default=""), "stacks are unwound without", hidden=True)
    verbose: int = option("-v,--verbose", Counted(), "print each action")


def run(options: InjectCommandOptions) -> None:
    """Add JIT-compiled code, build-ids or unwound callchains to a recording; without an option, copy it."""
    output = options.output or "-"
    if output == "-" and sys.stdout.isatty():
        fail("cannot write a recording to a terminal; give -o FILE, or redirect standard output")
    build_ids = _known_build_ids(options.known_build_ids)
    itrace = _ALL_SAMPLES if options.itrace == "" else options.itrace
    details = None
    if options.strip:
        from perfpy.abi.perf_records import TraceDetails

        if itrace is None:
            fail("--strip requires --itrace")
        details = TraceDetails(is_stripped=True)
    with open_recording(
        options.input, force=options.force, verbose=options.verbose, losses=(), itrace=itrace, trace_details=details
    ) as recording:
        _inject(recording, output, options, build_ids)


def _inject(recording: Recording, output: str, options: InjectCommandOptions, known_build_ids: Mapping[str, bytes]) -> None:
    from perfpy.capture.injection import BuildIdMapper, JitInjector, inject
    from perfpy.cli.output.terminal import print_notes
    from perfpy.symbols.quality_notes import truncation_note

    recording.data.decodes_traces = not options.convert_callchain  # they are copied
    injector = entries = mapper = None
    converter = _converter(recording, options)
    if options.jit:
        injector = JitInjector(recording.data, load_config().build_id_folder, force=options.force)
    if options.build_ids or options.buildid_all:
        entries = _table(_build_ids(_dsos(recording, every=options.buildid_all), known_build_ids, recording.data.ended_here))
    if options.mmap2_buildids or options.mmap2_buildid_all:
        every = options.mmap2_buildid_all
        dsos = _build_ids(_dsos(recording, every=every), known_build_ids, recording.data.ended_here)
        build_ids = {dso.name: build_id for dso, build_id in dsos}
        mapper = BuildIdMapper(recording.data, build_ids, only_these=not every)
    with _result(output, recording.data) as fd:
        inject(recording.data, output, fd, jit=injector, build_ids=entries, mapper=mapper, converter=converter)
    if converter is not None:
        print_notes(truncation_note(converter.truncated_stacks), quiet=False, verbose=options.verbose)
    if options.verbose and injector:
        folder = f" in {injector.folder}" if injector.folder else ""
        functions, dumps = injector.functions, len(injector.dumps)
        print(f"{functions} {plural(functions, 'function')} of {dumps} {plural(dumps, 'jitdump file')}{folder}", file=sys.stderr)


def _converter(recording: Recording, options: InjectCommandOptions) -> CallchainConverter | None:
    if not options.convert_callchain:
        return None
    if options.jit or options.mmap2_buildids or options.mmap2_buildid_all:
        fail("--convert-callchain cannot be combined with -j or -B; run perfpy inject twice")
    from perfpy.analysis.callchains import user_callchains
    from perfpy.capture.injection import CallchainConverter  # loads the unwinder
    from perfpy.symbols.files.debug_files import SymbolOptions

    callchains = user_callchains(recording.data, recording.symbolizer(SymbolOptions(symfs=options.symfs)))
    if callchains is None:
        raise PerfError(f"{recording.path}: no stack copies to unwind; record with --call-graph dwarf")
    return CallchainConverter(recording.data, callchains)


def _known_build_ids(text: str) -> dict[str, bytes]:
    """Parse --known-build-ids: `BUILD-ID PATH,...`, or file://LIST, the output of buildid-list. Raises UsageError for other text."""
    if text.startswith(_LIST_FILE):
        content = read_named(text.removeprefix(_LIST_FILE), limit=_LARGEST_LIST).decode("utf-8", "surrogateescape")
        lines = [line for line in content.splitlines() if not line.startswith(" ")]  # a file without a build-id
    else:
        lines = text.split(",")
    build_ids = {}
    for line in filter(None, map(str.strip, lines)):
        digits, _, name = line.partition(" ")
        name = name.strip()
        try:
            build_ids[name] = bytes.fromhex(digits)
        except ValueError:
            name = ""
        if not name or not 0 < len(build_ids[name]) <= _LONGEST_ID:
            fail(f"--known-build-ids: expected 'BUILD-ID PATH', not {line!r}")
    return build_ids


@contextmanager
def _result(output: str, source: PerfData) -> Iterator[int]:
    """Yield the descriptor to write the new recording to, -1 for standard output. An existing file becomes OUTPUT.old."""
    from perfpy.capture.session.output import rotate
    from perfpy.cli.output.output_files import whole_file
    from perfpy.untrusted.destinations import FileDestination

    if output == "-":
        sys.stdout.flush()
        yield -1
        return
    if os.path.exists(output) and os.path.exists(source.path) and os.path.samefile(source.path, output):
        raise OutputFailedError(output, "the output is also the input")
    with suppress(OSError), FileDestination(output) as destination:  # whole_file reports the reason
        if destination.is_regular and destination.inherited < 0:
            rotate(destination)
    with whole_file(output, _MODE) as file:
        yield os.dup(file.fileno())


def _dsos(recording: Recording, *, every: bool) -> list[Dso]:
    """Return the hit files, those with a build-id in their mapping, and the vdso, as perf does; with `every`, all mapped files."""
    from perfpy.analysis.locations import hit_dsos
    from perfpy.symbols.dso import DsoKind

    dsos = recording.timeline.dso_table.dsos
    if every:
        return dsos
    hit = hit_dsos(recording.data, recording.symbolizer(), chains=True)
    listed = {entry.filename for entry in recording.header.get("build_id", ())}
    in_mappings = [dso for dso in dsos if dso.build_id and dso.name not in listed]
    vdso = [dso for dso in dsos if dso.kind is DsoKind.VDSO and (dso.build_id or recording.data.ended_here)]
    return [*hit, *(dso for dso in dict.fromkeys([*in_mappings, *vdso]) if dso not in hit)]


def _build_ids(dsos: list[Dso], known_build_ids: Mapping[str, bytes], ended: float) -> list[tuple[Dso, bytes]]:
    """Return the files with their build-ids: from the option, else from the recording, else from the file on this machine; b"" if unknown.

    If a file is gone and another one has its name, neither gets a build-id, because readers find both by that name.
    """
    from perfpy.cli.archive import build_id_here

    build_ids = [(dso, known_build_ids.get(dso.name) or build_id_here(dso, ended)) for dso in dsos]
    unknown = {dso.name for dso, build_id in build_ids if not build_id}
    return [(dso, b"" if dso.name in unknown else build_id) for dso, build_id in build_ids]


def _table(build_ids: list[tuple[Dso, bytes]]) -> tuple[HeaderBuildId, ...]:
    """Return a build-id table of the files that have a build-id."""
    from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId

    entries = []
    for dso, build_id in build_ids:
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.kernel else MISC_USER)
            entries.append(HeaderBuildId(misc, -1, build_id, dso.name))
    return tuple(entries)


command = PerfCommand(InjectCommandOptions, run)
