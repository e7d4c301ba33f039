"""`perfpy latency`: record entries and returns of a function by temporary probes, and show the durations of its calls."""

from __future__ import annotations

from perfpy.cli.latency.options import LatencyCommandOptions
from perfpy.cli.line.options import PerfCommand, fail


def run(options: LatencyCommandOptions) -> int:
    """Show how long the calls of a function take: percentiles, a histogram, the slowest calls, time on and off the CPU.

    With --of, show the distributions of the kernel's latencies in a recording.
    """
    if options.of:
        if options.words or options.pid:
            fail("--of reads a recording; drop the function, the command and -p")
        from perfpy.cli.latency.kernel_latencies import show_distributions  # needs numpy

        return show_distributions(options)
    if options.input:
        fail("-i needs --of: runqueue, syscalls, block, locks, softirq or irq")
    if not options.words:
        fail("latency needs a function: perfpy latency FUNCTION -p PID, or perfpy latency FUNCTION -- COMMAND")
    from perfpy.cli.latency.measuring import measure  # needs numpy

    function, *command = options.words
    return measure(options, function, command)


class _LatencyCommand(PerfCommand[LatencyCommandOptions]):
    """The command, whose options may stand on both sides of the function."""

    def run(self, name: str, args: list[str]) -> int:  # type: ignore[override]
        """Move the function behind the options that follow it, and run."""
        parser = self.parser(args)
        words = parser.words
        index = len(args) - len(words)
        if words and index >= 0 and len(words) > 1 and words[1].startswith("-") and not (index and args[index - 1] == "--"):
            rest = list(words[1:])
            end = rest.index("--") if "--" in rest else len(rest)
            args = [*args[:index], *rest[:end], "--", words[0], *rest[end + 1 :]]
        return super().run(name, args)


command = _LatencyCommand(LatencyCommandOptions, run)
