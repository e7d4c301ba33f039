"""A /sys in which a CPU's PMUs stand, whatever this machine has, for one command in a mount namespace of its own.

Input: the names of PMUs and a command. Output: the command line that
runs it there, which only those may run who may mount; the kernel's layout is
that of Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
"""

from __future__ import annotations

_SCRIPT = """
devices=/sys/bus/event_source/devices
mount -t tmpfs none $devices && mount -t tmpfs none /sys/kernel/tracing || exit 9
mkdir /sys/kernel/tracing/events
number=40
for pmu in $1; do
    mkdir -p $devices/$pmu/format $devices/$pmu/events
    number=$((number + 1))
    echo $number >$devices/$pmu/type
    case $pmu in cpu) echo 4 >$devices/$pmu/type ;; cpu_*) echo 0 >$devices/$pmu/cpus ;; *) echo 0 >$devices/$pmu/cpumask ;; esac
    echo config:0-7 >$devices/$pmu/format/event
    echo config:8-15 >$devices/$pmu/format/umask
done
shift
exec "$@"
"""


def with_pmus(core: str, units: str, *command: str) -> list[str]:
    """The command line. core: the CPU's own PMUs, units: those beside it, each a list of words."""
    pmus = " ".join(
        [*core.split(), *(f"{unit}_0" if unit.startswith("uncore_") and not unit[-1].isdigit() else unit for unit in units.split())]
    )
    return ["unshare", "-m", "sh", "-c", _SCRIPT, "sh", pmus, *command]
