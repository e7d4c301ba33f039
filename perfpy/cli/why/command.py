"""`perfpy why`: explain where the time of a program went, and who waited for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.output.terminal import print_lines, wrap_lines
from perfpy.cli.why.options import WhyCommandOptions

if TYPE_CHECKING:
    from perfpy.analysis.why.tasks import StartedCommand

_LONGEST = 365 * 86400  # seconds
_MOST_PIDS = 1 << 31


def run(options: WhyCommandOptions) -> int:
    """Explain why a program is slow: what its threads do, what they wait for, and which thread keeps them waiting."""
    pids = _pids(options.pid)
    if options.duration < 0 or options.duration > _LONGEST:
        fail(f"--duration {options.duration}: a number of seconds up to {_LONGEST}")
    if options.workload and options.input:
        fail(f"-i {options.input} excludes a command to run")
    if options.workload and pids:
        fail("why takes either -p PID or a command")
    if options.workload or (pids and not options.input):
        from perfpy.cli.why.measuring import check_processes, record_and_explain
        from perfpy.cli.why.watching import can_record, watch

        check_processes(pids)
        if not can_record():
            return watch(options, pids)
        return record_and_explain(options, lambda path, started: explain_file(options, path, pids, started))
    explain_file(options, options.input, pids)
    return 0


def explain_file(options: WhyCommandOptions, path: str, pids: list[int], started: StartedCommand | None = None) -> None:
    """Print the explanation of a recording. started: its command, of a recording of this process."""
    from perfpy.analysis.why.explanation import explain
    from perfpy.cli.line.perfconfig import load
    from perfpy.cli.line.symbol_values import symbol_options_of
    from perfpy.views.why.as_json import why_json
    from perfpy.views.why.text import why_lines

    with open_recording(path, force=options.force, quiet=options.quiet) as recording:
        symbolizer = recording.symbolizer(symbol_options_of(options, load(), recording, force=options.force))
        explanation = explain(recording.data, symbolizer, pids, started)
        if options.chrome_trace:
            from perfpy.cli.output.output_files import write_text  # rarely needed
            from perfpy.views.why.chrome_trace import chrome_trace

            write_text(options.chrome_trace, chrome_trace(explanation))
        if options.as_json:
            print(why_json(explanation))
        else:
            print_lines(wrap_lines(why_lines(explanation, stacks=options.verbose > 0)))


def _pids(text: str) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.isdecimal() and word.isascii() and 0 < int(word) < _MOST_PIDS for word in words):
        fail(f"-p {text!r}: expected process ids, separated by commas")
    return [int(word) for word in words]


command = PerfCommand(WhyCommandOptions, run)
