"""`perfpy buildid-list`: list the build-ids of the files in a recording, of an ELF file, or of the running kernel, in perf's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Counted, Flag, PerfCommand, option
from perfpy.cli.line.shared_options import InputOptions
from perfpy.errors import PerfError
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.recording import Recording

_KERNEL = "[kernel.kallsyms]"


class BuildIdListCommandOptions(InputOptions):
    """Options of `perfpy buildid-list`."""

    with_hits: bool = option("-H,--with-hits", Flag(), "only files with samples")
    kernel: bool = option("-k,--kernel", Flag(), "print the running kernel's build-id")
    kernel_maps: bool = option("-m,--kernel-maps", Flag(), "print build-ids and addresses of the running kernel")
    verbose: int = option("-v,--verbose", Counted(), "print more details")


def run(options: BuildIdListCommandOptions) -> None:
    """List build-ids."""
    from perfpy.symbols.files import build_ids

    if options.kernel:
        print(_running_kernel())
        return
    if options.kernel_maps:
        for line in _kernel_maps():
            print(line)
        return
    elf_build_id = build_ids.of_file(options.input) if options.input not in ("", "-") else b""
    if elf_build_id:  # an ELF file
        print(elf_build_id.hex())
        return
    with open_recording(options.input, force=options.force) as recording:
        for build_id, name in _recorded_build_ids(recording, with_hits=options.with_hits):
            print(one_line(f"{build_id:40} {name}"))


def _running_kernel() -> str:
    from perfpy.symbols.files import build_ids

    build_id = build_ids.of_kernel()
    if not build_id:
        raise PerfError("the running kernel's build-id is unavailable: /sys/kernel/notes is unreadable or has none")
    return build_id.hex()


def _kernel_maps() -> Iterator[str]:
    """Yield BUILDID START END NAME of the kernel and each module."""
    from perfpy.symbols import kernel_symbols
    from perfpy.symbols.files import build_ids

    with open("/proc/kallsyms", "rb") as file:
        table = kernel_symbols.parse(file.read())
    if table.is_restricted:
        raise PerfError("the kernel hides its addresses; run as root, or set sysctl kernel.kptr_restrict=0")
    start, end = table.address_of("_stext") or 0, table.address_of("_etext") or 0
    yield f"{_running_kernel()} {start:16x} {end:16x} {_KERNEL}"
    try:
        with open("/proc/modules", encoding="utf-8") as modules:
            lines = modules.read().splitlines()
    except FileNotFoundError:  # a kernel without modules
        lines = []
    for line in lines:
        name, size, *_, address = line.split(" (", 1)[0].split()
        yield f"{build_ids.of_module(name).hex()} {int(address, 16):16x} {int(address, 16) + int(size):16x} [{name}]"


def _recorded_build_ids(recording: Recording, *, with_hits: bool) -> list[tuple[str, str]]:
    """Return (build-id, name) of the files in the build-id table, by name; without a table, or `with_hits`, of the hit files."""
    entries = recording.data.features.get("build_id", ())
    if entries and not with_hits:
        pairs = {(entry.filename, entry.build_id.hex()) for entry in entries}
    else:
        from perfpy.analysis.locations import hit_dsos
        from perfpy.symbols.dso import DsoKind

        hits = hit_dsos(recording.data, recording.symbolizer())
        pairs = {(dso.name, dso.build_id) for dso in hits if dso.kind is not DsoKind.BPF}  # BPF programs have no file
    return [(build_id, name) for name, build_id in sorted(pairs)]


command = PerfCommand(BuildIdListCommandOptions, run)
