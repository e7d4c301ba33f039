"""RecordOptions: all options of a recording as values, for the command line and perfpy.record(). Names are perf-record(1)'s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.capture.targets import TargetOptions
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from perfpy.capture.option_values import Callchain, SwitchOutput

DEFAULT_FREQ: Final = 4000
_COMPRESSION: Final = 1  # for unwound recordings: callchains repeat a lot
MAX_FREQ: Final = -1  # --freq max
STANDARD_OUTPUT: Final = "-"
ANYWHERE: Final = "sys"  # --affinity
DEFAULT_SWITCH_LIMIT: Final = 20_000

SYNTH_TASK: Final = "task"
SYNTH_MMAP: Final = "mmap"
SYNTH_CGROUP: Final = "cgroup"
SYNTH_ALL: Final = frozenset((SYNTH_TASK, SYNTH_MMAP, SYNTH_CGROUP))


def compression_of_unwound() -> int:
    """Return the default compression level of unwound recordings; 0 if zstd is not installed."""
    from perfpy.untrusted.expansion import ExpansionError, zstd_library  # rarely needed

    try:
        zstd_library()
    except ExpansionError:
        return 0
    return _COMPRESSION


class SamplingOptions(NamedTuple):
    """Options for the rate of sampling and the fields of a sample.

    Attributes:
        freq: Hz; MAX_FREQ for the kernel's maximum; None, with no `period`: DEFAULT_FREQ
        period: events from one sample to the next
        strict_freq: whether to refuse a frequency that the kernel would lower
        no_samples: record side-band only
        unwind: turn copied stacks into callchains during the recording
        unwind_late: give the unwinding process the lowest priority, so that it uses CPUs that nothing else needs (with `unwind`)
        keep_stacks: keep the copied stacks, too (with `unwind`)
        data: sample data addresses
        period_field, time: None for perf's rule
        inherit_stat: write READ records
        user_regs, intr_regs, branch_filter: masks
        kernel_callchains, user_callchains: only these
    """

    freq: int | None = None
    period: int | None = None
    strict_freq: bool = False
    no_samples: bool = False
    callchain: Callchain | None = None
    unwind: bool = False
    unwind_late: bool = False
    keep_stacks: bool = False
    data: bool = False
    data_mmap: bool = False
    sample_mem_info: bool = False
    transaction: bool = False
    phys_data: bool = False
    data_page_size: bool = False
    code_page_size: bool = False
    raw: bool = False
    cpu_field: bool = False
    period_field: bool | None = None
    time: bool | None = None
    weight: bool = False
    identifier: bool = False
    inherit_stat: bool = False
    running_time: bool = False
    user_regs: int = 0
    intr_regs: int = 0
    branch_filter: int = 0
    clockid: int | None = None
    kernel_callchains: bool = False
    user_callchains: bool = False
    all_user: bool = False
    all_kernel: bool = False


class SideBandOptions(NamedTuple):
    """The records about tasks, mappings and switches.

    Attributes:
        synth: the existing state to synthesize
        tail_synthesize: synthesize it at the end
        latency: whether report --latency must work
    """

    switch_events: bool = False
    namespaces: bool = False
    all_cgroups: bool = False
    bpf_events: bool = True
    buildid_mmap: bool = False
    synth: frozenset[str] = SYNTH_ALL
    tail_synthesize: bool = False
    latency: bool = False


class BufferOptions(NamedTuple):
    """The ring buffers, and the threads that read them.

    Attributes:
        mmap_pages, aux_pages: pages of a ring buffer and of its AUX area; 0 for perf's default
        mmap_flush: bytes that must be available before they are read
        affinity: where the reader runs
        threads: the text of --threads; "" for the recorder's own thread
    """

    mmap_pages: int = 0
    aux_pages: int = 0
    mmap_flush: int = 1
    no_buffering: bool = False
    affinity: str = ANYWHERE
    threads: str = ""
    overwrite: bool = False


class OutputOptions(NamedTuple):
    """The file or files.

    Attributes:
        path: the file; STANDARD_OUTPUT for a pipe
        kcore: copy the kernel's code into the folder
        compression_level: of zstd; 0 for none
        max_size: bytes; 0 for no limit
        self_contained: leave room for files that are added after the recording
    """

    path: str = "perf.data"
    kcore: bool = False
    compression_level: int = 0
    buildids: bool = True
    buildid_cache: bool = True
    buildid_all: bool = False
    buildid_dir: str = ""
    max_size: int = 0
    switch_output: SwitchOutput | None = None
    switch_output_event: str = ""
    switch_max_files: int = 0
    timestamp_filename: bool = False
    timestamp_boundary: bool = False
    self_contained: bool = False


class OffCpuOptions(NamedTuple):
    """Recording of time off the CPU.

    Attributes:
        threshold: ms; a longer wait has a sample of its own
        limit: stacks of switches per second and CPU; 0 for no limit
    """

    enabled: bool = False
    threshold: int = 500
    limit: int = DEFAULT_SWITCH_LIMIT


class RecordOptions(NamedTuple):
    """The options of a recording; the defaults are perf's.

    Attributes:
        jit: make runtimes publish the names of their code, and store the names
        python: read the frames of Python programs from their memory
        delay: ms until events are enabled; -1 for never; or ranges of ms
        control: the text of --control
        realtime: priority of the recorder
        max_cpu: CPUs that recording may use; 0 for no limit
        event_files: a folder with more named events, or ""
        command_line: the command line that the file stores
        notes: whether a person reads advice
        brief: print warnings only, without status lines and advice; a report follows
    """

    target: TargetOptions = TargetOptions()
    sampling: SamplingOptions = SamplingOptions()
    side_band: SideBandOptions = SideBandOptions()
    buffers: BufferOptions = BufferOptions()
    output: OutputOptions = OutputOptions()
    off_cpu: OffCpuOptions = OffCpuOptions()
    jit: bool = False
    python: bool = False
    delay: int | tuple[tuple[int, int], ...] = 0
    control: str = ""
    realtime: int = 0
    max_cpu: float = 0.0
    event_files: str = ""
    command_line: tuple[str, ...] = ()
    verbose: int = 0
    quiet: bool = False
    notes: bool = False
    brief: bool = False

    def check(self) -> None:
        """Raise UsageError for options that exclude each other."""
        if self.sampling.freq is not None and self.sampling.period is not None:
            raise UsageError("cannot set frequency and period at the same time; give either -F or -c")
        if self.sampling.freq == 0:
            raise UsageError("frequency and count are zero, aborting; -F needs at least 1 Hz")
        if self.sampling.all_user and self.sampling.all_kernel:
            raise UsageError("--all-user cannot be used with --all-kernel")
        if self.target.per_thread and (self.target.all_cpus or self.target.cpu):
            raise UsageError("--per-thread excludes -a and -C")
        if self.output.switch_output is not None and self.output.path == "-":
            raise UsageError("--switch-output excludes -o -")
        if self.target.cgroups and not self.target.all_cpus:
            raise UsageError("--cgroup requires -a")

        if self.output.self_contained and (self.output.path == STANDARD_OUTPUT or self.output.switch_output is not None):
            raise UsageError("--self-contained excludes -o - and --switch-output")
        if self.is_folder:
            self._check_folder()
        if self.sampling.unwind or self.sampling.keep_stacks:
            self._check_unwinding()
        if self.off_cpu.enabled and (self.buffers.overwrite or self.side_band.tail_synthesize):
            option = "--overwrite" if self.buffers.overwrite else "--tail-synthesize"
            raise UsageError(f"--off-cpu excludes {option}")
        if self.side_band.latency and (self.target.all_cpus or self.target.cpu):
            raise UsageError("--latency excludes -a and -C")

    def _check_unwinding(self) -> None:
        if self.sampling.keep_stacks and not self.sampling.unwind:
            raise UsageError("--keep-stacks requires --unwind")
        if self.sampling.callchain and self.sampling.callchain.mode != "dwarf":
            raise UsageError(f"--unwind requires --call-graph dwarf, not {self.sampling.callchain.mode}")
        if self.sampling.user_regs:
            raise UsageError("--unwind excludes --user-regs")
        if self.buffers.overwrite or self.side_band.tail_synthesize:
            option = "--overwrite" if self.buffers.overwrite else "--tail-synthesize"
            raise UsageError(f"--unwind excludes {option}")
        if self.sampling.keep_stacks and self.output.switch_output is not None:
            raise UsageError("--keep-stacks excludes --switch-output")

    def _check_folder(self) -> None:
        """Raise UsageError for options that a folder excludes: it is one recording, and files of CPUs are written in parallel."""
        option = "--threads" if self.buffers.threads else "--kcore"
        others = {
            "-o -": self.output.path == STANDARD_OUTPUT,
            "--switch-output": self.output.switch_output is not None,
            "--unwind": self.sampling.unwind,
            "--off-cpu": self.off_cpu.enabled,
            "--jit": self.jit,
            "--python": self.python,
        }
        if self.buffers.threads:
            from perfpy.capture.thread_masks import check  # rarely needed

            check(self.buffers.threads)
            others |= {
                "--affinity": self.buffers.affinity != ANYWHERE,
                "--per-thread": self.target.per_thread,
                "--timestamp-filename": self.output.timestamp_filename,
            }
        if name := next((name for name, is_given in others.items() if is_given), ""):
            raise UsageError(f"{option} excludes {name}")

    @property
    def is_folder(self) -> bool:
        """Whether the recording is a folder."""
        return bool(self.buffers.threads) or self.output.kcore

    @property
    def rewritten(self) -> bool:
        """Whether another process rewrites the records before they are in the file."""
        return self.sampling.unwind or self.off_cpu.enabled

    @property
    def starts_disabled(self) -> bool:
        """Whether the events wait for --delay or --control instead of starting with the program."""
        return self.delay != 0
