"""record --unwind: the parts of a recording that is unwound while it runs, put together.

What enters: the options, the events, the open counters. What leaves: an output
whose stacks another process unwinds, and the file that it writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.capture.sampling.data_file import DataFile
from perfpy.capture.sampling.output import RecordOutput
from perfpy.capture.sampling.own_samples import leave_out
from perfpy.capture.sampling.stack_file import StackFile
from perfpy.capture.sampling.unwound_output import UnwoundOutput
from perfpy.capture.unwinding.plain_attrs import has_stacks, plain_attr
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sampling.sample_counters import SampleCounters
    from perfpy.events.event import Event
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.container.compression import Packer


def open_output(options: RecordOptions, packer: Packer | None, events: Sequence[Event], tell: Callable[[str], None]) -> UnwoundOutput:
    """The output; the process that unwinds is started, and gets ready. Raises UsageError where there is nothing to unwind."""
    if not any(has_stacks(event.attr) for event in events):
        raise UsageError("--unwind: none of the events has call chains of DWARF stacks")
    output = UnwoundOutput(options.output, packer, _serve, tell=tell, keep_stacks=options.keep_stacks)
    if options.exclude_perf:
        for event in events:
            if event.tracepoint:
                leave_out(event, output.others)
    return output


def _serve(requests: int, answers: int, stores: tuple[int, int]) -> None:
    """What the other process does: numpy is for it alone."""
    from perfpy.capture.unwinding.serving import serve

    serve(requests, answers, stores)


def open_file(
    output: RecordOutput, counters: SampleCounters, options: RecordOptions, procfs: ProcFs, workload: int, packer: Packer | None
) -> DataFile:
    """The file of callchains; beside it one of raw stacks, if it comes to that."""
    assert isinstance(output, UnwoundOutput)

    def stack_file() -> StackFile:
        beside = RecordOutput(output.stacks_path)
        return StackFile(beside, DataFile(beside, counters, options, procfs, workload=workload))

    output.stack_file = stack_file
    plain = [plain_attr(event.attr) for event in counters.events]
    file = DataFile(output, counters, options, procfs, workload=workload, packer=packer, attrs=plain)
    output.expect((event.attr, counters.ids(event)) for event in counters.events)
    return file
