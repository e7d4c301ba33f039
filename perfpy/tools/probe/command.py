"""`perfpy probe`: add, list and delete dynamic probes; show lines, variables and functions to probe."""

from __future__ import annotations

from perfpy.cli.line.option_parsing import PerfCommand, fail
from perfpy.tools.probe.options import ALL_PROBES, ProbeCommandOptions


def run(options: ProbeCommandOptions) -> int:
    """Add, list and delete dynamic probes in programs and the kernel; show lines, variables and functions to probe."""
    if options.words and options.words[0].startswith("/") and not options.exec_path and not options.module:
        options = options.replace(exec_path=options.words[0], words=options.words[1:])
    if options.quiet and options.verbose:
        fail("-q and -v exclude each other")
    are_given = {
        "-a": bool(options.add or options.words),
        "-d": bool(options.delete),
        "-D": bool(options.definition),
        "-l": options.list_probes is not None,
        "-L": options.line is not None,
        "-V": bool(options.variables),
        "-F": options.functions is not None,
    }
    chosen = [name for name, is_given in are_given.items() if is_given]
    if len(chosen) > 1:
        fail(f"{chosen[0]} and {chosen[1]} exclude each other")
    if not chosen:
        fail("no action; give a point to probe, -a, -d, -D, -l, -L, -V or -F")
    # --help needs no numpy
    from perfpy.cli.line.numpy_start import prepare_numpy

    prepare_numpy()
    from perfpy.tools.probe import actions

    match chosen[0]:
        case "-a":
            return actions.add(options, [*options.add, *([" ".join(options.words)] if options.words else [])])
        case "-d":
            return actions.delete(options.delete, dry_run=options.dry_run, quiet=options.quiet)
        case "-D":
            return actions.print_definitions(options, options.definition)
        case "-l":
            if options.exec_path:
                fail("-l lists the probes of all programs; drop -x")
            return actions.print_probes(options.list_probes or ALL_PROBES, options)
        case "-L":
            return actions.print_lines(options, options.line or "")
        case "-V":
            return actions.print_variables(options, options.variables)
    return actions.print_functions(options, options.functions or "")


command = PerfCommand(ProbeCommandOptions, run)
