"""One run of a script over columns (script --py): thousands of samples a call instead of one.

What enters: the samples wanted, as batches with names, and a ScriptProgram. What leaves: calls of its functions, all of which it
may leave out: on_start(recording), on_sample(batch), on_record(record), on_end().
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.analysis.sample_batch import SampleBatch
    from perfpy.perfdata.records.side_band import SideRecord
    from perfpy.views.scripting.program import ScriptProgram


class ColumnRun:
    """Calls a script's functions for columns."""

    def __init__(self, recording: Any, batches: Iterable[SampleBatch], records: Iterable[SideRecord]) -> None:
        """recording: what on_start gets; records: those that are no samples, in order of delivery."""
        self._recording = recording
        self._batches = batches
        self._records = records
        self._stopped = False

    def stop(self) -> None:
        """Read no further: the script is told the end. May be called by a signal."""
        self._stopped = True

    def go(self, program: ScriptProgram) -> None:
        """The whole run. Raises ScriptFailedError where one of its functions does, PerfError where it has none of them."""
        program.start()
        if not any(map(program.function, ("on_start", "on_sample", "on_record", "on_end"))):
            raise PerfError(f"{program.path}: no function on_sample(batch) or on_record(record); a script in perf's form is run by -s")
        program.call_if_there("on_start", self._recording)
        records: Iterator[SideRecord] = iter(self._records if program.function("on_record") else ())
        waiting = next(records, None)
        for batch in self._batches if program.function("on_sample") else ():
            if self._stopped:
                break
            while waiting is not None and waiting.key <= batch.first_key:
                program.call_if_there("on_record", waiting.record)
                waiting = next(records, None)
            program.call_if_there("on_sample", batch)
        while waiting is not None and not self._stopped:
            program.call_if_there("on_record", waiting.record)
            waiting = next(records, None)
        program.call_if_there("on_end")
