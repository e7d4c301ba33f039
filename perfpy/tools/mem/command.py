"""`perfpy mem`: memory accesses with their latency, data and source. Options are perf mem's (perf-mem(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.commands import load_command
from perfpy.cli.forwarded_actions import ForwardingAction, run_record
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Flag, Listed, Value, fail, option, parse_unsigned
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions, VerboseOptions
from perfpy.cli.line.subcommands import CommandWithActions
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.errors import PerfError
from perfpy.kernel.sysfs import Sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.kernel.sysfs import Pmu


def report_arguments(options: MemReportOptions) -> list[str]:
    """Return the arguments of `perfpy report` for the options of `perfpy mem report`."""
    arguments = ["--mem-mode", "-n"]
    keys = ",".join(_sort_keys(options))
    arguments += [f"--sort={keys}"] if keys else []
    arguments += [f"--input={options.input}"] if options.input else []
    arguments += [f"--cpu={options.cpu}"] if options.cpu else []
    arguments += ["--force"] if options.force else []
    arguments += ["--hide-unresolved"] if options.hide_unresolved else []
    arguments += [f"--field-separator={options.separator}"] if options.separator else []
    return arguments + ["-v"] * options.verbose


def _sort_keys(options: MemReportOptions) -> Iterator[str]:
    """Yield perf mem's sort keys; nothing for those of report --mem-mode."""
    more = ["phys_daddr"] if options.phys_data else []
    more += ["data_page_size"] if options.data_page_size else []
    if options.sort_keys:
        yield options.sort_keys
        yield from more
        return
    if LOADS in options.access_kinds and not more:
        return
    if LOADS in options.access_kinds:
        yield "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked"
    else:
        yield "mem,sym,dso,symbol_daddr,dso_daddr,tlb,locked"
    yield from more


def print_samples(options: MemReportOptions, arguments: list[str]) -> int:
    """Print the accesses that the options of report leave, for `perfpy mem report ARGUMENTS`."""
    from perfpy.cli.report.run import ReportRequest
    from perfpy.tools.mem.accesses import AccessColumns, access_lines

    parser = load_command("report").parser([*report_arguments(options.replace(sort_keys="", separator="")), *arguments])
    chosen = ReportCommandOptions.read(parser)
    with open_recording(
        chosen.input, force=chosen.force, quiet=chosen.quiet, verbose=chosen.verbose, itrace=chosen.itrace or MEMORY_SAMPLES
    ) as recording:
        request = ReportRequest(recording, chosen, load_config())
        columns = AccessColumns(options.phys_data, options.data_page_size, options.hide_unresolved, options.separator or " ")
        part = recording.narrowed(request.sample_filter(), request.symbol_options(plain=True))
        print_lines(access_lines(part, columns))
    return 0


LOADS: Final = "load"
STORES: Final = "store"
MEMORY_SAMPLES: Final = "M"  #: of --itrace: one for each access of a trace
LATENCY: Final = 30  # cycles; shorter loads are no samples
_AMD_LATENCIES: Final = (128, 2048)  # cycles, the limits of ibs_op's ldlat (arch/x86/events/amd/ibs.c)
_ARM_TRACER: Final = "arm_spe_"
_AMD_SAMPLER: Final = "ibs_op"


class MemoryEvent:
    """An event that samples memory accesses with address, latency and source.

    Intel: mem-loads and mem-stores of the core PMUs; AMD: ibs_op; Arm: the statistical profiling extension (arm_spe_0);
    POWER: mem-loads and mem-stores. Which PMU has which: the kernel's drivers, and perf-mem(1).

    Attributes:
        tag: its name for `-e`, as perf's.
        text: in the event language.
        kinds: the accesses that it samples: LOADS, STORES.
    """

    __slots__ = ("kinds", "tag", "text")

    def __init__(self, tag: str, text: str, *kinds: str) -> None:
        self.tag = tag
        self.text = text
        self.kinds = kinds


def memory_events(sysfs: Sysfs, latency: int = -1) -> list[MemoryEvent]:
    """Return the events of this machine's PMUs.

    Args:
        latency: sample only loads that take as many cycles, where the PMU can select them; -1 for perf's default: 30, with ibs_op all.

    Raises PerfError for a latency that the PMU cannot select.
    """
    return [event for pmu in sysfs.pmus for event in _events_of(pmu, latency)]


def _events_of(pmu: Pmu, latency: int) -> Iterator[MemoryEvent]:
    name = pmu.name
    if name == _AMD_SAMPLER:
        least, most = _AMD_LATENCIES
        if "ldlat" in pmu.formats and latency > 0 and not least <= latency <= most:
            raise PerfError(f"--ldlat {latency}: {name} selects loads of {least} to {most} cycles or more; 0 for all")
        terms = f"ldlat={max(latency, 0)}" if "ldlat" in pmu.formats else ""
        yield MemoryEvent("mem-ldst", f"{name}/{terms}/", LOADS, STORES)
    latency = LATENCY if latency < 0 else latency
    if pmu.is_core:
        yield from _core_events(pmu, latency)
    elif name.startswith(_ARM_TRACER):
        common, longer = "ts_enable=1,pa_enable=1", f"min_latency={latency}"
        yield MemoryEvent("spe-load", f"{name}/{common},load_filter=1,store_filter=0,{longer}/", LOADS)
        yield MemoryEvent("spe-store", f"{name}/{common},load_filter=0,store_filter=1/", STORES)
        yield MemoryEvent("spe-ldst", f"{name}/{common},load_filter=1,store_filter=1,{longer}/", LOADS, STORES)


def _core_events(pmu: Pmu, latency: int) -> Iterator[MemoryEvent]:
    name, has_latency = pmu.name, "ldlat" in pmu.formats
    prefix, modifier = ("ldlat-", "P") if has_latency else ("", "")
    if "mem-loads" in pmu.alias_names:
        loads = f"{name}/mem-loads,ldlat={latency}/{modifier}" if has_latency else f"{name}/mem-loads/"
        if "mem-loads-aux" in pmu.alias_names:
            loads = f"{{{name}/mem-loads-aux/,{name}/mem-loads,ldlat={latency}/}}:{modifier}"
        yield MemoryEvent(f"{prefix}loads", loads, LOADS)
    if "mem-stores" in pmu.alias_names:
        yield MemoryEvent(f"{prefix}stores", f"{name}/mem-stores/{modifier}", STORES)


def choose_memory_events(events: Sequence[MemoryEvent], names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Return the texts of the events to record: the named ones, or else those for exactly these kinds of accesses.

    Raises PerfError if the machine has none, UsageError for an unknown name.
    """
    if not events:
        raise PerfError(
            "no PMU of this machine samples memory accesses; it needs Intel's mem-loads, AMD's ibs_op or Arm's arm_spe_0, which virtual"
            " machines seldom have (perfpy list pmu shows this machine's); perfpy record -d -e page-faults samples addresses without one"
        )
    if names:
        tags = dict.fromkeys(event.tag for event in events)
        for name in names:
            if name not in tags:
                raise PerfError(f"-e {name}: unknown memory event; expected {', '.join(tags)}")
        return [event.text for name in names for event in events if event.tag == name]
    chosen = [event for event in events if set(event.kinds) == set(kinds)] or [
        event for event in events if len(event.kinds) == 1 and event.kinds[0] in kinds
    ]
    if not chosen:
        raise PerfError(f"-t {','.join(kinds)}: {events[0].text} samples loads and stores together; drop -t")
    return [event.text for event in chosen]


_LACKING: Final[Mapping[str, str]] = {
    "-T,--type-profile": "it needs the types of data in debug information; -s symbol_daddr,dso_daddr shows the data",
}


class MemOptions(VerboseOptions):
    """Options of all actions."""

    kinds: str = option("-t,--type", Value(default=""), "kinds of accesses: load, store (default: load,store)", metavar="<type>")
    phys_data: bool = option("-p,--phys-data", Flag(), "include physical addresses of data")
    data_page_size: bool = option("--data-page-size", Flag(), "include page sizes of data")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")

    @property
    def access_kinds(self) -> tuple[str, ...]:
        """The kinds of -t; both without it. Rejects unknown words."""
        words = tuple(word for word in self.kinds.split(",") if word)
        for word in words:
            if word not in (LOADS, STORES):
                fail(f"-t {word}: unknown kind of access; expected {LOADS} or {STORES}")
        return words or (LOADS, STORES)


class MemReportOptions(MemOptions, InputOptions, lacks=_LACKING):
    """Options of `perfpy mem report`."""

    dump_raw_samples: bool = option("-D,--dump-raw-samples", Flag(), "print every access on a line")
    sort_keys: str = option(
        "-s,--sort", Value(default=""), "sort by these keys: mem, sym, symbol_daddr, dcacheline", metavar="<key[,key2...]>"
    )
    hide_unresolved: bool = option("-U,--hide-unresolved", Flag(), "hide entries without a symbol")
    separator: str = option("-x,--field-separator", Value(default=""), "separate columns with this string", metavar="<separator>")


class AccessRecordOptions(VerboseOptions):
    """Options of `perfpy mem record` and `perfpy c2c record`, with the letters of mem."""

    events: tuple[str, ...] = option("-e,--event", Listed(), "memory events; -e list shows this machine's", metavar="<event>")
    kernel_only: bool = option("-K,--all-kernel", Flag(), "sample only the kernel")
    user_only: bool = option("-U,--all-user", Flag(), "sample only user code")
    ldlat: int = option(
        "--ldlat",
        Value(parse_unsigned, default=-1),
        f"sample loads of n or more cycles (default: {LATENCY}, AMD: all)",
        metavar="<n>",
    )


class MemRecordOptions(MemOptions, AccessRecordOptions):
    """Options of `perfpy mem record`."""


def _report(options: MemReportOptions, arguments: list[str]) -> int:
    if options.dump_raw_samples:
        return print_samples(options, arguments)
    return load_command("report").run("report", [*report_arguments(options), *arguments])


def _record(options: MemRecordOptions, arguments: list[str]) -> int:
    own = ["--phys-data"] if options.phys_data else []
    own += ["--data-page-size"] if options.data_page_size else []
    own += [f"--cpu={options.cpu}"] if options.cpu else []
    return record_accesses("mem", options, options.access_kinds, own, arguments)


def record_accesses(
    tool: str, options: AccessRecordOptions, kinds: Sequence[str], own_options: Sequence[str], arguments: Sequence[str]
) -> int:
    """Start `perfpy record` with events that sample accesses of these kinds, or list the events. Raises PerfError if no PMU can.

    Args:
        tool: mem or c2c.
        options: of its action.
        kinds: LOADS, STORES.
        own_options: more options of record.
        arguments: the rest of the command line.
    """
    events = memory_events(Sysfs(), options.ldlat)
    if "list" in options.events:
        choose_memory_events(events, (), (LOADS, STORES))  # refuses a machine without any
        texts_of: dict[str, list[str]] = {}
        for event in events:
            texts_of.setdefault(event.tag, []).append(event.text)
        given = [occurrence.name for occurrence in options.in_order("verbose", "events")]
        with_texts = "verbose" in given[: given.index("events")]  # perf lists them when it reads -e
        for tag, texts in texts_of.items():
            print(f"{tag:13}" + (f"{','.join(texts):25}" if with_texts else "") + ": available")
        return 0
    names = [name for text in options.events for name in text.split(",")]
    texts = choose_memory_events(events, names, kinds)
    loads = [event.text for event in events if (event.kinds == (LOADS,) if names else LOADS in event.kinds)]
    modes = ["--weight"] if not set(texts).isdisjoint(loads) else []  # only loads have a latency
    modes += [*(["--all-kernel"] if options.kernel_only else []), *(["--all-user"] if options.user_only else [])]
    return run_record(tool, arguments, events=texts, options=[*own_options, *modes, *["-v"] * options.verbose])


command = CommandWithActions(
    MemOptions,
    {
        "record": ForwardingAction(MemRecordOptions, _record, "record", "record memory accesses; also takes the options of record"),
        "report": ForwardingAction(MemReportOptions, _report, "report", "the accesses by kind; also takes the options of report"),
    },
    "Show memory accesses: their latency, the data, and the cache or memory that served them.",
)
