"""Choose the output of a recording by its options: one file, a folder, or a file that another process rewrites first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.capture.output.data_file import DataFile
from perfpy.capture.output.draining import Drain
from perfpy.capture.output.moved_text_watch import MovedTextWatch
from perfpy.capture.output.output import RecordOutput
from perfpy.capture.record_options import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.capture.output.threaded_draining import ThreadedDrain
    from perfpy.capture.python_frames.sampled_frames import FrameCopier
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.events.event import Event
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.container.compression import Packer


def open_output(
    options: RecordOptions,
    packer: Packer | None,
    events: Sequence[Event],
    tell: Callable[[str], None],
    waits: WaitPlan | None,
    copier: FrameCopier | None,
) -> RecordOutput:
    """Open the empty output.

    Args:
        waits: how switches become waits (record --off-cpu).
        copier: copies Python frames (record --python).
    """
    if options.is_folder:
        from perfpy.capture.session.folders import open_folder  # rarely needed

        return open_folder(options, packer)
    if options.rewritten:
        from perfpy.capture.session.unwound_recording import open_output as open_unwound  # as above

        return open_unwound(options, packer, events, tell, waits, copier)
    return RecordOutput(options.output.path, packer)


def open_file(
    output: RecordOutput,
    counters: SampleCounters,
    options: RecordOptions,
    procfs: ProcFs,
    workload: int,
    packer: Packer | None,
    waits: WaitPlan | None,
) -> DataFile:
    """Return the file to begin and end in the output."""
    if not options.rewritten:
        return DataFile(output, counters, options, procfs, workload=workload, packer=packer)
    from perfpy.capture.session.unwound_recording import open_file as open_unwound  # as above

    return open_unwound(output, counters, options, procfs, workload, packer, waits)


def new_drain(
    counters: SampleCounters, output: RecordOutput, options: RecordOptions, procfs: ProcFs, stop: Callable[[], bool]
) -> Drain | ThreadedDrain:
    """Return the object that reads the ring buffers. stop returns whether a pass must end early."""
    build_id: Callable[[str], bytes] | None = None
    if options.side_band.buildid_mmap:
        from perfpy.capture.metadata.build_id_table import own_build_id  # as above

        build_id = own_build_id

    def new_watch() -> MovedTextWatch:
        return MovedTextWatch([event.attr for event in counters.events], procfs, build_id=build_id)

    if options.buffers.threads:
        from perfpy.capture.session.folders import threaded_drain  # as above

        return threaded_drain(counters, output, options, new_watch)
    return Drain(counters, output, options.buffers.mmap_flush, stop=stop, move=_mover(counters, options), watch=new_watch())


def _mover(counters: SampleCounters, options: RecordOptions) -> Callable[[int], None] | None:
    if options.buffers.affinity == ANYWHERE:
        return None
    from perfpy.capture.rings.affinity import mover  # as above

    return mover(options.buffers.affinity, counters)
