"""The last lines of a recording: its size, its quality, and remedies. perf's own line comes first."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from perfpy.abi.samples.pace import are_sampled_each_time, option_for_fewer
from perfpy.capture.record_options import DEFAULT_FREQ
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.ring import PAGE_SIZE
from perfpy.plurals import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.output.data_file import DataFile
    from perfpy.capture.record_options import RecordOptions
    from perfpy.perfdata.container.compression import Packer

_MEGABYTE: Final = 1 << 20
_FEW: Final = 400  # samples: a share of 10 % has an error of 3 points
_FEW_LOST: Final = 0.01  # of the samples; a brief recording leaves them to the report
_MOST_PIDS: Final = 20  # in a note
_SURE: Final = 1.96  # standard deviations: 19 times out of 20
_LARGER: Final = 4  # times the ring buffer that was too small
_MOST_RING: Final = 64 << 20
_PYTHON: Final = re.compile(r"(?:lib)?python\d\.\d+[a-z]*(?:\.so[\d.]*)?")  # CPython's program and library
_SMALL_COPY: Final = 8192  # bytes of a stack, perf's own size


def captured_line(name: str, size: int, samples: int | None, packer: Packer | None) -> str:
    """Return perf's line."""
    counted = f" ({samples} samples)" if samples else ""
    packed = ""
    if packer and packer.bytes_out:
        packed = f", compressed (original {packer.bytes_in / _MEGABYTE:.3f} MB, ratio is {packer.ratio:.3f})"
    return f"[ perf record: Captured and wrote {size / _MEGABYTE:.3f} MB {name}{counted}{packed} ]"


def judgement(file: DataFile, options: RecordOptions, ring: int, procfs: ProcFs | None = None) -> Iterator[str]:
    """Yield notes on the recording's quality, with remedies. ring is the size of a ring buffer in bytes; procfs: where processes are."""
    samples = file.samples
    if file.hint:
        yield f"note: {file.hint}"
    if file.lost and not (options.brief and file.lost < _FEW_LOST * (samples or 0)):
        yield _losses(file.lost, samples, options, ring, file.attrs)
    if not options.notes or samples is None or options.sampling.no_samples:
        return
    if runs_python(file, options):
        yield "note: this is a Python program; record --python has its functions and lines"
    if samples < _FEW:
        yield from busy_children(options, procfs or ProcFs())
    if not (options.brief and samples):
        yield from _accuracy(file, options)


def _accuracy(file: DataFile, options: RecordOptions) -> Iterator[str]:
    """Yield a note on the number of samples; a report has it, too."""
    samples = file.samples
    if not samples:
        yield "note: no samples; nothing ran on the target, or the events did not occur (-a records the whole machine)"
    elif are_sampled_each_time(file.attrs):
        if not (file.lost or file.hint):
            yield f"note: {samples} {plural(samples, 'sample')}, none lost: every event has its sample"
    elif samples < _FEW:
        period, freq = options.sampling.period, options.sampling.freq or DEFAULT_FREQ
        more = f"lower -c ({period})" if period else f"raise -F ({freq} Hz)"
        few = f"{samples} {plural(samples, 'sample is', 'samples are')} few"
        yield f"note: {few}: {_exactness(samples)}; record for longer, or {more}"
    elif not (file.lost or file.hint):
        yield f"note: a good recording: {samples} samples, none lost; {_exactness(samples)}"


def runs_python(file: DataFile, options: RecordOptions) -> bool:
    """Return whether samples of chosen tasks hit CPython, and the recording does not have its functions."""
    target = options.target
    if options.python or options.jit or target.all_cpus or target.cpu or target.cgroups:
        return False
    return any(_PYTHON.fullmatch(os.path.basename(name)) for name in file.hit_files)


def busy_children(options: RecordOptions, procfs: ProcFs) -> Iterator[str]:
    """Tell that processes which the chosen ones started earlier do the work: they are not recorded."""
    chosen = {int(pid) for pid in options.target.pid.split(",") if pid.strip().isdecimal()}
    if not chosen or options.target.all_cpus:
        return
    processes = procfs.parents()
    descendants: set[int] = set()
    generation = chosen
    while generation := {pid for pid, (parent, _) in processes.items() if parent in generation} - descendants - chosen:
        descendants |= generation
    used = sum(processes[pid][1] for pid in descendants)
    if used > sum(processes[pid][1] for pid in chosen if pid in processes):
        count, added = len(descendants), ",".join(map(str, sorted(chosen | descendants)[:_MOST_PIDS]))
        work = plural(count, "child process, which does", "child processes, which do")
        yield f"note: -p leaves out {count} {work} most of the work: record -p {added}"


def _losses(lost: int, samples: int | None, options: RecordOptions, ring: int, attrs: Sequence[EventAttr]) -> str:
    share = f" ({100 * lost / (lost + samples):.1f} %)" if samples else ""
    remedies = [*_larger(ring), *_smaller(options), *_fewer(lost, samples, options, attrs)]
    cause = f"{lost} {plural(lost, 'sample was', 'samples were')} lost{share}"
    return f"warning: {cause}: try {' or '.join(remedies)}" if remedies else f"warning: {cause}"


def _larger(ring: int) -> Iterator[str]:
    """Larger buffers, up to the size that still helps."""
    if ring < _MOST_RING:
        larger = min(max(ring, PAGE_SIZE) * _LARGER, _MOST_RING)
        yield f"larger buffers (-m {larger >> 20}M)" if larger >= _MEGABYTE else f"larger buffers (-m {larger >> 10}K)"


def _smaller(options: RecordOptions) -> Iterator[str]:
    """Smaller copies of stacks: they are nearly all of a sample."""
    if options.sampling.callchain and options.sampling.callchain.mode == "dwarf" and options.sampling.callchain.stack_size > _SMALL_COPY:
        yield f"smaller copies of stacks (--call-graph dwarf,{_SMALL_COPY})"


def _fewer(lost: int, samples: int | None, options: RecordOptions, attrs: Sequence[EventAttr]) -> Iterator[str]:
    """Fewer samples, by the option that lowers their number."""
    option = option_for_fewer(attrs)
    if option == "-F":
        yield f"a lower frequency (-F {max((options.sampling.freq or DEFAULT_FREQ) // 2, 1)})"
    elif option == "-c":
        period = options.sampling.period or max(attr.sample_period for attr in attrs)
        factor = -(-(lost + samples) // samples) if samples else _LARGER
        yield f"a higher count (-c {period * max(factor, 2)})"
    elif option:
        yield "a filter (--filter)"


def _exactness(samples: int) -> str:
    """Return the precision of a share: the spread of a binomial distribution."""
    return f"a share of 10 % is accurate to {100 * _SURE * (0.1 * 0.9 / samples) ** 0.5:.1f} points"
