"""`perfpy kvm stat record`: record the tracepoints of virtual machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.kvm.options import DEFAULT_FILE
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from perfpy.cli.kvm.options import KvmOptions

_EVENTS: Final = ("kvm_entry", "kvm_exit", "kvm_mmio", "kvm_pio")


def record_arguments(options: KvmOptions) -> list[str]:
    """Return the arguments of `perfpy record` for the options of `perfpy kvm stat record`. Raises PerfError without tracepoints."""
    from perfpy.kernel.tracefs import Tracefs, mount_as_root

    present = set(Tracefs(mount=mount_as_root).events("kvm"))
    names = [name for name in _EVENTS if name in present]
    if "kvm_exit" not in names:
        raise PerfError("this kernel has no tracepoint kvm:kvm_exit; load the module kvm (modprobe kvm), or record on the host")
    arguments = ["-R", "-m", "1024", "-c", "1", *(word for name in names for word in ("-e", f"kvm:{name}"))]
    return [*arguments, f"--output={options.output or DEFAULT_FILE}", *["-v"] * options.verbose]
