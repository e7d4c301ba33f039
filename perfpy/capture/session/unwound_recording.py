"""record --unwind and --off-cpu: the parts of a recording whose records another process rewrites while it runs."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from perfpy.capture.counter import Counter
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.capture.session.output import DataFile, RecordOutput
from perfpy.capture.session.unwound_output import StackFile, UnwoundOutput
from perfpy.capture.unwinding.process import has_stacks, plain_attr
from perfpy.errors import KernelRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.off_cpu import WaitPlan
    from perfpy.capture.python_frames.kernel_frames import FrameCopier, FrameMaps
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.capture.unwinding.process import Spool
    from perfpy.capture.unwinding.reader_process import ReaderProcess
    from perfpy.events.event import Event
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.writer import Packer


_PIECE_OF_WAITS: Final = 8 << 20  # bytes; small pieces cost no more
_THREADS_OF_NUMPY: Final = "OPENBLAS_NUM_THREADS"


def open_output(
    options: RecordOptions,
    packer: Packer | None,
    events: Sequence[Event],
    tell: Callable[[str], None],
    plan: WaitPlan | None = None,
    copier: FrameCopier | None = None,
) -> UnwoundOutput:
    """Open the output, and start the process that unwinds. Raises UsageError if there is nothing to unwind.

    Args:
        plan: how switches become waits, if any.
        copier: copies Python frames, if the kernel permits it.
    """
    if options.sampling.unwind and not any(has_stacks(event.attr) for event in events):
        raise UsageError("--unwind: no event has callchains of DWARF stacks")
    only = None if options.sampling.unwind or plan is None else (plan.switches,)
    if options.python:
        _load_shared_modules()
    new_reader = partial(_new_reader, events[0].attr, copier.maps if copier else None) if options.python else None
    serve = partial(_serve, plan, only, options)
    output = UnwoundOutput(options.output.path, packer, serve, tell=tell, keep_stacks=options.sampling.keep_stacks, new_reader=new_reader)
    output.unwinds_late = options.sampling.unwind_late
    output.frame_copier = copier
    output.most = options.output.max_size
    if not options.sampling.unwind:
        output.piece = _PIECE_OF_WAITS
    return output


def _load_shared_modules() -> None:
    """Load numpy and what both processes need before they are forked, as this one needs numpy at the end, too.

    Loaded three times, it took half of the processor time of a recording of seconds. numpy's linear algebra must not start threads: a fork
    copies none.
    """
    thread_count = os.environ.get(_THREADS_OF_NUMPY)
    os.environ[_THREADS_OF_NUMPY] = "1"
    try:
        import perfpy.capture.runtimes.rewriting
        import perfpy.capture.unwinding.python_reader
        import perfpy.capture.unwinding.serving  # noqa: F401
    finally:  # the workload inherits the environment
        if thread_count is None:
            del os.environ[_THREADS_OF_NUMPY]
        else:
            os.environ[_THREADS_OF_NUMPY] = thread_count
    gc.freeze()  # collections would copy the pages that the processes share


def _new_reader(attr: EventAttr, maps: FrameMaps | None, spool: Spool) -> ReaderProcess:
    from perfpy.capture.unwinding.reader_process import ReaderProcess  # rarely needed

    return ReaderProcess(spool, attr, maps)


def _attach(output: UnwoundOutput, counters: SampleCounters) -> None:
    """Let the kernel copy Python frames with each sample, if it permits that."""
    copier, output.frame_copier = output.frame_copier, None
    if copier is not None:
        with suppress(OSError, KernelRefusedError):
            output.frame_counters.extend(copier.attach((one.counter for one in counters.opened if has_stacks(one.event.attr)), Counter))
        copier.close()


def _serve(
    plan: WaitPlan | None,
    only: Collection[int] | None,
    options: RecordOptions,
    requests: int,
    answers: int,
    stores: tuple[int, int, int],
    *,
    python: int = -1,
) -> None:
    """Run the other process, which imports numpy."""
    from perfpy.capture.unwinding.serving import Rescue, serve

    rescue = None if options.output.path == STANDARD_OUTPUT else Rescue(options.output.path)
    cache = options.output.buildid_dir if options.output.buildid_cache else None
    serve(requests, answers, stores, plan=plan, only=only, jit=options.jit, python=(python, cache) if python >= 0 else None, rescue=rescue)


def open_file(
    output: RecordOutput,
    counters: SampleCounters,
    options: RecordOptions,
    procfs: ProcFs,
    workload: int,
    packer: Packer | None,
    plan: WaitPlan | None = None,
) -> DataFile:
    """Return the file of callchains and waits; it creates a file of the kernel's records beside it if needed."""
    assert isinstance(output, UnwoundOutput)

    def stack_file() -> StackFile:
        beside = RecordOutput(output.stacks_path)
        return StackFile(beside, DataFile(beside, counters, options, procfs, workload=workload))

    output.stack_file = stack_file
    _attach(output, counters)
    attrs, file_counters = _in_file(counters, options, plan)
    file = DataFile(output, file_counters, options, procfs, workload=workload, packer=packer, attrs=attrs)
    output.expect(((event.attr, counters.ids(event)) for event in counters.events), file.early_features())
    if plan is not None:
        from perfpy.capture.off_cpu import SwitchLimit  # rarely needed

        output.after_round = SwitchLimit(counters, plan, options.off_cpu.limit, output.tell).check
    return file


def _in_file(counters: SampleCounters, options: RecordOptions, plan: WaitPlan | None) -> tuple[list[EventAttr], SampleCounters]:
    """Return the attrs of the file's events, and the counters restricted to them."""
    attrs = [plain_attr(event.attr) if options.sampling.unwind else event.attr for event in counters.events]
    if plan is None:
        return attrs, counters
    from perfpy.capture.off_cpu import TIME_ATTR  # rarely needed

    kernel_has = attrs[plan.time]
    attrs[plan.time] = TIME_ATTR.copy(disabled=kernel_has.disabled, inherit=kernel_has.inherit, enable_on_exec=kernel_has.enable_on_exec)
    indexes = [number for number in range(len(attrs)) if number not in plan.hidden]
    # Readers do not need the recorder's wakeup settings.
    attrs = [attr.copy(watermark=0, wakeup_events=0) if attr.watermark else attr for attr in attrs]
    return [attrs[number] for number in indexes], counters.restricted_to([counters.events[number] for number in indexes])
