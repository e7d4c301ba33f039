"""Recordings that are folders: their output, and the threads that read ring buffers (record --threads)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.capture.metadata.kernel_copy import copy_kernel
from perfpy.capture.output.folder_output import FolderOutput
from perfpy.capture.output.ring_files import RingFilesOutput
from perfpy.capture.output.threaded_draining import ThreadedDrain
from perfpy.capture.session.alarms import patience
from perfpy.capture.session.own_samples import OwnSamples
from perfpy.capture.targets import online_cpus
from perfpy.capture.thread_masks import thread_masks
from perfpy.errors import UsageError
from perfpy.kernel.hardware.topology import Topology
from perfpy.perfdata.reader import KERNEL_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.output.moved_text_watch import MovedTextWatch
    from perfpy.capture.output.output import RecordOutput
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.perfdata.container.compression import Packer


def open_folder(options: RecordOptions, packer: Packer | None) -> RecordOutput:
    """Create the folder, empty but for a copy of the kernel (--kcore). Raises UsageError for threads on missing CPUs."""
    output: FolderOutput
    if options.buffers.threads:
        cpus = online_cpus()
        thread_masks(options.buffers.threads, cpus, cpus, Topology())
        output = RingFilesOutput(options.output.path, packer, options.output.compression_level, options.output.max_size)
    else:
        output = FolderOutput(options.output.path, packer)
    if options.output.kcore:
        try:
            copy_kernel(output.folder, KERNEL_FOLDER)
        except BaseException:
            output.abandon()
            raise
    return output


def threaded_drain(
    counters: SampleCounters, output: RecordOutput, options: RecordOptions, new_watch: Callable[[], MovedTextWatch]
) -> ThreadedDrain:
    """Start the threads that read the ring buffers. With --exclude-perf they are not recorded, like the recorder."""
    assert isinstance(output, RingFilesOutput)
    if counters.aux:
        raise UsageError("--threads excludes events with AUX data")
    recorded = {one.target.cpu for one in counters.opened}
    masks = thread_masks(options.buffers.threads, recorded, online_cpus(), Topology())
    drain = ThreadedDrain(
        counters,
        output,
        masks,
        flush=options.buffers.mmap_flush,
        patience=None if options.buffers.overwrite else patience(counters, options),
        new_watch=new_watch,
    )
    if options.target.exclude_perf:
        for event in OwnSamples(counters.events, drain.tids).leave_out():
            event.set_filter()
    return drain
