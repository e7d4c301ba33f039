"""Options of `perfpy kvm` and its actions: perf kvm's (perf-kvm(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Value, parse_unsigned
from perfpy.cli.line.options import option
from perfpy.cli.line.shared import InputOptions, StdioOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROFILES: Final = "it is for profiles of guests, which perfpy does not have: perfpy record inside the guest"
_LACKING: Final[Mapping[str, str]] = dict.fromkeys(
    ("--host", "--guest", "--guest-code", "--guestmount", "--guestkallsyms", "--guestmodules", "--guestvmlinux"), _PROFILES
)
#: the file of perf kvm for guests
DEFAULT_FILE: Final = "perf.data.guest"


class KvmOptions(InputOptions, VerboseOptions, lacks=_LACKING):
    """Options of all actions."""

    output: str = option("-o,--output", Value(default=""), f"write the recording to this file (default: {DEFAULT_FILE})", metavar="<file>")


class KvmReportOptions(KvmOptions, StdioOptions):
    """Options of `perfpy kvm stat report`."""

    event: str = option("--event", Value(default="vmexit"), "report these events: vmexit, mmio, ioport", metavar="<report event>")
    vcpu: int = option("--vcpu", Value(parse_unsigned, default=-1), "only this virtual CPU", metavar="<n>")
    key: str = option("-k,--key", Value(default="sample"), "sort by sample, time, max_t, min_t or mean_t", metavar="<sort-key>")
    pid: str = option("-p,--pid", Value(default=""), "only these processes", metavar="<pid>")
