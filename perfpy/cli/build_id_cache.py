"""`perfpy buildid-cache`: look after the files that are kept by build-id.

What enters: perf buildid-cache's options. What leaves: changes in perf's cache;
lists on stdout, and on stderr what could not be done.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from perfpy.cli.line.decorators import lacking_options, option, perf_command
from perfpy.cli.line.options import fail
from perfpy.errors import OutputFailed
from perfpy.untrusted.folders import NotOurs
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.symbols.files.build_id_cache import BuildIdCache


@perf_command()
@option("-a", "--add", metavar="<file list>", default="", help="files to add")
@option("-r", "--remove", metavar="<file list>", default="", help="files to remove")
@option("-p", "--purge", metavar="<file list>", default="", help="files to remove, with all older builds of them")
@option("-P", "--purge-all", is_flag=True, help="remove everything")
@option("-u", "--update", metavar="<file list>", default="", help="files to add where they are not there yet")
@option("-M", "--missing", metavar="<file>", default="", help="list what a recording needs and the cache lacks")
@option("-l", "--list", "listing", is_flag=True, help="list what is kept and still is at its path")
@option("-f", "--force", is_flag=True, help="read a recording although somebody else owns it")
@option("-v", "--verbose", count=True, help="say what is done")
@lacking_options(
    {
        "-k, --kcore": "it copies the memory of the kernel",
        "--debuginfod": "set DEBUGINFOD_URLS",
        "--target-ns": "it enters another mount namespace",
    }
)
def command(**values: Any) -> int:
    """Add, remove and list the files of the build-id cache."""
    from perfpy.cli.line.perfconfig import load
    from perfpy.symbols.files.build_id_cache import BuildIdCache

    actions = ("add", "remove", "purge", "purge_all", "update", "missing", "listing")
    if not any(values[name] for name in actions):
        fail("nothing to do: give -l, -a, -r, -u, -p, -P or -M")
    cache = BuildIdCache(os.path.expanduser(load().get("buildid.dir", "")))
    try:
        return _Run(cache, values["verbose"]).all_of(values)
    except OSError as error:
        raise OutputFailed(str(error.filename or cache.folder), error.strerror or str(error)) from None


class _Run:
    """The actions of one command line, in perf's order."""

    def __init__(self, cache: BuildIdCache, verbose: int) -> None:
        self._cache = cache
        self._verbose = verbose

    def all_of(self, values: dict[str, Any]) -> int:
        if values["listing"]:
            for build_id, name in self._cache.valid_entries():
                print(build_id, one_line(name))
        for path in _files(values["add"]):
            self._add(path, "Adding", "add")
        for path in _files(values["remove"]):
            self._remove(path)
        for path in _files(values["purge"]):
            self._purge(path)
        if values["purge_all"]:
            for build_id, name in self._cache.entries():
                self._say(f"Removing {build_id} {name}", done=self._cache.remove(build_id))
        if values["missing"]:
            self._missing(values)
        for path in _files(values["update"]):
            self._add(path, "Updating", "update")
        return 0

    def _add(self, path: str, doing: str, verb: str) -> None:
        build_id = _build_id(path, verb)
        if not build_id or self._cache.holds(build_id):
            return
        try:
            self._cache.keep(os.path.realpath(path), build_id)
        except NotOurs:
            raise
        except OSError as error:
            print(f"Couldn't {verb} {path}: {error.strerror}", file=sys.stderr)
        else:
            self._say(f"{doing} {build_id} {path}", done=True)

    def _remove(self, path: str) -> None:
        build_id = _build_id(path, "remove")
        if build_id:
            self._say(f"Removing {build_id} {path}", done=self._cache.remove(build_id))

    def _purge(self, path: str) -> None:
        for build_id, name in self._cache.entries():
            if name == os.path.realpath(path):
                self._say(f"Removing {build_id} {path}", done=self._cache.remove(build_id))

    def _missing(self, values: dict[str, Any]) -> None:
        from perfpy.cli.line.opening import open_recording

        with open_recording(values["missing"], force=values["force"]) as recording:
            for entry in sorted(recording.data.features.get("build_id", ()), key=lambda entry: entry.filename):
                if not self._cache.holds(entry.build_id.hex()):
                    print(entry.build_id.hex(), one_line(entry.filename))

    def _say(self, what: str, *, done: bool) -> None:
        if self._verbose:
            print(f"{what}: {'Ok' if done else 'FAIL'}", file=sys.stderr)


def _files(text: str) -> Iterator[str]:
    return (path for path in text.split(",") if path)


def _build_id(path: str, verb: str) -> str:
    """The build-id of a file, "" with a word on stderr where it has none."""
    from perfpy.symbols.files import build_id_notes

    found = build_id_notes.of_file(path).hex()
    if not found:
        reason = "it has no build-id" if os.path.exists(path) else "No such file or directory"
        print(f"Couldn't {verb} {path}: {reason}", file=sys.stderr)
    return found
