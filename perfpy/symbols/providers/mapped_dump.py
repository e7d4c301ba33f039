"""Find the jitdump of a recorded mapping, and create a folder for images of its code.

A dump is where its program wrote it, often in a folder to which others may write. It is used if it belongs to the process's owner, to root
or to us, or if the recording proves that the process mapped this file. Images go to a new folder of our own.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import Final, TypeAlias

from perfpy.abi import records
from perfpy.errors import PerfError
from perfpy.symbols.files import live_process
from perfpy.symbols.providers import jitdump
from perfpy.untrusted import folders, paths, process_files
from perfpy.untrusted.files import open_regular

MapRecord: TypeAlias = "records.Mmap | records.Mmap2"

_NAME: Final = re.compile(r"/jit-\d+\.dump\Z")


def is_dump(name: str) -> bool:
    """Whether a mapping's file has the name of a jitdump."""
    return _NAME.search(name) is not None


def read_dump(record: MapRecord, *, force: bool = False) -> jitdump.JitDump:
    """Read the dump that a record maps. `force` skips the owner check. Raises PerfError if it is missing, foreign or malformed."""
    path = record.filename
    try:
        reader = 0 if force else record.pid
        with open_regular(live_process.seen_by(record.pid, path), limit=jitdump.LARGEST, follow=force, reader=reader) as file:
            state = os.fstat(file.fileno())
            if not (force or state.st_uid in process_files.trusted_owners(record.pid) or is_mapped_by(record, state)):
                raise PerfError(f"{path}: belongs to user {state.st_uid}, not to its process; give -f if you trust it")
            data = file.read(jitdump.LARGEST)
    except OSError as error:
        raise PerfError(f"{path}: {error.strerror}; inject where the program ran, before its dump is removed") from None
    if not data:
        raise PerfError(f"{path}: empty: its process ended before it was written")
    dump = jitdump.parse(data, path)
    if dump.arch_clock:
        raise PerfError(f"{path}: its times are those of the processor's own clock; only CLOCK_MONOTONIC is understood")
    return dump


def is_mapped_by(record: MapRecord, state: os.stat_result) -> bool:
    """Whether a file is the very one that was mapped. Then the process chose it, whoever owns it."""
    if not isinstance(record, records.Mmap2) or not record.ino:
        return False
    return (record.maj, record.min, record.ino) == (os.major(state.st_dev), os.minor(state.st_dev), state.st_ino)


def new_folder(cache: str) -> str:
    """Create a folder that only this user can write to, where perf puts images of JIT-compiled code."""
    folder = paths.below(cache, "jit")
    folders.require_own(cache)
    folders.require_own(folder)
    return tempfile.mkdtemp(dir=os.path.abspath(folder), prefix="perfpy-")
