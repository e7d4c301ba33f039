"""RecordOptions: all options of a recording as values, for the command line and perfpy.record(). Names are perf-record(1)'s."""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Final

from perfpy.abi.flags import BranchSample
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.sample_layout import sampled_registers
from perfpy.capture.targets import TargetOptions
from perfpy.errors import PerfError, RefusedOptionsError, UsageError
from perfpy.kernel.ring import PAGE_SIZE

DEFAULT_FREQ: Final = 4000
_COMPRESSION: Final = 1  # for unwound recordings: callchains repeat a lot
MAX_FREQ: Final = -1  # --freq max
STANDARD_OUTPUT: Final = "-"
DEFAULT_FILE: Final = "perf.data"
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
        each_occurrence: sample each occurrence of the events that the kernel counts, whatever `freq` and `period` are
        strict_freq: whether to refuse a frequency that the kernel would lower
        no_samples: record side-band only
        unwind: turn copied stacks into callchains during the recording
        unwind_late: give the unwinding process the lowest priority, so that it uses CPUs that nothing else needs (with `unwind`)
        unwind_around: unwind the stacks only of these processes, of what they or the recorder start, and of those that wake them
        keep_stacks: keep the copied stacks, too (with `unwind`)
        data: sample data addresses
        period_field, time: None for perf's rule
        inherit_stat: write READ records
        user_regs, intr_regs, branch_filter: masks
        kernel_callchains, user_callchains: only these
    """

    freq: int | None = None
    period: int | None = None
    each_occurrence: bool = False
    strict_freq: bool = False
    no_samples: bool = False
    callchain: Callchain | None = None
    unwind: bool = False
    unwind_late: bool = False
    unwind_around: tuple[int, ...] | None = None
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
        switch_events: None if the options do not say
        text_pokes: whether an event of its own records changes of the kernel's code, and its symbols
        latency: whether report --latency must work
    """

    switch_events: bool | None = None
    namespaces: bool = False
    all_cgroups: bool = False
    bpf_events: bool = True
    buildid_mmap: bool = False
    synth: frozenset[str] = SYNTH_ALL
    tail_synthesize: bool = False
    text_pokes: bool = False
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


class TraceOptions(NamedTuple):
    """What is recorded of the AUX data of a hardware tracer; all of them by default.

    Attributes:
        snapshot: the text of --snapshot, None without it
        aux_sample: the text of --aux-sample, None without it
    """

    snapshot: str | None = None
    aux_sample: str | None = None


#: the default event of virtual machines, as perf 7.3's: guests have no precise samples
GUEST_EVENT: Final = "cycles"


class GuestOptions(NamedTuple):
    """The options of `perfpy kvm record` about virtual machines.

    Attributes:
        host, guest: whether to sample the host, and virtual machines
        guestmount: a folder with a folder for each guest, which has the pid of its hypervisor and the guest's /proc
        guestkallsyms, guestmodules: files with the /proc/kallsyms and /proc/modules of the only guest
    """

    host: bool = True
    guest: bool = False
    guestmount: str = ""
    guestkallsyms: str = ""
    guestmodules: str = ""


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
    trace: TraceOptions = TraceOptions()
    guests: GuestOptions = GuestOptions()
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
            raise RefusedOptionsError("cannot set frequency and period at the same time; give either -F or -c")
        if self.sampling.freq == 0:
            raise RefusedOptionsError("frequency and count are zero, aborting; -F needs at least 1 Hz")
        if self.sampling.all_user and self.sampling.all_kernel:
            raise UsageError("--all-user cannot be used with --all-kernel")
        if self.output.switch_output is not None and self.output.path == "-":
            raise UsageError("--switch-output excludes -o -")
        if self.target.cgroups and not self.target.all_cpus:
            raise UsageError("--cgroup requires -a")

        if self.output.self_contained and (self.output.path == STANDARD_OUTPUT or self.output.switch_output is not None):
            raise UsageError("--self-contained excludes -o - and --switch-output")
        self._check_clock()
        if self.is_folder:
            self._check_folder()
        if self.sampling.unwind or self.sampling.keep_stacks:
            self._check_unwinding()
        if self.off_cpu.enabled and (self.buffers.overwrite or self.side_band.tail_synthesize):
            option = "--overwrite" if self.buffers.overwrite else "--tail-synthesize"
            raise UsageError(f"--off-cpu excludes {option}")
        if self.side_band.latency and (self.target.all_cpus or self.target.cpu):
            raise UsageError("--latency excludes -a and -C")

    def _check_clock(self) -> None:
        if self.sampling.clockid is None:
            return
        try:
            time.clock_getres(self.sampling.clockid)
        except OSError:
            raise PerfError(f"-k {self.sampling.clockid}: this machine has no clock with this number; see clock_gettime(2)") from None

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
            error = {"-o -": PerfError, "--per-thread": RefusedOptionsError}.get(name, UsageError)  # with perf's exit statuses
            raise error(f"{option} excludes {name}")

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


# Parse texts of record's options: sizes, times, callchains, clocks, registers, branch filters. The forms are perf-record(1)'s. Raises
# UsageError that names the option.

DEFAULT_STACK_SIZE: Final = 8192
LONGEST_DELAY: Final = (1 << 31) - 1  # the limit of poll(2)
MOST_PAGES: Final = 1 << 31  # the limit of the kernel's page numbers
AFFINITIES: Final = ("sys", "node", "cpu")  # of --affinity
MOST_FRAMES: Final = 127  # the kernel's default of kernel.perf_event_max_stack
MAX_STACK_SIZE: Final = 65528  # the size of a record is a u16, and a multiple of 8

_SIZE_UNITS: Final = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TIME_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_CLOCKS: Final = {
    "monotonic": time.CLOCK_MONOTONIC,
    "monotonic_raw": time.CLOCK_MONOTONIC_RAW,
    "realtime": time.CLOCK_REALTIME,
    "boottime": time.CLOCK_BOOTTIME,
    "tai": time.CLOCK_TAI,
    "mono": time.CLOCK_MONOTONIC,
    "raw": time.CLOCK_MONOTONIC_RAW,
    "real": time.CLOCK_REALTIME,
    "boot": time.CLOCK_BOOTTIME,
}

_BRANCH_FILTERS: Final = {
    "u": BranchSample.USER,
    "k": BranchSample.KERNEL,
    "hv": BranchSample.HV,
    "any": BranchSample.ANY,
    "any_call": BranchSample.ANY_CALL,
    "any_ret": BranchSample.ANY_RETURN,
    "ind_call": BranchSample.IND_CALL,
    "abort_tx": BranchSample.ABORT_TX,
    "in_tx": BranchSample.IN_TX,
    "no_tx": BranchSample.NO_TX,
    "cond": BranchSample.COND,
    "ind_jmp": BranchSample.IND_JUMP,
    "call": BranchSample.CALL,
    "no_flags": BranchSample.NO_FLAGS,
    "no_cycles": BranchSample.NO_CYCLES,
    "save_type": BranchSample.TYPE_SAVE,
    "stack": BranchSample.CALL_STACK,
    "hw_index": BranchSample.HW_INDEX,
    "priv": BranchSample.PRIV_SAVE,
    "counter": BranchSample.COUNTERS,
}
_PRIVILEGES: Final = BranchSample.USER | BranchSample.KERNEL | BranchSample.HV


class Callchain(NamedTuple):
    """The options for recording callchains.

    Attributes:
        mode: "fp" (the kernel walks frame pointers), "dwarf" (a copy of the user stack) or "lbr" (the CPU's branch records hold the
            calls of user code).
        stack_size: bytes of the copy.
        max_stack: the most frames; 0 for the kernel's limit.
        defer: walk user frames once, on return to user space, if the kernel supports it (6.18 does not).
        addresses: with DWARF stacks, sample data addresses, too.
    """

    mode: str
    stack_size: int = DEFAULT_STACK_SIZE
    max_stack: int = 0
    defer: bool = False
    addresses: bool = True


def parse_callchain(text: str) -> Callchain:
    """Parse `fp[,FRAMES][,defer]`, `dwarf[,BYTES]` or `lbr`.

    >>> parse_callchain("dwarf,4096")
    Callchain(mode='dwarf', stack_size=4096, max_stack=0, defer=False, addresses=True)
    """
    mode, *parameters = text.split(",")
    if mode not in ("fp", "dwarf", "lbr"):
        raise UsageError(f"--call-graph {text}: unknown mode '{mode}'; expected fp, dwarf or lbr")
    if mode == "lbr" and parameters:
        raise UsageError(f"--call-graph {text}: lbr takes no parameters")
    defer = mode == "fp" and "defer" in parameters
    number = ",".join(word for word in parameters if not (defer and word == "defer"))
    if not number:
        return Callchain(mode, defer=defer)
    if not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", number):
        raise UsageError(f"--call-graph {text}: '{number}' is not a number")
    value = int(number, 0) if number[:2].lower() == "0x" else int(number)
    if mode == "dwarf":
        return Callchain(mode, stack_size=stack_size(value, text))
    return Callchain(mode, max_stack=value if value < MOST_FRAMES else 0, defer=defer)


def stack_size(value: int, text: str = "") -> int:
    """Return a stack copy's size, rounded up to the kernel's unit. Raises UsageError if no record can hold it."""
    size = (value + 7) & ~7
    if not 0 < size <= MAX_STACK_SIZE:
        raise UsageError(f"--call-graph {text or value}: a stack copy has 1 to {MAX_STACK_SIZE} bytes")
    return size


def clocks() -> list[str]:
    """Return the names of clocks."""
    return list(_CLOCKS)


def branch_filters() -> list[str]:
    """Return the words of -j."""
    return list(_BRANCH_FILTERS)


def default_output() -> str:
    """Return the output if none is given: standard output if it is a pipe, else perf.data."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return DEFAULT_FILE
    return STANDARD_OUTPUT if is_pipe else DEFAULT_FILE


def parse_clock(text: str) -> int:
    """Parse a clock of clock_gettime(2): its number, or its name with or without CLOCK_."""
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    name = text.lower().removeprefix("clock_")
    if name not in _CLOCKS:
        raise UsageError(f"--clockid {text}: unknown clock; expected one of {', '.join(_CLOCKS)}")
    return _CLOCKS[name]


def parse_registers(text: str, option: str) -> int:
    """Parse a list of register names as a mask; "" means all."""
    registers = sampled_registers(os.uname().machine)
    mask = 0
    for name in text.split(",") if text else registers:
        bit = next((bit for known_name, bit in registers.items() if known_name.lower() == name.lower()), None)
        if bit is None:
            raise UsageError(f"{option}={text}: unknown register '{name}'; expected some of {' '.join(registers)}")
        mask |= 1 << bit
    return mask


def parse_branch_filter(text: str) -> int:
    """Parse a list of branch filters as a mask; without a type of branch, any."""
    mask = 0
    for name in text.split(","):
        if name not in _BRANCH_FILTERS:
            raise UsageError(f"--branch-filter {text}: unknown filter '{name}'; expected some of {', '.join(_BRANCH_FILTERS)}")
        mask |= _BRANCH_FILTERS[name]
    return mask if mask & ~_PRIVILEGES else mask | BranchSample.ANY


def parse_size(text: str, option: str) -> int:
    """Parse a size with a unit, B, K, M or G, for example `64M`."""
    match = re.fullmatch(r"(\d+)([BKMG])", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"{option} {text}: not a size; expected a number with B, K, M or G")
    return int(match[1]) * _SIZE_UNITS[match[2].upper()]


def parse_pages(text: str) -> int:
    """Parse a ring buffer's size, in pages or with a unit; return pages, rounded up to a power of two."""
    pages = max(int(text) if text.isdecimal() else -(-parse_size(text, "--mmap-pages") // PAGE_SIZE), 1)
    if pages > MOST_PAGES:
        raise UsageError(f"--mmap-pages {text}: a ring buffer has at most {MOST_PAGES} pages")
    return 1 << (pages - 1).bit_length()


def size_text(size: int) -> str:
    """Format bytes in the largest unit that divides them: 64K."""
    return next(f"{size // factor}{unit}" for unit, factor in reversed(_SIZE_UNITS.items()) if size % factor == 0)


def parse_flush(text: str) -> int:
    """Parse --mmap-flush: bytes, with or without a unit."""
    return int(text) if text.isdecimal() else parse_size(text, "--mmap-flush")


def parse_delay(text: str) -> int | tuple[tuple[int, int], ...]:
    """Parse -D: milliseconds (-1: start disabled), or ranges such as `10-20,30-40`."""
    if re.fullmatch(r"-?\d+", text):
        value = int(text)
        if not -1 <= value <= LONGEST_DELAY:
            raise UsageError(f"--delay {text}: expected 0 to {LONGEST_DELAY} milliseconds, or -1 to start with the events disabled")
        return value
    ranges = []
    end = -1
    for item in text.split(","):
        match = re.fullmatch(r"(\d+)-(\d+)", item)
        if not match or int(match[1]) >= int(match[2]) or int(match[1]) <= end:
            raise UsageError(
                f"--delay {text}: '{item}' is not a range of milliseconds after the previous one; expected for example 10-20,30-40"
            )
        end = int(match[2])
        ranges.append((int(match[1]), end))
    return tuple(ranges)


class SwitchOutput(NamedTuple):
    """When to start a new output file: at a signal only, or also after `size` bytes or `seconds`."""

    size: int = 0
    seconds: int = 0


def parse_switch_output(text: str) -> SwitchOutput:
    """Parse `signal`, a size such as `100M`, or a time such as `30s`."""
    if text == "signal":
        return SwitchOutput()
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match:  # a lower-case m means minutes, as in perf
        return SwitchOutput(seconds=int(match[1]) * _TIME_UNITS[match[2]])
    try:
        return SwitchOutput(size=parse_size(text, "--switch-output"))
    except UsageError as error:
        raise RefusedOptionsError(*error.args) from None


# The defaults of `record --python`: clock, callchains and sampling frequency. Python frames require callchains that are unwound during
# the recording, and sample times that other processes can compare with their own.

_STACK_SIZE: Final = 16384
_FREQUENCY: Final = 199  # Hz: after five seconds, a share of 10 % is accurate to 2 points
_MACHINE: Final = "x86_64"


def complete_python_options(options: RecordOptions) -> RecordOptions:
    """Return the options with the defaults of Python frames. Raises UsageError for options that exclude Python frames."""
    machine = os.uname().machine
    if machine != _MACHINE:
        raise UsageError(f"--python reads frames on {_MACHINE} only, and this is {machine}; try --jit")
    if options.sampling.callchain is not None and options.sampling.callchain.mode != "dwarf":
        raise UsageError(f"--python needs copies of stacks; leave out --call-graph {options.sampling.callchain.mode}")
    if options.sampling.callchain is None:
        options = options._replace(sampling=options.sampling._replace(callchain=Callchain("dwarf", _STACK_SIZE)))
    if options.sampling.freq is None and options.sampling.period is None:
        options = options._replace(sampling=options.sampling._replace(freq=_FREQUENCY))
    clock = time.CLOCK_MONOTONIC if options.sampling.clockid is None else options.sampling.clockid
    chosen_options = options._replace(sampling=options.sampling._replace(unwind=True, time=True, clockid=clock))
    chosen_options.check()
    return chosen_options
