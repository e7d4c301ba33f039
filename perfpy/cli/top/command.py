"""`perfpy top`: what runs now, updated every two seconds."""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.top.options import TopCommandOptions


def run(options: TopCommandOptions) -> int:
    """Show what runs now, updated until q or Ctrl-C."""
    if options.cgroups and not options.event:
        fail("--cgroup requires -e before it")
    if options.json and options.stdio:
        fail("--json excludes --stdio")
    if options.by and (options.sort or options.fields):
        fail("--by excludes --sort and --fields")
    for name, is_given in (("--children", options.children), ("--json", options.json)):
        if options.hierarchy and is_given:
            fail(f"--hierarchy excludes {name}")
    if options.freq is not None and options.period is not None:
        fail("-F excludes -c")
    if options.off_cpu:
        _check_waits(options)
    if options.prefix_strip and not options.prefix:
        fail("--prefix-strip requires --prefix")
    from perfpy.cli.line.opening import prepare_numpy  # --help needs neither the kernel nor numpy
    from perfpy.cli.top.start import Start

    with Start(runs_programs=bool(options.sym_annotate)) as start:
        prepare_numpy()
        from perfpy.cli.top.run import TopRun

        return TopRun(options, start).run()


def _check_waits(options: TopCommandOptions) -> None:
    for name, is_given in (("--python", options.python), ("--overwrite", options.overwrite)):
        if is_given:
            fail(f"--off-cpu excludes {name}")
    if options.by in ("cgroup", "container"):
        fail(f"--off-cpu excludes --by {options.by}, because samples of waits have no cgroup")
    if (options.call_graph or "").startswith("dwarf"):
        fail("--off-cpu reads callchains by frame pointers; drop --call-graph dwarf, or use perfpy record --off-cpu --call-graph dwarf")


command = PerfCommand(TopCommandOptions, run)
