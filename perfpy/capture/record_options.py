"""RecordOptions: everything that can be asked of a recording, as values.

What enters: the command line's options (already parsed) or the keyword
arguments of perfpy.record(). What leaves: one frozen value that the recorder
and its parts read. Names are those of perf-record(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from perfpy.capture.option_values import Callchain, SwitchOutput

DEFAULT_FREQ: Final = 4000
_COMPRESSION: Final = 1  # of what is unwound: callchains say the same again and again
MAX_FREQ: Final = -1  # --freq max
STANDARD_OUTPUT: Final = "-"
ANYWHERE: Final = "sys"  # --affinity
DEFAULT_SWITCH_LIMIT: Final = 20_000

SYNTH_TASK: Final = "task"
SYNTH_MMAP: Final = "mmap"
SYNTH_CGROUP: Final = "cgroup"
SYNTH_ALL: Final = frozenset((SYNTH_TASK, SYNTH_MMAP, SYNTH_CGROUP))


def compression_of_unwound() -> int:
    """The level that records of unwound stacks are compressed with unless it is said; 0 where zstd is not installed."""
    from perfpy.untrusted.expansion import ExpansionError, zstd_library  # few recordings need it

    try:
        zstd_library()
    except ExpansionError:
        return 0
    return _COMPRESSION


class RecordOptions(NamedTuple):
    """What to record and how; the defaults are perf's.

    Whose: pid, tid, user, cpu (texts as -p -t -u -C take them), all_cpus,
    per_thread, cgroups (names), inherit, exclude_perf. event_files: a folder
    with more named events, or "".

    How often: freq (Hz, MAX_FREQ = as often as the kernel allows) or period
    (events); None = 4000 Hz. strict_freq: refuse what the kernel lowers.
    no_samples: side-band only.

    What a sample carries: callchain, unwind (DWARF stacks become callchains
    while the recording runs), keep_stacks (they are kept, too), data (addresses), data_mmap,
    sample_mem_info, transaction, phys_data, data_page_size, code_page_size, raw, cpu_field, period_field and time
    (None = perf's rule), weight, identifier, inherit_stat (READ records),
    running_time, user_regs, intr_regs, branch_filter (masks), clockid,
    kernel_callchains / user_callchains (only those), all_user, all_kernel.

    Side-band: switch_events, namespaces, all_cgroups, bpf_events,
    buildid_mmap, synth (what of /proc is written first), tail_synthesize.

    Buffers: mmap_pages and aux_pages (0 = perf's), mmap_flush (bytes), no_buffering, affinity (where rings are read), threads (which of
    them read which rings: the text of --threads, "" for the recorder itself),
    overwrite, delay (ms, -1 = start disabled, or ranges of ms), control
    (text of --control), realtime (priority), max_cpu (CPUs that recording may take, 0: any number).

    File: output ("-" = standard output), kcore (the kernel's code beside it), compression_level (0 = none),
    buildids / buildid_cache / buildid_all, buildid_dir, max_size (bytes),
    switch_output, switch_output_event (their texts), switch_max_files, timestamp_filename, timestamp_boundary.

    jit: make runtimes tell the names of their code, and keep these in the file. python: read the frames of Python programs
    from their memory. self_contained: leave room
    for files that are put in when the recording is complete.

    off_cpu: record the time off the CPU, too; off_cpu_thresh: waits of so many ms are samples of their own;
    off_cpu_limit: so many stacks of switches a second at most (0: no limit). latency: what report --latency needs.

    command_line: what stands in the file as the command line. verbose, quiet; notes: somebody reads advice.
    """

    pid: str = ""
    tid: str = ""
    user: str = ""
    cpu: str = ""
    all_cpus: bool = False
    per_thread: bool = False
    cgroups: tuple[str, ...] = ()
    inherit: bool = True
    exclude_perf: bool = False
    event_files: str = ""

    freq: int | None = None
    period: int | None = None
    strict_freq: bool = False
    no_samples: bool = False

    callchain: Callchain | None = None
    unwind: bool = False
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

    switch_events: bool = False
    namespaces: bool = False
    all_cgroups: bool = False
    bpf_events: bool = True
    buildid_mmap: bool = False
    synth: frozenset[str] = SYNTH_ALL
    tail_synthesize: bool = False

    mmap_pages: int = 0
    aux_pages: int = 0
    mmap_flush: int = 1
    no_buffering: bool = False
    affinity: str = ANYWHERE
    threads: str = ""
    overwrite: bool = False
    delay: int | tuple[tuple[int, int], ...] = 0
    control: str = ""
    realtime: int = 0
    max_cpu: float = 0.0

    output: str = "perf.data"
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

    jit: bool = False
    python: bool = False
    self_contained: bool = False

    off_cpu: bool = False
    off_cpu_thresh: int = 500
    off_cpu_limit: int = DEFAULT_SWITCH_LIMIT
    latency: bool = False

    command_line: tuple[str, ...] = ()
    verbose: int = 0
    quiet: bool = False
    notes: bool = False

    def check(self) -> None:
        """Refuse what cannot be together: raises UsageError."""
        if self.freq is not None and self.period is not None:
            raise UsageError("cannot set frequency and period at the same time; give either -F or -c")
        if self.freq == 0:
            raise UsageError("frequency and count are zero, aborting; -F needs at least 1 Hz")
        if self.all_user and self.all_kernel:
            raise UsageError("--all-user cannot be used with --all-kernel")
        if self.per_thread and (self.all_cpus or self.cpu):
            raise UsageError("--per-thread cannot be used with -a or -C: it follows threads, not CPUs")
        if self.switch_output is not None and self.output == "-":
            raise UsageError("--switch-output needs a file, and -o - is a pipe")
        if self.cgroups and not self.all_cpus:
            raise UsageError("--cgroup is measured on whole CPUs: add -a")

        if self.self_contained and (self.output == STANDARD_OUTPUT or self.switch_output is not None):
            raise UsageError("--self-contained completes one file in the end; leave out -o - and --switch-output")
        if self.is_folder:
            self._check_folder()
        if self.unwind or self.keep_stacks:
            self._check_unwinding()
        if self.off_cpu and (self.overwrite or self.tail_synthesize):
            option = "--overwrite" if self.overwrite else "--tail-synthesize"
            raise UsageError(f"--off-cpu writes samples when their waits end; leave out {option}")
        if self.latency and (self.all_cpus or self.cpu):
            raise UsageError("--latency is about the threads of a program, not about whole CPUs: leave out -a and -C")

    def _check_unwinding(self) -> None:
        if self.keep_stacks and not self.unwind:
            raise UsageError("--keep-stacks is for --unwind; without it stacks are kept anyway")
        if self.callchain and self.callchain.mode != "dwarf":
            raise UsageError(f"--unwind is for --call-graph dwarf; with {self.callchain.mode} the kernel walks the stacks")
        if self.user_regs:
            raise UsageError("--unwind uses all registers up; leave out --user-regs")
        if self.overwrite or self.tail_synthesize:
            option = "--overwrite" if self.overwrite else "--tail-synthesize"
            raise UsageError(f"--unwind has to know first what runs already; leave out {option}, or --unwind")
        if self.keep_stacks and self.switch_output is not None:
            raise UsageError("--keep-stacks writes one file, --switch-output many; leave out one of them")

    def _check_folder(self) -> None:
        """A folder is one recording, begun once; and files of CPUs are written all at once."""
        option = "--threads" if self.threads else "--kcore"
        others = {
            "-o -": self.output == STANDARD_OUTPUT,
            "--switch-output": self.switch_output is not None,
            "--unwind": self.unwind,
            "--off-cpu": self.off_cpu,
            "--jit": self.jit,
            "--python": self.python,
        }
        if self.threads:
            from perfpy.capture.thread_masks import check  # rarely asked for

            check(self.threads)
            others |= {
                "--affinity": self.affinity != ANYWHERE,
                "--per-thread": self.per_thread,
                "--timestamp-filename": self.timestamp_filename,
            }
        if other := next((other for other, asked in others.items() if asked), ""):
            raise UsageError(f"{option} writes a folder; leave out {other}, or {option}")

    @property
    def is_folder(self) -> bool:
        """Whether the recording is a folder."""
        return bool(self.threads) or self.kcore

    @property
    def rewritten(self) -> bool:
        """Whether another process rewrites the records before they are in the file."""
        return self.unwind or self.off_cpu

    @property
    def starts_disabled(self) -> bool:
        """Whether the events wait for --delay or --control instead of starting with the program."""
        return self.delay != 0
