"""perf's features by perf's names, and which of them perfpy has: `version --build-options`, `check feature`.

What enters: a feature's name, or the macro it has in perf's source. What leaves: a line for it in perf's layout. Programs ask
what perf was built with to know what they may use; so "on" says that what the feature is for works here, by whatever means.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class PerfFeature(NamedTuple):
    """One of perf's; there: whether we have what it gives."""

    name: str
    macro: str
    there: Callable[[], bool]

    @property
    def line(self) -> str:
        """As perf prints it."""
        return f"{self.name:>22}: [ {'on ' if self.there() else 'OFF'} ]  # {self.macro}"


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


def _zstd() -> bool:
    try:
        return any(importlib.util.find_spec(name) for name in ("compression.zstd", "backports.zstd"))
    except ModuleNotFoundError:
        return importlib.util.find_spec("backports") is not None and importlib.util.find_spec("backports.zstd") is not None


FEATURES: Final = (
    PerfFeature("aio", "HAVE_AIO_SUPPORT", _always),  # --aio is taken: how the file is written is our own affair
    PerfFeature("bpf", "HAVE_LIBBPF_SUPPORT", _never),
    PerfFeature("bpf_skeletons", "HAVE_BPF_SKEL", _never),
    PerfFeature("debuginfod", "HAVE_DEBUGINFOD_SUPPORT", _always),
    PerfFeature("dwarf", "HAVE_DWARF_SUPPORT", _always),
    PerfFeature("dwarf_getlocations", "HAVE_DWARF_GETLOCATIONS_SUPPORT", _never),
    PerfFeature("dwarf-unwind", "HAVE_DWARF_UNWIND_SUPPORT", _always),
    PerfFeature("auxtrace", "HAVE_AUXTRACE_SUPPORT", _never),
    PerfFeature("libaudit", "HAVE_LIBAUDIT_SUPPORT", _never),
    PerfFeature("libbfd", "HAVE_LIBBFD_SUPPORT", _never),
    PerfFeature("libcapstone", "HAVE_LIBCAPSTONE_SUPPORT", _module("capstone")),
    PerfFeature("libcrypto", "HAVE_LIBCRYPTO_SUPPORT", _never),
    PerfFeature("libdw-dwarf-unwind", "HAVE_DWARF_SUPPORT", _always),
    PerfFeature("libelf", "HAVE_LIBELF_SUPPORT", _always),
    PerfFeature("libnuma", "HAVE_LIBNUMA_SUPPORT", _never),
    PerfFeature("libopencsd", "HAVE_CSTRACE_SUPPORT", _never),
    PerfFeature("libperl", "HAVE_LIBPERL_SUPPORT", _never),
    PerfFeature("libpfm4", "HAVE_LIBPFM", _never),
    PerfFeature("libpython", "HAVE_LIBPYTHON_SUPPORT", _always),
    PerfFeature("libslang", "HAVE_SLANG_SUPPORT", _module("textual")),
    PerfFeature("libtraceevent", "HAVE_LIBTRACEEVENT", _always),
    PerfFeature("libunwind", "HAVE_LIBUNWIND_SUPPORT", _always),
    PerfFeature("lzma", "HAVE_LZMA_SUPPORT", _module("_lzma")),
    PerfFeature("numa_num_possible_cpus", "HAVE_LIBNUMA_SUPPORT", _never),
    PerfFeature("syscall_table", "HAVE_SYSCALL_TABLE_SUPPORT", _never),
    PerfFeature("zlib", "HAVE_ZLIB_SUPPORT", _module("zlib")),
    PerfFeature("zstd", "HAVE_ZSTD_SUPPORT", _zstd),
)


def find(name: str) -> PerfFeature | None:
    """The feature of this name or macro, in whatever case; of several the first."""
    wanted = name.lower()
    return next((feature for feature in FEATURES if wanted in (feature.name.lower(), feature.macro.lower())), None)
