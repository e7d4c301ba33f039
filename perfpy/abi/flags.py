"""Constants of include/uapi/linux/perf_event.h, and of perf's own record types.

Names are the kernel's without their prefix: PERF_SAMPLE_IP is SampleType.IP. The classes hold plain numbers instead of enums: creating
enums would take a tenth of the time of `stat` and `list`, and combining members of an IntFlag takes a microsecond each time.
"""

from __future__ import annotations

import sys

from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

#: this machine's byte order, as in struct
NATIVE_ENDIAN = "<" if sys.byteorder == "little" else ">"


class PerfType:
    """perf_event_attr.type of the generic PMUs (PERF_TYPE_*); sysfs has the types of other PMUs."""

    HARDWARE: Final = 0
    SOFTWARE: Final = 1
    TRACEPOINT: Final = 2
    HW_CACHE: Final = 3
    RAW: Final = 4
    BREAKPOINT: Final = 5


class HardwareId:
    """config of PERF_TYPE_HARDWARE (PERF_COUNT_HW_*)."""

    CPU_CYCLES: Final = 0
    INSTRUCTIONS: Final = 1
    CACHE_REFERENCES: Final = 2
    CACHE_MISSES: Final = 3
    BRANCH_INSTRUCTIONS: Final = 4
    BRANCH_MISSES: Final = 5
    BUS_CYCLES: Final = 6
    STALLED_CYCLES_FRONTEND: Final = 7
    STALLED_CYCLES_BACKEND: Final = 8
    REF_CPU_CYCLES: Final = 9


class SoftwareId:
    """config of PERF_TYPE_SOFTWARE (PERF_COUNT_SW_*)."""

    CPU_CLOCK: Final = 0
    TASK_CLOCK: Final = 1
    PAGE_FAULTS: Final = 2
    CONTEXT_SWITCHES: Final = 3
    CPU_MIGRATIONS: Final = 4
    PAGE_FAULTS_MIN: Final = 5
    PAGE_FAULTS_MAJ: Final = 6
    ALIGNMENT_FAULTS: Final = 7
    EMULATION_FAULTS: Final = 8
    DUMMY: Final = 9
    BPF_OUTPUT: Final = 10
    CGROUP_SWITCHES: Final = 11


class CacheId:
    """Bits 0-7 of config of PERF_TYPE_HW_CACHE."""

    L1D: Final = 0
    L1I: Final = 1
    LL: Final = 2
    DTLB: Final = 3
    ITLB: Final = 4
    BPU: Final = 5
    NODE: Final = 6


class CacheOp:
    """Bits 8-15 of config of PERF_TYPE_HW_CACHE."""

    READ: Final = 0
    WRITE: Final = 1
    PREFETCH: Final = 2


class CacheResult:
    """Bits 16-23 of config of PERF_TYPE_HW_CACHE."""

    ACCESS: Final = 0
    MISS: Final = 1


class SampleType:
    """The fields of a sample (PERF_SAMPLE_*), in bit order, which differs from the layout's order.

    >>> import perfpy
    >>> perfpy.EventAttr(sample_type=perfpy.SampleType.IP | perfpy.SampleType.TID).sample_type
    3
    """

    IP: Final = 1 << 0
    TID: Final = 1 << 1
    TIME: Final = 1 << 2
    ADDR: Final = 1 << 3
    READ: Final = 1 << 4
    CALLCHAIN: Final = 1 << 5
    ID: Final = 1 << 6
    CPU: Final = 1 << 7
    PERIOD: Final = 1 << 8
    STREAM_ID: Final = 1 << 9
    RAW: Final = 1 << 10
    BRANCH_STACK: Final = 1 << 11
    REGS_USER: Final = 1 << 12
    STACK_USER: Final = 1 << 13
    WEIGHT: Final = 1 << 14
    DATA_SRC: Final = 1 << 15
    IDENTIFIER: Final = 1 << 16
    TRANSACTION: Final = 1 << 17
    REGS_INTR: Final = 1 << 18
    PHYS_ADDR: Final = 1 << 19
    AUX: Final = 1 << 20
    CGROUP: Final = 1 << 21
    DATA_PAGE_SIZE: Final = 1 << 22
    CODE_PAGE_SIZE: Final = 1 << 23
    WEIGHT_STRUCT: Final = 1 << 24


class ReadFormat:
    """The fields of a counter's read() (PERF_FORMAT_*).

    >>> import perfpy
    >>> perfpy.EventAttr(read_format=perfpy.ReadFormat.TOTAL_TIME_ENABLED | perfpy.ReadFormat.ID).read_format
    5
    """

    TOTAL_TIME_ENABLED: Final = 1 << 0
    TOTAL_TIME_RUNNING: Final = 1 << 1
    ID: Final = 1 << 2
    GROUP: Final = 1 << 3
    LOST: Final = 1 << 4


class BranchSample:
    """branch_sample_type (PERF_SAMPLE_BRANCH_*)."""

    USER: Final = 1 << 0
    KERNEL: Final = 1 << 1
    HV: Final = 1 << 2
    ANY: Final = 1 << 3
    ANY_CALL: Final = 1 << 4
    ANY_RETURN: Final = 1 << 5
    IND_CALL: Final = 1 << 6
    ABORT_TX: Final = 1 << 7
    IN_TX: Final = 1 << 8
    NO_TX: Final = 1 << 9
    COND: Final = 1 << 10
    CALL_STACK: Final = 1 << 11
    IND_JUMP: Final = 1 << 12
    CALL: Final = 1 << 13
    NO_FLAGS: Final = 1 << 14
    NO_CYCLES: Final = 1 << 15
    TYPE_SAVE: Final = 1 << 16
    HW_INDEX: Final = 1 << 17
    PRIV_SAVE: Final = 1 << 18
    COUNTERS: Final = 1 << 19


#: the types of branches (PERF_BR_*), as perf names them
BRANCH_TYPES: Final = (
    "", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ", "SERROR", "NO_TX",
)  # fmt: skip
#: the type of a branch whose type is one of the following (PERF_BR_EXTEND_ABI, PERF_BR_NEW_*)
NEW_BRANCH_TYPE: Final = 15
NEW_BRANCH_TYPES: Final = ("FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5")


class RecordType:
    """perf_event_header.type: the kernel's records below 64, perf's own from 64 on (tools/perf's event.h)."""

    MMAP: Final = 1
    LOST: Final = 2
    COMM: Final = 3
    EXIT: Final = 4
    THROTTLE: Final = 5
    UNTHROTTLE: Final = 6
    FORK: Final = 7
    READ: Final = 8
    SAMPLE: Final = 9
    MMAP2: Final = 10
    AUX: Final = 11
    ITRACE_START: Final = 12
    LOST_SAMPLES: Final = 13
    SWITCH: Final = 14
    SWITCH_CPU_WIDE: Final = 15
    NAMESPACES: Final = 16
    KSYMBOL: Final = 17
    BPF_EVENT: Final = 18
    CGROUP: Final = 19
    TEXT_POKE: Final = 20
    AUX_OUTPUT_HW_ID: Final = 21
    CALLCHAIN_DEFERRED: Final = 22
    HEADER_ATTR: Final = 64
    HEADER_EVENT_TYPE: Final = 65
    HEADER_TRACING_DATA: Final = 66
    HEADER_BUILD_ID: Final = 67
    FINISHED_ROUND: Final = 68
    ID_INDEX: Final = 69
    AUXTRACE_INFO: Final = 70
    AUXTRACE: Final = 71
    AUXTRACE_ERROR: Final = 72
    THREAD_MAP: Final = 73
    CPU_MAP: Final = 74
    STAT_CONFIG: Final = 75
    STAT: Final = 76
    STAT_ROUND: Final = 77
    EVENT_UPDATE: Final = 78
    TIME_CONV: Final = 79
    HEADER_FEATURE: Final = 80
    COMPRESSED: Final = 81
    FINISHED_INIT: Final = 82
    COMPRESSED2: Final = 83
    BPF_METADATA: Final = 84
    SCHEDSTAT_CPU: Final = 85
    SCHEDSTAT_DOMAIN: Final = 86


def names_of(constants: type) -> dict[int, str]:
    """Return number -> name of one of the classes above, in their order."""
    return {number: name for name, number in vars(constants).items() if not name.startswith("_")}


#: union perf_mem_data_src of a sample without one: each of its parts is "not available"
NO_DATA_SOURCE = 0x1E05080021

# perf_event_header.misc
MISC_CPUMODE_MASK = 0x7
MISC_KERNEL = 1
MISC_USER = 2
MISC_HYPERVISOR = 3
MISC_GUEST_KERNEL = 4
MISC_GUEST_USER = 5
MISC_RECORDED_USER = 6  # perfpy's own: after CONTEXT_RECORDED_USER
MISC_MMAP_DATA = 1 << 13
MISC_COMM_EXEC = 1 << 13
MISC_FORK_EXEC = 1 << 13
MISC_SWITCH_OUT = 1 << 13
MISC_SWITCH_OUT_PREEMPT = 1 << 14
MISC_MMAP_BUILD_ID = 1 << 14
MISC_LOST_SAMPLES_BPF = 1 << 15  # samples that a BPF program left out

# markers inside a callchain (PERF_CONTEXT_*), as unsigned 64-bit values
CONTEXT_HV = (1 << 64) - 32
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512
CONTEXT_USER_DEFERRED = (1 << 64) - 640
CONTEXT_GUEST = (1 << 64) - 2048
CONTEXT_GUEST_KERNEL = (1 << 64) - 2176
CONTEXT_GUEST_USER = (1 << 64) - 2560
CONTEXT_MAX = (1 << 64) - 4095
#: the markers that kernels write
CONTEXTS = (
    CONTEXT_HV,
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CONTEXT_USER_DEFERRED,
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
)
# perfpy's own marker: the unwinder writes it for a caller that must exist but is unknown
CONTEXT_LOST_CALLER = (1 << 64) - 4094
# another one: replaces CONTEXT_USER before frames that the kernel recorded, where only unwound frames get inlined calls
CONTEXT_RECORDED_USER = (1 << 64) - 4093

# perf_event_open(2) flags
FLAG_PID_CGROUP = 1 << 2
FLAG_FD_CLOEXEC = 1 << 3

# sizes of perf_event_attr by ABI version
#: the beginning of the PMU names of HiSilicon's counters into memory
PMCU_NAME: Final = "hisi_pmcu"

ATTR_SIZE_VER0 = 64
ATTR_SIZE_VER1 = 72
ATTR_SIZE_VER2 = 80
ATTR_SIZE_VER3 = 96
ATTR_SIZE_VER4 = 104
ATTR_SIZE_VER5 = 112
ATTR_SIZE_VER7 = 128
ATTR_SIZE_VER8 = 136
ATTR_SIZE_VER9 = 144

# bp_type of a breakpoint
BREAKPOINT_R = 1
BREAKPOINT_W = 2
BREAKPOINT_X = 4


class Machines(NamedTuple):
    """The machines whose samples are recorded or shown: the host, virtual machines, or both."""

    host: bool = True
    guests: bool = False

    @staticmethod
    def of_modifiers(text: str) -> Machines:
        """Return the machines of an event's modifiers H and G."""
        return Machines("H" in text, "G" in text)

    @property
    def modifiers(self) -> str:
        """The modifiers of events on these machines."""
        return "H" * self.host + "G" * self.guests

    @property
    def hidden_modes(self) -> tuple[int, ...]:
        """The modes of the CPU in which the other machines run."""
        return (() if self.host else (MISC_KERNEL, MISC_USER)) + (() if self.guests else (MISC_GUEST_KERNEL, MISC_GUEST_USER))


HOST_ONLY = Machines()
