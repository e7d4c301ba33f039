"""`perfpy script`: print every sample of a recording as a line of text, or pass it to a program."""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.script.options import ScriptCommandOptions


def run(asked: ScriptCommandOptions) -> int:
    """Read a recording and print every sample."""
    from perfpy.cli.line.opening import open_recording

    if asked.list:
        from perfpy.cli.script.programs import list_scripts

        return list_scripts()
    if asked.py and asked.script:
        fail("-s and --py exclude each other")
    if asked.words and not (asked.script or asked.py):
        return _run_named(asked)
    if asked.reltime and asked.deltatime:
        fail("--reltime and --deltatime exclude each other")
    from perfpy.cli.script.run import SampleListing, output_fields

    if asked.trace_fields and asked.fields:
        fail("--call-trace, --call-ret-trace and --insn-trace exclude -F")
    fields = output_fields([*asked.trace_fields, *asked.fields])
    with open_recording(asked.input, force=asked.force, quiet=asked.quiet, verbose=asked.verbose, as_stored=asked.as_stored) as recording:
        return SampleListing(recording, asked, fields).show()


def _run_named(asked: ScriptCommandOptions) -> int:
    import os

    from perfpy.cli.line.opening import input_hint
    from perfpy.cli.script.programs import run_named

    word = asked.words[0]
    if word not in ("record", "report") and os.path.exists(word):
        fail(f"unexpected argument '{word}'" + input_hint(word))
    return run_named(asked.words, everywhere=asked.all_cpus)


command = PerfCommand(ScriptCommandOptions, run)
