"""`perfpy annotate`: where within its functions the time of a recording went.

What enters: perf annotate's options. What leaves: the code of functions with shares of samples: on a terminal the hottest ones for
people, else perf's plain text; or source files, line by line.
"""

from __future__ import annotations

from perfpy.cli.annotate.options import AnnotateCommandOptions
from perfpy.cli.line.options import PerfCommand


def run(asked: AnnotateCommandOptions) -> int:
    """Read a recording and show the code that was hot."""
    from perfpy.cli.line.opening import open_recording

    with open_recording(asked.input, force=asked.force, quiet=asked.quiet) as recording:
        # all that follows needs numpy
        from perfpy.cli.annotate.run import AnnotateRun

        return AnnotateRun(recording, asked).show()


command = PerfCommand(AnnotateCommandOptions, run)
