"""`perfpy script`: print every sample of a recording as a line of text, or pass it to a program."""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.script.options import ScriptCommandOptions


def run(options: ScriptCommandOptions) -> int:
    """Read a recording and print every sample."""
    from perfpy.cli.line.opening import open_recording

    if options.list:
        from perfpy.cli.script.programs import list_scripts

        return list_scripts()
    if options.py and options.script:
        fail("-s and --py exclude each other")
    if options.words and not (options.script or options.py):
        return _run_named(options)
    if options.reltime and options.deltatime:
        fail("--reltime and --deltatime exclude each other")
    from perfpy.cli.script.run import SampleListing, output_fields

    if options.trace_fields and options.fields:
        fail("--call-trace, --call-ret-trace and --insn-trace exclude -F")
    fields = output_fields([*options.trace_fields, *options.fields])
    with open_recording(
        options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, as_stored=options.as_stored
    ) as recording:
        return SampleListing(recording, options, fields).show()


def _run_named(options: ScriptCommandOptions) -> int:
    import os

    from perfpy.cli.line.opening import input_hint
    from perfpy.cli.script.programs import run_named

    word = options.words[0]
    if word not in ("record", "report") and os.path.exists(word):
        fail(f"unexpected argument '{word}'" + input_hint(word))
    return run_named(options.words, everywhere=options.all_cpus)


command = PerfCommand(ScriptCommandOptions, run)
