"""`perfpy buildid-list` and `buildid-cache`: the build-ids of files, and the cache that keeps files by build-id."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import HOST_ONLY, Machines
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, PerfCommand, Value, fail, option
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions
from perfpy.errors import OutputFailedError, PerfError
from perfpy.untrusted.destinations import ForeignFolderError
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.recording import Recording
    from perfpy.symbols.files.build_ids import BuildIdCache
    from perfpy.untrusted.process_files import FileId

_KERNEL = "[kernel.kallsyms]"


class BuildIdListCommandOptions(InputOptions):
    """Options of `perfpy buildid-list`."""

    with_hits: bool = option("-H,--with-hits", Flag(), "only files with samples")
    kernel: bool = option("-k,--kernel", Flag(), "print the running kernel's build-id")
    kernel_maps: bool = option("-m,--kernel-maps", Flag(), "print build-ids and addresses of the running kernel")
    verbose: int = option("-v,--verbose", Counted(), "print more details")

    @property
    def machines(self) -> Machines:
        """The machines whose files are listed."""
        return HOST_ONLY


def list_build_ids(options: BuildIdListCommandOptions) -> None:
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
        for build_id, name in _recorded_build_ids(recording, options.machines, with_hits=options.with_hits):
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
        raise PerfError("the kernel hides its addresses; list_build_ids as root, or set sysctl kernel.kptr_restrict=0")
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


def _recorded_build_ids(recording: Recording, machines: Machines, *, with_hits: bool) -> list[tuple[str, str]]:
    """Return (build-id, name) of the files in the build-id table, by name; in a pipe, without a table, or `with_hits`, of the hit files.

    Those of virtual machines are last.
    """
    from perfpy.symbols.dso import HOST, DsoKind, is_guest_map

    found: set[tuple[bool, str, str, FileId | None]]
    entries = recording.data.features.get("build_id", ())
    if entries and not with_hits and not recording.data.is_pipe:
        found = {(is_guest_map(entry.misc), entry.filename, entry.build_id.hex(), None) for entry in entries}
    else:
        from perfpy.analysis.locations import hit_dsos
        from perfpy.symbols.files.debug_files import GuestFiles, SymbolOptions

        hits = hit_dsos(recording.data, recording.symbolizer(SymbolOptions(guests=GuestFiles(machines=machines))))
        # BPF programs have no file. Files of one name that are told apart, as two of memfd_create(2), have a line each.
        found = {(dso.machine != HOST, dso.name, dso.build_id, dso.identity) for dso in hits if dso.kind is not DsoKind.BPF}
    return [(build_id, name) for _, name, build_id, _ in sorted(found, key=lambda one: one[:3])]


list_command = PerfCommand(BuildIdListCommandOptions, list_build_ids)


_LACKING: Final = {
    "-k,--kcore": "it copies kernel memory",
    "--debuginfod": "set DEBUGINFOD_URLS",
    "--target-ns": "it enters another mount namespace",
}


class BuildIdCacheCommandOptions(CommandOptions, lacks=_LACKING):
    """Options of `perfpy buildid-cache`."""

    add: str = option("-a,--add", Value(default=""), "add these files", metavar="<file list>")
    remove: str = option("-r,--remove", Value(default=""), "remove these files", metavar="<file list>")
    purge: str = option("-p,--purge", Value(default=""), "remove these files and all their older builds", metavar="<file list>")
    purge_all: bool = option("-P,--purge-all", Flag(), "remove everything")
    update: str = option("-u,--update", Value(default=""), "add these files unless cached", metavar="<file list>")
    missing: str = option("-M,--missing", Value(default=""), "list the files of a recording that the cache lacks", metavar="<file>")
    list_files: bool = option("-l,--list", Flag(), "list cached files that still exist at their path")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")
    verbose: int = option("-v,--verbose", Counted(), "print each action")


def change_cache(options: BuildIdCacheCommandOptions) -> int:
    """Add, remove and list the files of the build-id cache."""
    from perfpy.symbols.files.build_ids import BuildIdCache

    files = (options.add, options.remove, options.purge, options.update, options.missing)
    if not (any(files) or options.purge_all or options.list_files):
        fail("no action; give -l, -a, -r, -u, -p, -P or -M")
    if options.list_files and (any(files) or options.purge_all):
        fail("-l excludes other actions")
    cache = BuildIdCache(load_config().build_id_folder)
    try:
        return _CacheRun(cache, options.verbose).all_of(options)
    except OSError as error:
        raise OutputFailedError(str(error.filename or cache.folder), error.strerror or str(error)) from None


class _CacheRun:
    """The actions of one cache_command line, in perf's order."""

    def __init__(self, cache: BuildIdCache, verbose: int) -> None:
        self._cache = cache
        self._verbose = verbose

    def all_of(self, options: BuildIdCacheCommandOptions) -> int:
        if options.list_files:
            for build_id, name in self._cache.valid_entries():
                print(build_id, one_line(name))
        for path in _paths_in(options.add):
            self._add(path, "Adding", "add")
        for path in _paths_in(options.remove):
            self._remove(path)
        for path in _paths_in(options.purge):
            self._purge(path)
        if options.purge_all:
            for build_id, name in self._cache.entries():
                self._print_action(f"Removing {build_id} {name}", succeeded=self._cache.remove(build_id))
        if options.missing:
            self._missing(options)
        for path in _paths_in(options.update):
            self._add(path, "Updating", "update")
        return 0

    def _add(self, path: str, doing: str, verb: str) -> None:
        build_id = _build_id_of(path, verb)
        if not build_id or self._cache.holds(build_id):
            return
        try:
            self._cache.keep(os.path.realpath(path), build_id)
        except ForeignFolderError:
            raise
        except OSError as error:
            print(f"Couldn't {verb} {path}: {error.strerror}", file=sys.stderr)
        else:
            self._print_action(f"{doing} {build_id} {path}", succeeded=True)

    def _remove(self, path: str) -> None:
        build_id = _build_id_of(path, "remove")
        if build_id:
            self._print_action(f"Removing {build_id} {path}", succeeded=self._cache.remove(build_id))

    def _purge(self, path: str) -> None:
        for build_id, name in self._cache.entries():
            if name == os.path.realpath(path):
                self._print_action(f"Removing {build_id} {path}", succeeded=self._cache.remove(build_id))

    def _missing(self, options: BuildIdCacheCommandOptions) -> None:
        with open_recording(options.missing, force=options.force) as recording:
            for entry in sorted(recording.data.features.get("build_id", ()), key=lambda entry: entry.filename):
                if not self._cache.holds(entry.build_id.hex()):
                    print(entry.build_id.hex(), one_line(entry.filename))

    def _print_action(self, action: str, *, succeeded: bool) -> None:
        if self._verbose:
            print(f"{action}: {'Ok' if succeeded else 'FAIL'}", file=sys.stderr)


def _paths_in(text: str) -> Iterator[str]:
    return (path for path in text.split(",") if path)


def _build_id_of(path: str, verb: str) -> str:
    """Return the build-id of a file; print a line on stderr and return "" if it has none."""
    from perfpy.symbols.files import build_ids

    build_id = build_ids.of_file(path).hex()
    if not build_id:
        reason = "no build-id" if os.path.exists(path) else "No such file or directory"
        print(f"Couldn't {verb} {path}: {reason}", file=sys.stderr)
    return build_id


cache_command = PerfCommand(BuildIdCacheCommandOptions, change_cache)
