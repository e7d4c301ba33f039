"""A run of a script over columns (script --py): each call gets thousands of samples.

The script may define on_start(recording), on_sample(batch), on_record(record) and on_end().
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
    """A run that calls a script's functions with columns."""

    def __init__(self, recording: Any, batches: Iterable[SampleBatch], records: Iterable[SideRecord]) -> None:
        """Set what on_start gets, the batches, and the records other than samples, in order of delivery."""
        self._recording = recording
        self._batches = batches
        self._records = records
        self._stopped = False

    def stop(self) -> None:
        """Stop reading; the script's end is still called. Safe in signal handlers."""
        self._stopped = True

    def go(self, program: ScriptProgram) -> None:
        """Run the script. Raises ScriptFailedError if one of its functions fails, PerfError if it defines none."""
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
