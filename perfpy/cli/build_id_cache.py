"""`perfpy buildid-cache`: add, remove and list the files of the build-id cache."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, PerfCommand, Value, fail, option
from perfpy.cli.line.perfconfig import load_config
from perfpy.errors import OutputFailedError
from perfpy.untrusted.destinations import ForeignFolderError
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.symbols.files.build_ids import BuildIdCache


_LACKING: Final = {
    "-k, --kcore": "it copies kernel memory",
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


def run(options: BuildIdCacheCommandOptions) -> int:
    """Add, remove and list the files of the build-id cache."""
    from perfpy.symbols.files.build_ids import BuildIdCache

    files = (options.add, options.remove, options.purge, options.update, options.missing)
    if not (any(files) or options.purge_all or options.list_files):
        fail("no action; give -l, -a, -r, -u, -p, -P or -M")
    cache = BuildIdCache(load_config().build_id_folder)
    try:
        return _CacheRun(cache, options.verbose).all_of(options)
    except OSError as error:
        raise OutputFailedError(str(error.filename or cache.folder), error.strerror or str(error)) from None


class _CacheRun:
    """The actions of one command line, in perf's order."""

    def __init__(self, cache: BuildIdCache, verbose: int) -> None:
        self._cache = cache
        self._verbose = verbose

    def all_of(self, options: BuildIdCacheCommandOptions) -> int:
        if options.list_files:
            for build_id, name in self._cache.valid_entries():
                print(build_id, one_line(name))
        for path in _files(options.add):
            self._add(path, "Adding", "add")
        for path in _files(options.remove):
            self._remove(path)
        for path in _files(options.purge):
            self._purge(path)
        if options.purge_all:
            for build_id, name in self._cache.entries():
                self._print_action(f"Removing {build_id} {name}", succeeded=self._cache.remove(build_id))
        if options.missing:
            self._missing(options)
        for path in _files(options.update):
            self._add(path, "Updating", "update")
        return 0

    def _add(self, path: str, doing: str, verb: str) -> None:
        build_id = _build_id(path, verb)
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
        build_id = _build_id(path, "remove")
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


def _files(text: str) -> Iterator[str]:
    return (path for path in text.split(",") if path)


def _build_id(path: str, verb: str) -> str:
    """Return the build-id of a file; print a line on stderr and return "" if it has none."""
    from perfpy.symbols.files import build_ids

    build_id = build_ids.of_file(path).hex()
    if not build_id:
        reason = "no build-id" if os.path.exists(path) else "No such file or directory"
        print(f"Couldn't {verb} {path}: {reason}", file=sys.stderr)
    return build_id


command = PerfCommand(BuildIdCacheCommandOptions, run)
