"""Constants of include/uapi/linux/perf_event.h, and of perf's own record types, as enums.

Names are the kernel's without their prefix: PERF_SAMPLE_IP is SampleType.IP.
Nothing enters, nothing is computed; every other module of abi builds on it.
"""

from __future__ import annotations

import sys
from enum import IntEnum, IntFlag

#: the byte order of this machine, as struct writes it
NATIVE_ENDIAN = "<" if sys.byteorder == "little" else ">"


class PerfType(IntEnum):
    """perf_event_attr.type of the generic PMUs (PERF_TYPE_*); other PMUs have theirs in sysfs."""

    HARDWARE = 0
    SOFTWARE = 1
    TRACEPOINT = 2
    HW_CACHE = 3
    RAW = 4
    BREAKPOINT = 5


class HardwareId(IntEnum):
    """config of PERF_TYPE_HARDWARE (PERF_COUNT_HW_*)."""

    CPU_CYCLES = 0
    INSTRUCTIONS = 1
    CACHE_REFERENCES = 2
    CACHE_MISSES = 3
    BRANCH_INSTRUCTIONS = 4
    BRANCH_MISSES = 5
    BUS_CYCLES = 6
    STALLED_CYCLES_FRONTEND = 7
    STALLED_CYCLES_BACKEND = 8
    REF_CPU_CYCLES = 9


class SoftwareId(IntEnum):
    """config of PERF_TYPE_SOFTWARE (PERF_COUNT_SW_*)."""

    CPU_CLOCK = 0
    TASK_CLOCK = 1
    PAGE_FAULTS = 2
    CONTEXT_SWITCHES = 3
    CPU_MIGRATIONS = 4
    PAGE_FAULTS_MIN = 5
    PAGE_FAULTS_MAJ = 6
    ALIGNMENT_FAULTS = 7
    EMULATION_FAULTS = 8
    DUMMY = 9
    BPF_OUTPUT = 10
    CGROUP_SWITCHES = 11


class CacheId(IntEnum):
    """Bits 0-7 of config of PERF_TYPE_HW_CACHE."""

    L1D = 0
    L1I = 1
    LL = 2
    DTLB = 3
    ITLB = 4
    BPU = 5
    NODE = 6


class CacheOp(IntEnum):
    """Bits 8-15 of config of PERF_TYPE_HW_CACHE."""

    READ = 0
    WRITE = 1
    PREFETCH = 2


class CacheResult(IntEnum):
    """Bits 16-23 of config of PERF_TYPE_HW_CACHE."""

    ACCESS = 0
    MISS = 1


class SampleType(IntFlag):
    """What a sample carries (PERF_SAMPLE_*), in bit order, which is not the layout's order."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    RAW = 1 << 10
    BRANCH_STACK = 1 << 11
    REGS_USER = 1 << 12
    STACK_USER = 1 << 13
    WEIGHT = 1 << 14
    DATA_SRC = 1 << 15
    IDENTIFIER = 1 << 16
    TRANSACTION = 1 << 17
    REGS_INTR = 1 << 18
    PHYS_ADDR = 1 << 19
    AUX = 1 << 20
    CGROUP = 1 << 21
    DATA_PAGE_SIZE = 1 << 22
    CODE_PAGE_SIZE = 1 << 23
    WEIGHT_STRUCT = 1 << 24


class ReadFormat(IntFlag):
    """What read() returns for a counter (PERF_FORMAT_*)."""

    TOTAL_TIME_ENABLED = 1 << 0
    TOTAL_TIME_RUNNING = 1 << 1
    ID = 1 << 2
    GROUP = 1 << 3
    LOST = 1 << 4


class BranchSample(IntFlag):
    """branch_sample_type (PERF_SAMPLE_BRANCH_*)."""

    USER = 1 << 0
    KERNEL = 1 << 1
    HV = 1 << 2
    ANY = 1 << 3
    ANY_CALL = 1 << 4
    ANY_RETURN = 1 << 5
    IND_CALL = 1 << 6
    ABORT_TX = 1 << 7
    IN_TX = 1 << 8
    NO_TX = 1 << 9
    COND = 1 << 10
    CALL_STACK = 1 << 11
    IND_JUMP = 1 << 12
    CALL = 1 << 13
    NO_FLAGS = 1 << 14
    NO_CYCLES = 1 << 15
    TYPE_SAVE = 1 << 16
    HW_INDEX = 1 << 17
    PRIV_SAVE = 1 << 18
    COUNTERS = 1 << 19


class RecordType(IntEnum):
    """perf_event_header.type: the kernel's records below 64, perf's own from 64 on (tools/perf's event.h)."""

    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    THROTTLE = 5
    UNTHROTTLE = 6
    FORK = 7
    READ = 8
    SAMPLE = 9
    MMAP2 = 10
    AUX = 11
    ITRACE_START = 12
    LOST_SAMPLES = 13
    SWITCH = 14
    SWITCH_CPU_WIDE = 15
    NAMESPACES = 16
    KSYMBOL = 17
    BPF_EVENT = 18
    CGROUP = 19
    TEXT_POKE = 20
    AUX_OUTPUT_HW_ID = 21
    CALLCHAIN_DEFERRED = 22
    HEADER_ATTR = 64
    HEADER_EVENT_TYPE = 65
    HEADER_TRACING_DATA = 66
    HEADER_BUILD_ID = 67
    FINISHED_ROUND = 68
    ID_INDEX = 69
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    AUXTRACE_ERROR = 72
    THREAD_MAP = 73
    CPU_MAP = 74
    STAT_CONFIG = 75
    STAT = 76
    STAT_ROUND = 77
    EVENT_UPDATE = 78
    TIME_CONV = 79
    HEADER_FEATURE = 80
    COMPRESSED = 81
    FINISHED_INIT = 82
    COMPRESSED2 = 83


# perf_event_header.misc
MISC_CPUMODE_MASK = 0x7
MISC_CPUMODE_UNKNOWN = 0
MISC_KERNEL = 1
MISC_USER = 2
MISC_HYPERVISOR = 3
MISC_GUEST_KERNEL = 4
MISC_GUEST_USER = 5
MISC_PROC_MAP_PARSE_TIMEOUT = 1 << 12
MISC_MMAP_DATA = 1 << 13
MISC_COMM_EXEC = 1 << 13
MISC_FORK_EXEC = 1 << 13
MISC_SWITCH_OUT = 1 << 13
MISC_EXACT_IP = 1 << 14
MISC_SWITCH_OUT_PREEMPT = 1 << 14
MISC_MMAP_BUILD_ID = 1 << 14

# markers inside a callchain (PERF_CONTEXT_*), as unsigned 64-bit values
CONTEXT_HV = (1 << 64) - 32
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512
CONTEXT_USER_DEFERRED = (1 << 64) - 640
CONTEXT_GUEST = (1 << 64) - 2048
CONTEXT_GUEST_KERNEL = (1 << 64) - 2176
CONTEXT_GUEST_USER = (1 << 64) - 2560
CONTEXT_MAX = (1 << 64) - 4095

# perf_event_open(2) flags
FLAG_FD_NO_GROUP = 1 << 0
FLAG_FD_OUTPUT = 1 << 1
FLAG_PID_CGROUP = 1 << 2
FLAG_FD_CLOEXEC = 1 << 3

# sizes of perf_event_attr by ABI version
ATTR_SIZE_VER0 = 64
ATTR_SIZE_VER1 = 72
ATTR_SIZE_VER2 = 80
ATTR_SIZE_VER3 = 96
ATTR_SIZE_VER4 = 104
ATTR_SIZE_VER5 = 112
ATTR_SIZE_VER6 = 120
ATTR_SIZE_VER7 = 128
ATTR_SIZE_VER8 = 136
ATTR_SIZE_VER9 = 144

# bp_type of a breakpoint
BREAKPOINT_R = 1
BREAKPOINT_W = 2
BREAKPOINT_RW = 3
BREAKPOINT_X = 4
