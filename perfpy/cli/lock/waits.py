"""The waits of the input of `perfpy lock`, with names of locks and threads."""

from __future__ import annotations

import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import fail
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.locks.callers import LockText
    from perfpy.analysis.locks.contention import LockWaits
    from perfpy.cli.lock.options import LockOptions
    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

_MARKERS: Final = re.compile(rb"^([0-9a-fA-F]+) \w (__(?:sched|lock)_text_(?:start|end))$", re.MULTILINE)
_LONGEST: Final = 1 << 26  # bytes of kallsyms
_KALLSYMS: Final = "/proc/kallsyms"


class LockInput:
    """The waits of an open recording."""

    def __init__(self, recording: Recording, options: LockOptions, *, chains: bool = False, owners: bool = False) -> None:
        from perfpy.analysis.locks.contention import read_waits

        self._recording = recording
        self._options = options
        if options.dump_raw_trace:
            from perfpy.views.dump.recording import write_dump

            sys.stdout.flush()
            write_dump(recording, sys.stdout.buffer)
        self.waits: LockWaits = read_waits(recording.data, chains=chains, owners=owners)

    @cached_property
    def symbolizer(self) -> Symbolizer:
        """The symbols of the recording."""
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.shared import SymbolFileOptions
        from perfpy.cli.line.symbol_values import symbol_options_of

        files = SymbolFileOptions(kallsyms=self._options.kallsyms, vmlinux=self._options.vmlinux)
        return self._recording.symbolizer(symbol_options_of(files, load(), self._recording, force=self._options.force))

    def comm(self, tid: int) -> str:
        """Return the last name that a COMM record gave a thread; new threads have none, as in perf."""
        return self._comms.get(tid, f":{tid}") if tid else "swapper"

    def name(self, tid: int) -> str:
        """Return the last name of a thread, also one that it has from its parent."""
        return self._timeline.last_comm(tid) if tid else "swapper"

    @cached_property
    def _timeline(self) -> TaskTimeline:
        return self._recording.make_timeline(keep_exited=True)

    @cached_property
    def _comms(self) -> dict[int, str]:
        from perfpy.abi.flags import RecordType

        return {side.record.tid: side.record.comm for side in self._recording.data.side_band({RecordType.COMM})}

    def lock_names(self, addresses: Iterable[int]) -> dict[int, str]:
        """Return the symbols of locks, "" for locks without one."""
        import numpy as np

        from perfpy.abi.flags import MISC_KERNEL

        distinct = np.array(sorted(set(addresses)), np.uint64)
        count = len(distinct)
        ids = self.symbolizer.frame_ids(
            np.full(count, -1, np.int32),
            distinct,
            np.full(count, np.iinfo(np.uint64).max >> 1, np.uint64),
            np.full(count, MISC_KERNEL, np.uint8),
        )
        self.symbolizer.resolve()
        symbols = self.symbolizer.frames.symbol[ids].tolist()
        names = [self.symbolizer.symbols.name(symbol) if symbol >= 0 else "" for symbol in symbols]
        return dict(zip(distinct.tolist(), names, strict=True))

    def lock_text(self) -> LockText:
        """Return the ranges of the kernel's lock functions."""
        from perfpy.analysis.locks.callers import LockText

        try:
            with open_regular(self._options.kallsyms or _KALLSYMS, of_kernel=True) as file:
                text = file.read(_LONGEST)
        except OSError:
            return LockText()
        addresses_of = {name: int(address, 16) for address, name in _MARKERS.findall(text)}
        pairs = [
            (addresses_of.get(b"__%s_text_start" % kind, 0), addresses_of.get(b"__%s_text_end" % kind, 0)) for kind in (b"sched", b"lock")
        ]
        return LockText(tuple(pair for pair in pairs if pair[1] > pair[0]))


def chosen_fields(text: str, known: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of -F. Rejects unknown ones."""
    fields = tuple(word for word in text.split(",") if word) or default
    for field in fields:
        if field not in known:
            fail(f"-F {field}: unknown field; expected {', '.join(known)}")
    return fields


def check_key(key: str, keys: tuple[str, ...]) -> None:
    """Reject an unknown sort key."""
    if key not in keys:
        fail(f"-k {key}: unknown sort key; expected {', '.join(keys)}")


def print_table(lines: Iterable[str], options: LockOptions) -> None:
    """Print lines to standard error, as perf does, or to the file of --output."""
    from perfpy.untrusted.text import lines as one_line_each
    from perfpy.untrusted.text import one_line

    if options.output:
        from perfpy.cli.output.output_files import write_text

        write_text(options.output, (f"{one_line(line)}\n" for line in lines))
        return
    sys.stdout.flush()
    sys.stderr.writelines(one_line_each(lines))
