"""`perfpy annotate`: show the code of functions, or source files, with shares of samples.

On a terminal it shows the hottest functions, else perf's plain text.
"""

from __future__ import annotations

from perfpy.cli.annotate.options import AnnotateCommandOptions
from perfpy.cli.line.options import PerfCommand


def run(options: AnnotateCommandOptions) -> int:
    """Read a recording and show the code of its hot functions."""
    from perfpy.cli.line.opening import open_recording

    with open_recording(options.input, force=options.force, quiet=options.quiet) as recording:
        # everything below needs numpy
        from perfpy.cli.annotate.run import AnnotateRun

        return AnnotateRun(recording, options).show()


command = PerfCommand(AnnotateCommandOptions, run)
