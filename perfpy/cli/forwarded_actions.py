"""Actions that another command runs, above all the `record` actions of tools: which tracepoints each records, with which options."""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.cli.commands import load_command
from perfpy.cli.line.option_parsing import CommandOptions, Parser
from perfpy.cli.line.subcommands import Action, is_help, no_action, respell, without_repeated_spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, Final

    from perfpy.cli.line.option_parsing import Option


class OtherCommand(Action):
    """An action that another command runs with changed arguments.

    Args:
        name: the other command's name.
        summary: see Action.
        arguments: returns the other command's arguments; None: the same ones.
    """

    def __init__(self, name: str, summary: str, arguments: Callable[[Sequence[str]], list[str]] | None = None) -> None:
        super().__init__(CommandOptions, no_action, summary)
        self.name = name
        self._arguments = arguments

    def parser(self, args: Sequence[str]) -> Parser:
        """Parse the arguments by the other command's options. Raises UsageError."""
        return load_command(self.name).parser(args)

    def run(self, name: str, args: Sequence[str]) -> int:
        """Run the other command."""
        return load_command(self.name).run(self.name, args if self._arguments is None or is_help(args) else self._arguments(args))

    @property
    def usage(self) -> str:
        """The usage line after the action's name."""
        return load_command(self.name).usage


class ForwardingAction(Action):
    """An action with options of its own, which another command runs with its other options. Where both have a spelling, it means the
    action's option.

    Args:
        own_options: the action's own options.
        function: gets an instance of them and the arguments for the other command; returns the exit status.
        name: the other command's name.
        summary: see Action.
    """

    def __init__(self, own_options: type[CommandOptions], function: Callable[[Any, list[str]], int], name: str, summary: str) -> None:
        super().__init__(own_options, no_action, summary)
        self.name = name
        self._forward = function
        self._own = {id(option) for option in self.options}

    def parser(self, args: Sequence[str]) -> Parser:
        """Parse the arguments by the action's options and those of the other command. Raises UsageError."""
        parser = Parser(self.all_options, stops_at_word=load_command(self.name).runs_workload)
        parser.parse(args)
        return parser

    def run(self, name: str, args: Sequence[str]) -> int:
        """Call the function with the own options and the arguments for the other command."""
        parser = self.parser(args)
        status = self.print_help(name, args, parser)
        if status is not None:
            return status
        own = Parser([], stops_at_word=True)
        forwarded: list[str] = []
        options = {option.name: option for option in reversed(self.all_options)}
        names = {option.name for option in options.values() if id(option) in self._own}
        own.values = {field: value for field, value in parser.values.items() if field in names}
        for occurrence in parser.occurrences:
            if occurrence.name in names:
                own.occurrences.append(occurrence)
            else:
                forwarded.append(respell(options[occurrence.name], occurrence.value))
        return self._forward(self.options_class.read(own), forwarded + parser.words)

    @property
    def usage(self) -> str:
        """The usage line after the action's name."""
        return load_command(self.name).usage

    def help_text(self, name: str, about: Sequence[str] = ()) -> str:
        """Return the help of the options of both commands."""
        from perfpy.cli.line.help_text import help_about, help_text  # most runs print no help

        options = self.all_options
        return help_about(name, about, options, self.usage) if about else help_text(name, self.summary, options, self.usage)

    @property
    def runs_workload(self) -> bool:
        """Whether the other command runs a program."""
        return load_command(self.name).runs_workload

    @property
    def all_options(self) -> list[Option]:
        """The own options and those of the other command."""
        return without_repeated_spellings([*self.options, *load_command(self.name).options])


class ToolRecording(NamedTuple):
    """The recording that a tool reads.

    Attributes:
        options: of `perfpy record`.
        events: texts of -e by kind of event; see present_events.
    """

    options: str
    events: Mapping[str, str]


#: by tool, as perf 6.12 records
RECORDINGS: Final[Mapping[str, ToolRecording]] = {
    "kmem": ToolRecording(
        "-a -R -c 1",
        {
            "slab": "kmem:kmalloc kmem:kfree kmem:kmem_cache_alloc kmem:kmem_cache_free"
            " kmem:kmalloc_node| kmem:kmem_cache_alloc_node|",  # until Linux 6.1
            "page": "kmem:mm_page_alloc kmem:mm_page_free",
        },
    ),
    "kwork": ToolRecording(
        "-a -R -m 1024 -c 1",
        {
            "irq": "irq:irq_handler_entry irq:irq_handler_exit",
            "softirq": "irq:softirq_raise irq:softirq_entry irq:softirq_exit",
            "workqueue": "workqueue:workqueue_activate_work workqueue:workqueue_execute_start workqueue:workqueue_execute_end",
            "sched": "sched:sched_switch",
        },
    ),
    "kvm": ToolRecording("-R -m 1024 -c 1", {"exits": "kvm:kvm_entry| kvm:kvm_exit| kvm:kvm_mmio| kvm:kvm_pio| kvm:kvm_msr|"}),
    "lock": ToolRecording(
        "-R -m 1024 -c 1 --synth task",
        {"waits": "lock:contention_begin/call-graph=fp,max-stack=8/ lock:contention_end/call-graph=fp,max-stack=8/"},
    ),
    "sched": ToolRecording(
        "-a -R -m 1024 -c 1",
        {
            "switches": "sched:sched_switch",
            "statistics": "sched:sched_stat_wait| sched:sched_stat_sleep| sched:sched_stat_iowait|",  # of kernels with schedstats
            "tasks": "sched:sched_stat_runtime sched:sched_process_fork sched:sched_wakeup_new sched:sched_migrate_task",
            "wakeups": "sched:sched_waking|sched:sched_wakeup",
        },
    ),
    "timechart": ToolRecording(
        "-a -R -c 1", {"tasks": "sched:sched_wakeup sched:sched_switch", "power": "power:cpu_frequency power:cpu_idle"}
    ),
    "trace": ToolRecording("-R -m 1024 -c 1", {"calls": "raw_syscalls:sys_enter,raw_syscalls:sys_exit"}),
    "mem": ToolRecording("-d", {}),  # its events depend on the machine's PMUs
    "c2c": ToolRecording("-d --phys-data --sample-cpu", {}),
}


def run_record(
    tool: str, arguments: Sequence[str], *, kinds: Collection[str] = (), events: Iterable[str] = (), options: Sequence[str] = ()
) -> int:
    """Start `perfpy record` for a tool; return its exit status. See record_arguments."""
    return load_command("record").run("record", record_arguments(tool, arguments, kinds=kinds, events=events, options=options))


def record_arguments(
    tool: str, arguments: Sequence[str], *, kinds: Collection[str] = (), events: Iterable[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """Return the arguments of `perfpy record` for a tool.

    Args:
        tool: a key of RECORDINGS.
        arguments: more arguments, at the end.
        kinds: kinds of the tool's events; empty for all.
        events: texts of -e instead of the tool's own.
        options: more options.
    """
    recording = RECORDINGS[tool]
    texts = list(events) or [text for kind in kinds or recording.events for text in present_events(recording.events[kind].split())]
    return [*recording.options.split(), *options, *(word for text in texts for word in ("-e", text)), *arguments]


def present_events(texts: Iterable[str]) -> list[str]:
    """Return the first of alternatives such as "a:x|a:y" that the kernel has, else the last. After "a:x|" none is returned."""
    from perfpy.kernel.sysfs import Tracefs, mount_as_root

    tracefs = Tracefs(mount=mount_as_root)
    tracepoints: dict[str, set[str]] = {}
    events = []
    for text in texts:
        *preferred, last = text.split("|")
        for event in preferred:
            system, _, name = event.partition(":")
            if system not in tracepoints:
                tracepoints[system] = set(tracefs.events(system))
            if name in tracepoints[system]:
                events.append(event)
                break
        else:
            events += [last] if last else []
    return events
