"""`perfpy version` and `check feature`: the version, and the available features."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, PerfCommand, fail, option, words
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Callable


class PerfFeature(NamedTuple):
    """A feature of perf.

    Attributes:
        name: perf's name.
        macro: the macro in perf's source.
        is_available: whether perfpy supports it.
    """

    name: str
    macro: str
    is_available: Callable[[], bool]

    @property
    def line(self) -> str:
        """The feature's line in perf's format."""
        return f"{self.name:>22}: [ {'on ' if self.is_available() else 'OFF'} ]  # {self.macro}"


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
    PerfFeature("aio", "HAVE_AIO_SUPPORT", _always),  # --aio is accepted; how perfpy writes its file is its own choice
    PerfFeature("bpf", "HAVE_LIBBPF_SUPPORT", _never),
    PerfFeature("bpf_skeletons", "HAVE_BPF_SKEL", _never),
    PerfFeature("debuginfod", "HAVE_DEBUGINFOD_SUPPORT", _always),
    PerfFeature("dwarf", "HAVE_DWARF_SUPPORT", _always),
    PerfFeature("dwarf_getlocations", "HAVE_DWARF_GETLOCATIONS_SUPPORT", _never),
    PerfFeature("dwarf-unwind", "HAVE_DWARF_UNWIND_SUPPORT", _always),
    PerfFeature("auxtrace", "HAVE_AUXTRACE_SUPPORT", _always),
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


def find_feature(name: str) -> PerfFeature | None:
    """Return the first feature with this name or macro, ignoring case."""
    lower = name.lower()
    return next((feature for feature in FEATURES if lower in (feature.name.lower(), feature.macro.lower())), None)


_MISSING: Final = 1


class CheckCommandOptions(CommandOptions):
    """Options of `perfpy check`."""

    quiet: bool = option("-q,--quiet", Flag(), "print nothing, only set the exit status")
    arguments_given: tuple[str, ...] = words("feature NAME[,NAME...]")


def check_features(options: CheckCommandOptions) -> int:
    """Check whether features of perf are available: exit status 0 if all are, else 1."""
    check, *names = options.arguments_given or ("",)
    if check != "feature":
        fail(f"unknown check {check!r}; usage: perfpy check feature NAME" if check else "no check given; usage: perfpy check feature NAME")
    if not names:
        fail("check feature requires a name; perfpy version --build-options lists them")
    if len(names) > 1:
        raise PerfError("check feature takes one comma-separated list: NAME,NAME")
    return 0 if all(_is_available(name, quiet=options.quiet) for name in names[0].split(",")) else _MISSING


def _is_available(name: str, *, quiet: bool) -> bool:
    feature = find_feature(name)
    if feature is None:
        if not quiet:
            print(f"Unknown feature '{name}', please use 'perf version --build-options' to see which ones are available.", file=sys.stderr)
        return False
    if not quiet:
        print(feature.line)
    return feature.is_available()


check_command = PerfCommand(CheckCommandOptions, check_features)


class VersionCommandOptions(CommandOptions):
    """Options of `perfpy version`."""

    build_options: bool = option("--build-options", Flag(), "show available features and libraries")
    verbose: int = option("-v,--verbose", Counted(), "the same as --build-options")


def show_version(options: VersionCommandOptions) -> None:
    """Show the version of perfpy."""
    from perfpy.cli.line.examples import in_place_of_perf, version_line

    print(version_line())
    if options.build_options or options.verbose:
        for line in [*(feature.line for feature in FEATURES), *([] if in_place_of_perf() else _parts())]:
            print(line)


_LIBRARIES = {
    "click": "the command line",
    "rich": "views on a terminal",
    "numpy": "report and script: samples as columns",
    "pyelftools": "report and script: symbols of programs",
    "pycxxfilt": "report and script: C++ and Rust names",
    "backports.zstd": "compressed recordings",
}


def _parts() -> list[str]:
    """Return a line for each library, in perf's layout: name, on or OFF, purpose."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    lines = [f"{'python':>22}: [ on  ]  # {platform.python_version()}, {platform.machine()}"]
    for name, purpose in _LIBRARIES.items():
        try:
            state, detail = "on ", version(name)
        except PackageNotFoundError:
            state, detail = "OFF", "not installed"
            if name == "backports.zstd" and sys.version_info >= (3, 14):
                state, detail = "on ", "in the standard library"
        lines.append(f"{name:>22}: [ {state} ]  # {detail}: {purpose}")
    return lines


command = PerfCommand(VersionCommandOptions, show_version)
